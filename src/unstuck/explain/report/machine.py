"""The verdict as JSON: for agents, schedulers and scripts."""

import msgspec

from unstuck.model.verdict import Verdict, VerdictFile

_FIRST = ("schema", "verdict")


def render(verdict: Verdict | None) -> str:
    """Return the verdict file as indented JSON; keys always come in the same order.

    Example:
        render(None)  # '{\\n  "schema": "unstuck.verdict/1",\\n  "verdict": null\\n}\\n'
    """
    return msgspec.json.format(_encode(verdict), indent=2).decode() + "\n"


def line(verdict: Verdict | None) -> str:
    """Return the verdict file as one line of JSON."""
    return _encode(verdict).decode() + "\n"


def _encode(verdict: Verdict | None) -> bytes:
    plain = msgspec.to_builtins(VerdictFile(verdict))
    return msgspec.json.encode({key: plain[key] for key in _FIRST})
