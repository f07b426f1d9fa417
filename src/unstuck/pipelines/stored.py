"""From an incident that was stored to a verdict: read, diagnose again, advise.

What was stored is an incident bundle, or flight-recorder dumps that PyTorch itself wrote.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from unstuck._version import __version__
from unstuck.collect import bundle
from unstuck.diagnose.diagnose import diagnose
from unstuck.diagnose.text import ranks_text
from unstuck.errors import UsageError
from unstuck.explain.recall import explained
from unstuck.model.diagnosis import Diagnosis
from unstuck.model.verdict import Evidence, Verdict
from unstuck.observe.dumps import files, gaps, to_snapshot


class Judged(Struct, frozen=True):
    """What was found in a stored incident, ready to be shown."""

    verdict: Verdict | None
    source: str
    """What was looked at, as in "nothing is wrong in ..."."""
    bundle: Path | None = None
    notes: tuple[str, ...] = ()
    """What the reader should know besides: gaps in the dumps, a verdict that has changed."""


def judge(paths: Sequence[Path]) -> Judged:
    """Diagnose one incident bundle, or any number of flight-recorder dumps.

    Example:
        judge([Path("runs/7/incident-1")]).verdict
    """
    if _are_dumps(paths[0]):
        return from_dumps(paths)
    if len(paths) != 1:
        raise UsageError("several paths can be given for flight-recorder dumps only")
    return from_bundle(paths[0])


def _are_dumps(path: Path) -> bool:
    if path.is_file():
        return path.name not in bundle.FILES
    return path.is_dir() and not bundle.is_at(path) and bool(files.find([path]))


def from_bundle(path: Path) -> Judged:
    """Diagnose the snapshot in a bundle, and note where the stored verdict was another one."""
    incident = bundle.read(path)
    diagnosis = diagnose(incident.snapshot)
    fresh, notes = diagnosis.verdict, _broken(diagnosis)
    if _answer(fresh) != _answer(incident.verdict):
        stored_by = incident.about.get("unstuck", "of unknown version")
        notes += (
            f"this verdict differs from the stored one ({_short(incident.verdict)}); "
            f"stored by unstuck {stored_by}, read by {__version__}",
        )
    verdict = explained(fresh, incident.snapshot) if fresh else None
    return Judged(verdict, "this snapshot", incident.path, notes)


def from_dumps(paths: Sequence[Path]) -> Judged:
    """Diagnose dumps of PyTorch's flight recorder; what is missing in them becomes evidence."""
    reading = files.read(paths)
    snapshot = to_snapshot.make_snapshot(reading)
    missing = gaps.notes(reading, snapshot)
    diagnosis = diagnose(snapshot)
    fresh = diagnosis.verdict
    noted = replace(fresh, evidence=fresh.evidence + missing) if fresh else None
    verdict = explained(noted, snapshot) if noted else None
    count = len({dump.rank for dump in reading.dumps})
    source = "the dump of 1 rank" if count == 1 else f"the dumps of {count} ranks"
    return Judged(verdict, source, None, _broken(diagnosis) + tuple(map(_note, missing)))


def _broken(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Say what could not be judged, which is a bug in unstuck."""
    return tuple(
        f"a bug in unstuck: {one.rule!r} failed ({one.error}) and is left out; please report it"
        for one in diagnosis.broken
    )


def _note(gap: Evidence) -> str:
    return gap.text if gap.text.startswith(gap.source) else f"{gap.source}: {gap.text}"


def _answer(verdict: Verdict | None) -> tuple[str, frozenset[int]] | None:
    """Return what must agree between two versions: the cause and whom it blames."""
    if verdict is None:
        return None
    return verdict.cause, frozenset(c.rank for c in verdict.culprits)


def _short(verdict: Verdict | None) -> str:
    if verdict is None:
        return "nothing wrong"
    blamed = [c.rank for c in verdict.culprits]
    return f"{verdict.cause}, {ranks_text(blamed)}" if blamed else str(verdict.cause)
