"""What the JSON report on a rank's page means, in terms of the model."""

from collections.abc import Hashable
from typing import Any

from unstuck.model.rank import CodeLine, Failure
from unstuck.observe.node import source_text
from unstuck.observe.node.loops import loops_around
from unstuck.observe.probe.page import Page


def frontier(page: Page) -> Hashable:
    """Return what must change for a rank to make progress; beats and stacks do not count."""
    report = page.report
    return (
        page.step,
        page.section_changes,
        report.get("phase"),
        tuple(report.get("groups", {}).items()),
        tuple((key, *value) for key, value in report.get("status", {}).items()),
        report.get("p2p_issued"),
        len(report.get("p2p", ())),
    )


def waits_for_others(report: dict[str, Any]) -> bool:
    """Tell whether an operation with other ranks is in flight."""
    if report.get("phase") == "init" or report.get("p2p"):
        return True
    return any(enqueued > completed for enqueued, completed in report.get("status", {}).values())


def loops_left(report: dict[str, Any]) -> tuple[str, ...] | None:
    """Name the loops around the place where the rank left the job."""
    return loops_around((file, line) for file, line in report["left"]["stack"])


def stack(report: dict[str, Any]) -> tuple[CodeLine, ...]:
    """Return the frames that the rank itself reports, innermost first."""
    return tuple(
        CodeLine(
            file=file,
            line=number,
            function=function,
            text=source_text.line(file, number) if user or not index else "",
            user=user,
        )
        for index, (file, number, function, user) in enumerate(report.get("frames", []))
    )


def failure(report: dict[str, Any], now: float) -> Failure | None:
    """Return the exception that ends the rank; None without one."""
    found = report.get("failure")
    if not found:
        return None
    at = found["at"] and CodeLine(*found["at"], text=source_text.line(*found["at"][:2]), user=True)
    since = round(now - found["time"], 3)
    return Failure(type=found["type"], message=found["message"], age=since, at=at)


def age(then: float | None, now: float) -> float | None:
    """Return how long ago something was; None where it was not."""
    return None if then is None else round(max(0.0, now - then), 3)
