"""Find runs, running or past, and ask those that run.

A run is named by its run directory or by the name of one below `runs/`. Without a name it is the
one job that runs here: below `runs/`, or started anywhere else on this host by the same user.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import bundle
from unstuck.collect.bundle import Incident
from unstuck.errors import BundleError, UsageError, WorldError
from unstuck.explain.view.job_view import JobView
from unstuck.explain.view.rank_view import RankView
from unstuck.launch.leftovers import lives
from unstuck.launch.rundir import RUN_LINK
from unstuck.observe.probe import link
from unstuck.pipelines import job_status
from unstuck.pipelines.job_status import JobState, JobStatus

FOLDER = Path("runs")
WITHIN = 3.0
_T = TypeVar("_T")
_STACKS_WITHIN = 4.0
_DUMP_WITHIN = 15.0
_POLL = 0.2
_LIVE_PARENTS = (Path("/dev/shm"), Path(tempfile.gettempdir()))  # noqa: S108 - only read


class Run(Struct, frozen=True):
    """One run directory, and the agents of it that live on this host."""

    path: Path
    sockets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.name

    @property
    def running(self) -> bool:
        """Tell whether an agent of it is here."""
        return bool(self.sockets)

    @property
    def shown(self) -> str:
        """Its path, short where it is below the current directory."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)


class _Facts(Struct, frozen=True):
    """What the launcher wrote into the run directory, as far as it is needed here."""

    command: tuple[str, ...] = ()
    live: str = ""
    pid: int = 0


# --- finding


def at(path: Path) -> Run:
    """Return the run in a directory, whether it is running or not."""
    return Run(path.resolve(), tuple(_sockets(path)))


def below(folder: Path = FOLDER) -> list[Run]:
    """Return all runs below a folder, the newest last."""
    if not folder.is_dir():
        return []
    return [at(path) for path in sorted(folder.iterdir()) if _is_run(path)]


def running() -> list[Run]:
    """Return the runs below `runs/` that run here; where none does, those started elsewhere."""
    if found := [run for run in below() if run.running]:
        return found
    return list(_elsewhere())


def _elsewhere() -> Iterator[Run]:
    """Find the runs of this user by what their agents keep in memory."""
    seen: set[Path] = set()
    for parent in _LIVE_PARENTS:
        for live in sorted(parent.glob("unstuck-*")):
            path = _run_of(live)
            if path is not None and path not in seen and (run := at(path)).running:
                seen.add(path)
                yield run


def find(given: Path | None, *, need_running: bool = False) -> Run:
    """Return the run that was named; without a name the one that runs, or else the newest.

    Raises:
        UsageError: there is no such run, or several run.

    Example:
        find(None).path   # the only job that runs here
    """
    if given is not None:
        run = _named(given)
    elif len(living := running()) == 1:
        run = living[0]
    elif living:
        names = ", ".join(one.shown for one in living)
        raise UsageError(f"several jobs are running here: {names}", hint="name one of them")
    else:
        past = below()
        if need_running or not past:
            what = "no job is running on this host" if past else f"there is no run below {FOLDER}/"
            raise UsageError(what, hint="name the run directory, or start: unstuck run COMMAND")
        run = max(past, key=lambda one: one.path.stat().st_mtime)
    if need_running and not run.running:
        raise UsageError(
            f"the job of {run.shown} is not running on this host",
            hint="unstuck incidents shows what was stored",
        )
    return run


def _named(given: Path) -> Run:
    for path in (given, FOLDER / given):
        if path.is_dir() and _is_run(path):
            return at(path)
    if given.is_dir():
        raise UsageError(f"{given} is not a run directory", hint="give one such as runs/<time>-…")
    near = ", ".join(run.name for run in below()[-3:])
    raise UsageError(
        f"there is no run {given}", hint=f"there are {near}" if near else "unstuck run COMMAND"
    )


def _is_run(path: Path) -> bool:
    """Tell whether a directory is one that unstuck has written to."""
    if not path.is_dir():
        return False
    with contextlib.suppress(OSError):
        return (
            (path / "ledger.jsonl").exists()
            or any(path.glob("unstuck*.json"))
            or any(path.glob("live-*"))
            or bundle.newest(path) is not None
        )
    return False


def _run_of(live: Path) -> Path | None:
    """Return the run directory of a live directory; None where it is another user's."""
    with contextlib.suppress(OSError):
        if live.stat().st_uid == os.getuid() and (path := live / RUN_LINK).is_dir():
            return path.resolve()
    return None


