"""The verdict as JSON: for agents, schedulers and scripts."""

from typing import Any

import msgspec

from unstuck.model.verdict import Verdict, VerdictFile


def render(verdict: Verdict | None) -> str:
    """Return the verdict file as indented JSON; keys always come in the same order.

    Example:
        render(None)  # '{\\n  "schema": "unstuck.verdict/1",\\n  "verdict": null\\n}\\n'
    """
    return msgspec.json.format(line(verdict), indent=2)


def line(verdict: Verdict | None) -> str:
    """Return the verdict file as one line of JSON."""
    return msgspec.json.encode(plain(verdict)).decode() + "\n"


def plain(verdict: Verdict | None) -> dict[str, Any]:
    """Return the verdict file as a dictionary, the schema first."""
    file = msgspec.to_builtins(VerdictFile(verdict))
    return {"schema": file["schema"], "verdict": file["verdict"]}
