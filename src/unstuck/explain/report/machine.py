"""The verdict as JSON: for agents, schedulers and scripts."""

import msgspec

from unstuck.model.verdict import Verdict, VerdictFile

_FIRST = ("schema", "verdict")


def render(verdict: Verdict | None) -> str:
    """Return the verdict file as indented JSON; keys always come in the same order.

    Example:
        render(None)  # '{\\n  "schema": "unstuck.verdict/1",\\n  "verdict": null\\n}\\n'
    """
    plain = msgspec.to_builtins(VerdictFile(verdict))
    ordered = {key: plain[key] for key in _FIRST}
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2).decode() + "\n"