def _sockets(path: Path) -> list[str]:
    """Return the sockets of the agents of a run.

    `unstuck run` leaves a link to them. A job that called `unstuck.watch()` has none and is
    found by what it wrote to its run directory.
    """
    facts = (Path(one.live) for one in _facts(path) if one.live)
    found = dict.fromkeys(
        os.path.realpath(live / link.SOCKET) for live in (*sorted(path.glob("live-*")), *facts)
    )
    return [socket for socket in found if Path(socket).is_socket()]


def _facts(path: Path) -> list[_Facts]:
    found: list[_Facts] = []
    for file in sorted(path.glob("unstuck*.json")):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(file.read_bytes(), type=_Facts))
    return found


# --- asking


def ask(run: Run, question: dict[str, Any]) -> dict[str, Any]:
    """Ask the hub of a run through an agent on this host.

    Raises:
        WorldError: none answers, or the hub cannot.
    """
    for socket in reversed(run.sockets):
        answer = link.ask(question, WITHIN, socket)
        if answer is None:
            continue
        if "error" in answer:
            raise WorldError(str(answer["error"]))
        return answer
    raise WorldError("the agent of this job does not answer", hint="is the job still running?")


def status(run: Run) -> JobStatus:
    """Return the job of a run in brief; of one that has ended, how it stood then."""
    facts = _facts(run.path)
    found = _live_status(run) if run.running else None
    if found is None:
        launcher = any(one.pid and lives(one.pid) for one in facts) and run.running
        found = _unwatched() if launcher else _last(run)
    return structs.replace(
        found,
        run=str(run.path),
        command=next((one.command for one in facts if one.command), ()),
        incidents=len(list(bundles(run))),
    )


def view(run: Run) -> JobView:
    """Return the whole job of a run that is running."""
    return _typed(ask(run, {"ask": "view"}).get("view"), JobView)


def rank(run: Run, number: int) -> RankView:
    """Return one rank of a run that is running."""
    return _typed(ask(run, {"ask": "rank", "rank": number}).get("rank"), RankView)


def _typed(answer: object, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise WorldError(
            f"the hub is of another version of unstuck: {error}",
            hint="look with the version that runs the job",
        ) from error


def _live_status(run: Run) -> JobStatus | None:
    try:
        return _typed(ask(run, {"ask": "job"}).get("job"), JobStatus)
    except WorldError:
        return None


def _unwatched() -> JobStatus:
    return JobStatus(state=JobState.UNWATCHED)


def _last(run: Run) -> JobStatus:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((run.path / job_status.FILE).read_bytes(), type=JobStatus)
    return JobStatus(state=JobState.ENDED)


def stacks(run: Run, ranks: Iterable[int], clock: Clock = SYSTEM) -> dict[int, dict[str, Any]]:
    """Take the stacks of ranks now and return them by rank; `threads` is empty where it failed."""
    wanted = sorted({*ranks})
    began = clock.monotonic()
    while True:
        answer = ask(run, {"ask": "stacks", "ranks": wanted})
        found: dict[str, dict[str, Any]] = answer["stacks"]
        passed = clock.monotonic() - began
        fresh = all(
            one["ended"] or (one["age"] is not None and one["age"] <= passed + 1.0)
            for one in found.values()
        )
        if (fresh and passed > _POLL) or passed > _STACKS_WITHIN:
            return {int(rank): one for rank, one in found.items()}
        clock.sleep(_POLL)


def dump(run: Run, clock: Clock = SYSTEM) -> Path:
    """Have the job stored as it is now, with the stacks of its ranks; return the bundle.

    Raises:
        WorldError: it was not stored in time.
    """
    began = clock.monotonic()
    ticket = ask(run, {"ask": "dump"})["ticket"]
    while clock.monotonic() - began < _DUMP_WITHIN:
        clock.sleep(_POLL)
        if path := ask(run, {"ask": "dump", "ticket": ticket})["path"]:
            return Path(path)
    raise WorldError("the hub did not store the job in time", hint="try again")


# --- what is stored


def bundles(run: Run) -> list[Path]:
    """Return the incident bundles of a run, oldest first."""
    return bundle.all_in(run.path)


def incidents(run: Run) -> list[Incident | BundleError]:
    """Read the incidents of a run, oldest first; a damaged one becomes its error."""
    found: list[Incident | BundleError] = []
    for path in bundles(run):
        try:
            found.append(bundle.read(path))
        except BundleError as error:
            found.append(error)
    return found
