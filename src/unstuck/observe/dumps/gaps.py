"""What the dumps leave open, in words: it belongs beside every verdict made from them."""

from collections import defaultdict
from collections.abc import Iterable

from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Evidence
from unstuck.observe.dumps.files import Reading, error_files
from unstuck.observe.dumps.members import backend_of, make_roster
from unstuck.observe.dumps.to_snapshot import newest

_MOST_NAMED = 8


def notes(reading: Reading, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Say what was missing or strange, and quote torchrun's error files that lie beside."""
    found = [Evidence(path.name, problem) for path, problem in reading.problems[:_MOST_NAMED]]
    if len(reading.problems) > _MOST_NAMED:
        more = len(reading.problems) - _MOST_NAMED
        found.append(Evidence("dumps", f"{more} more files cannot be read"))
    unseen = [state.rank for state in snapshot.ranks if state.unobserved]
    if unseen:
        text = f"no usable dump of {len(unseen)} of {snapshot.world_size} ranks: "
        found.append(Evidence("dumps", text + _numbers(unseen)))
    found += _versions(reading)
    found += _guesses(reading)
    if any(state.in_flight for state in snapshot.ranks):
        last = max(dump.last_stamp for dump in reading.dumps)
        text = (
            "a dump does not say when it was written: durations count up to "
            f"{snapshot.taken_at - last:.0f} s after the newest event in any of them"
        )
        found.append(Evidence("dumps", text))
    places = {dump.path.parent for dump in reading.dumps}
    found += [Evidence(place, text, file=str(file)) for file, place, text in error_files(places)]
    return tuple(found)


def _versions(reading: Reading) -> list[Evidence]:
    by_version: dict[str, list[int]] = defaultdict(list)
    for dump in reading.dumps:
        by_version[dump.content.version].append(dump.rank)
    if len(by_version) < 2:
        return []
    versions = "; ".join(f"{version}: {_numbers(ranks)}" for version, ranks in by_version.items())
    text = f"the dump formats differ, so the ranks ran different versions of torch ({versions})"
    return [Evidence("dumps", text)]


def _guesses(reading: Reading) -> list[Evidence]:
    dumps = newest(reading.dumps)
    roster = make_roster(dumps, reading.refused)
    found: list[Evidence] = []
    if not roster.sure:
        text = "the dumps do not say how many ranks there were; any above the highest are unknown"
        found.append(Evidence("dumps", text))
    names = {
        entry.group
        for dump in dumps
        for entry in dump.content.entries
        if roster.is_guessed((backend_of(dump.content), entry.group), entry.description)
    }
    if not names:
        return found
    text = (
        f"the dumps do not list the members of group {', '.join(sorted(names)[:_MOST_NAMED])}; "
        "a member that never used it cannot be seen"
    )
    return [*found, Evidence("dumps", text)]


def _numbers(ranks: Iterable[int]) -> str:
    ordered = sorted(set(ranks))
    shown = ",".join(str(rank) for rank in ordered[:_MOST_NAMED])
    left = len(ordered) - _MOST_NAMED
    return ("rank " if len(ordered) == 1 else "ranks ") + shown + (f" and {left} more" * (left > 0))
