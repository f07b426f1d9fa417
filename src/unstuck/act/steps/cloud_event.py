"""The verdict as a CloudEvent (version 1.0, structured JSON): for event buses and functions."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from unstuck.explain.report import machine
from unstuck.model.verdict import Verdict

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
TYPE = "unstuck.verdict"
"""The type of the event; `data` is the verdict file, `unstuck.verdict/1`."""


def of_verdict(verdict: Verdict, source: str = "") -> dict[str, Any]:
    """Return the event. Its id stays the same when it is sent again.

    Example:
        of_verdict(verdict, "host1/20261118-train")["type"]   # "unstuck.verdict"
    """
    data = machine.plain(verdict)
    content = machine.line(verdict).encode()
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": sha256(source.encode() + b"\0" + content).hexdigest()[:32],
        "source": f"/unstuck/{quote(source)}" if source else "/unstuck",
        "type": TYPE,
        "time": verdict.made_at or datetime.now(UTC).isoformat(timespec="milliseconds"),
        "datacontenttype": "application/json",
        # Extension attributes, so that a filter need not look into the data.
        "cause": str(verdict.cause),
        "confidence": str(verdict.confidence),
        "data": data,
    }
    if verdict.culprits:
        event["subject"] = ",".join(f"rank {one.rank}" for one in verdict.culprits[:8])
    return event
