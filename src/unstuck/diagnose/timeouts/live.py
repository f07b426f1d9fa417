"""The timeouts that the ranks of a running job really have."""

from collections import defaultdict

from msgspec.structs import replace

from unstuck.diagnose.job.patience import patience
from unstuck.diagnose.text import group_text, ranks_text
from unstuck.durations import text as duration
from unstuck.model.rank import GroupProgress
from unstuck.model.snapshot import Snapshot
from unstuck.model.timeouts import JobSettings, Knob, Layer, Origin, default_group_timeout
from unstuck.observe.timeouts import environment

_Key = tuple[str, float, str]
"""Name, timeout and backend of groups that are shown as one."""
_Members = tuple[str, int, int, int]


def read(snapshot: Snapshot) -> JobSettings:
    """Return what the ranks' probes saw after init, and how long things took so far."""
    ranks = [state for state in snapshot.ranks if state.groups]
    backends = sorted({group.backend for state in ranks for group in state.groups})
    environments = [state.settings.env for state in snapshot.ranks if state.settings.env]
    env = environments[0] if environments else {}
    limit, unseen = environment.scheduler(env, snapshot.taken_at)
    longest = max(
        ((one.longest, one.place) for state in ranks for one in state.pace.places),
        default=(0.0, ""),
    )
    return JobSettings(
        source=f"{len(snapshot.ranks)} ranks",
        knobs=(
            *(*_groups(snapshot), *_stores(snapshot), _patience(snapshot)),
            *(*_variables(snapshot, nccl="nccl" in backends), *limit),
        ),
        backends=tuple(backends),
        several_nodes=len({state.host for state in snapshot.ranks}) > 1,
        waited=max((state.pace.waited for state in ranks), default=0.0),
        longest=longest[0],
        longest_at=longest[1],
        env=env,
        unseen=unseen if ranks else ("the process groups: no rank has made any yet", *unseen),
    )


def _variables(snapshot: Snapshot, *, nccl: bool) -> list[Knob]:
    """The variables of all ranks; where they differ, with the ranks that have each value."""
    alike: dict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
    for state in snapshot.ranks:
        alike[tuple(state.settings.env.items())].append(state.rank)
    held: dict[Knob, list[int]] = defaultdict(list)
    for env, ranks in alike.items():
        for knob in environment.read(dict(env), nccl=nccl):
            held[knob] += ranks
    return [
        knob if len(ranks) == len(snapshot.ranks) else replace(knob, ranks=tuple(sorted(ranks)))
        for knob, ranks in held.items()
    ]


def _groups(snapshot: Snapshot) -> list[Knob]:
    """One knob for all groups of one name and timeout, as the rows of a mesh are.

    A group of one rank waits for nobody and is left out.
    """
    held: dict[_Key, dict[_Members, list[int]]] = defaultdict(lambda: defaultdict(list))
    members: dict[_Members, tuple[int, ...]] = {}
    for state in snapshot.ranks:
        for group in state.groups:
            if group.timeout and len(group.ranks) > 1:
                # Not the members themselves: a hash of thousands, for each of thousands of ranks.
                those = (group.name, len(group.ranks), group.ranks[0], group.ranks[-1])
                members[those] = group.ranks
                held[_shown(group), group.timeout, group.backend][those].append(state.rank)
    return [
        _with_members(_group(*key), [(members[those], have) for those, have in found.items()])
        for key, found in held.items()
    ]


def _shown(group: GroupProgress) -> str:
    if group.description == "default_pg":
        return "default process group"
    return group_text(group.name, group.description)


def _group(name: str, seconds: float, backend: str) -> Knob:
    default = seconds == default_group_timeout(backend)
    origin = Origin.DEFAULT if default else Origin.SCRIPT
    return Knob(name, Layer.GROUP, seconds, origin=origin, backend=backend)


def _with_members(knob: Knob, found: list[tuple[tuple[int, ...], list[int]]]) -> Knob:
    """Say which ranks it is of; `ranks` only where some members have another timeout."""
    first, _ = found[0]
    about = ranks_text(first) if len(found) == 1 else f"{len(found)} groups of {len(first)} ranks"
    have = sorted(rank for _, ranks in found for rank in ranks)
    whole = all(len(ranks) == len(members) for members, ranks in found)
    return replace(knob, about=about, ranks=() if whole else tuple(have))


def _stores(snapshot: Snapshot) -> list[Knob]:
    found = {state.settings.store for state in snapshot.ranks if state.settings.store}
    about = "follows init_process_group"
    return [
        Knob("key-value store", Layer.STORE, seconds, origin=Origin.SCRIPT, about=about)
        for seconds in sorted(found)
    ]


def _patience(snapshot: Snapshot) -> Knob:
    controls = snapshot.controls
    about = "learned from this job; a longer known phase gets three times its longest"
    if controls.patience:
        about = "for every wait that has no deadline of its own"
    if controls.paused_left:
        about = f"paused for {duration(controls.paused_left)} more: stalls are not judged"
    return Knob(
        "patience",
        Layer.UNSTUCK,
        patience(snapshot),
        origin=Origin.COMMAND if controls.patience else Origin.UNSTUCK,
        where="unstuck ctl set" if controls.patience else "",
        about=about,
    )
