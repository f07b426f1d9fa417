"""The verdict as JSON: for agents, schedulers and scripts."""

from typing import Any

import msgspec

from unstuck.console import ACTS_ON_TERMINALS as _ACTS
from unstuck.model.verdict import Verdict, VerdictFile


def render(verdict: Verdict | None) -> str:
    """Return the verdict file as indented JSON; keys always come in the same order.

    Example:
        render(None)  # '{\\n  "schema": "unstuck.verdict/1",\\n  "verdict": null\\n}\\n'
    """
    return msgspec.json.format(line(verdict), indent=2)


def line(verdict: Verdict | None) -> str:
    """Return the verdict file as one line of JSON."""
    return escaped(msgspec.json.encode(plain(verdict)).decode()) + "\n"


def escaped(text: str) -> str:
    """Return the same JSON with what a terminal would act on escaped: it may be shown on one."""
    return _ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain(verdict: Verdict | None) -> dict[str, Any]:
    """Return the verdict file as a dictionary, the schema first."""
    file = msgspec.to_builtins(VerdictFile(verdict))
    return {"schema": file["schema"], "verdict": file["verdict"]}
