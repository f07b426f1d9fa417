"""Ranks whose process runs but has not imported torch yet: no page, only a sign and /proc."""

import contextlib
from collections.abc import Container
from pathlib import Path

from unstuck.model.rank import Phase, Process, ProcessState, RankState
from unstuck.observe.node.process import procfs


def look(live: Path, host: str, known: set[int], pages: Container[int] = ()) -> list[RankState]:
    """Return the state of every such rank that is not among the `known` ones.

    A process that a rank started itself inherits its number: the first one counts. It may come to
    be known by a helper, so its sign stays until it has a page, as those in `pages` do.
    """
    found: dict[int, RankState] = {}
    for sign in live.glob("rank-*.born"):
        _, number, name = sign.name.replace("-", ".").split(".")[:3]
        rank, pid = int(number), int(name)
        age = procfs.age(pid)
        if pid in pages or age is None:
            with contextlib.suppress(OSError):
                sign.unlink()
        elif rank in known:
            continue
        elif rank not in found or age > found[rank].age:
            found[rank] = _state(rank, pid, host, age)
    return list(found.values())


def _state(rank: int, pid: int, host: str, age: float) -> RankState:
    stat = procfs.stat(pid)
    env = procfs.environ(pid)
    world = env.get("WORLD_SIZE", "")
    return RankState(
        rank=rank,
        host=host,
        process=Process(
            pid=pid,
            state=ProcessState(stat.state) if stat else ProcessState.GONE,
            waits_in=procfs.waits_in(pid),
            rss=stat.rss if stat else 0,
        ),
        age=round(age, 3),
        world_size=int(world) if world.isdigit() else 0,
        phase=Phase.BORN,
        stalled_for=round(age, 3),
    )
