"""The scenarios, as data: `*.toml` beside this file, and one for each program.

A program that goes wrong by itself needs no entry here: what must be said of it stands in
`programs/expected.toml`.
"""

import tomllib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from unstuck.errors import ScenarioError
from unstuck.lab.job import PROGRAMS
from unstuck.lab.scenario import FAULT_RANK, GOALS, Scenario

_HERE = Path(__file__).parent
HEALTHY_LIMIT = 180.0
WATCHED_ON = 15.0
"""Seconds for which a job is watched on after it should have been judged, or must not have been."""
NEVER_JUDGED = ("healthy", "works")
_ONLY_FOR_TESTS = ("place", "open")


def load(extra: Iterable[Path] = ()) -> list[Scenario]:
    """Read all scenarios, those of the programs first; `extra` are files of your own.

    Raises:
        ScenarioError: a file cannot be read, or a scenario in it makes no sense.

    Example:
        >>> load()[0].name
        'ddp_sleep'
    """
    found = [_inside(name, table) for name, table in _read(PROGRAMS / "expected.toml").items()]
    for file in [*sorted(_HERE.glob("*.toml")), *extra]:
        found += [_scenario(name, table, file) for name, table in _read(file).items()]
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ScenarioError(f"two scenarios have the same name: {', '.join(sorted(twice))}")
    return found


def load_world(python: str) -> list[Scenario]:
    """Read the healthy jobs of real libraries, which run in an environment of their own.

    Args:
        python: the interpreter of that environment.

    Example:
        >>> load_world("python3")[0].name
        'lightning-ddp'
    """
    file = PROGRAMS / "world" / "expected.toml"
    fixed: dict[str, Any] = {
        "kind": "healthy",
        "causes": [],
        "python": python,
        "limit": 1200.0,  # they last five minutes, and longer on a busy machine
        "ranks": 2,
    }
    return [_scenario(name, {**fixed, **table}, file) for name, table in _read(file).items()]


def choose(known: Sequence[Scenario], patterns: Sequence[str]) -> list[Scenario]:
    """Give the scenarios that fit any of the names or patterns; all without any.

    Raises:
        ScenarioError: a pattern fits none.
    """
    for pattern in patterns:
        if not any(fnmatchcase(each.name, pattern) for each in known):
            near = get_close_matches(pattern, [each.name for each in known], n=1)
            meant = f"did you mean {near[0]}?" if near else "`unstuck lab list` shows them all"
            raise ScenarioError(f"there is no scenario {pattern}", hint=meant)
    if not patterns:
        return list(known)
    return [each for each in known if any(fnmatchcase(each.name, p) for p in patterns)]


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ScenarioError(f"cannot read {file}: {reason}") from error
    except ValueError as error:
        raise ScenarioError(f"{file} is not TOML: {error}") from error


def _inside(name: str, table: dict[str, Any]) -> Scenario:
    entry = {key: value for key, value in table.items() if key not in _ONLY_FOR_TESTS}
    entry.setdefault("kind", "hang" if entry.get("causes") else "healthy")
    if entry["kind"] != "healthy":
        entry.setdefault("culprits", [FAULT_RANK])
    return _scenario(name, {"program": name, **entry}, PROGRAMS / "expected.toml")


def _scenario(name: str, table: dict[str, Any], file: Path) -> Scenario:
    try:
        made = msgspec.convert({**table, "name": name}, Scenario, dec_hook=_path)
    except (msgspec.ValidationError, TypeError) as error:
        raise ScenarioError(f"{file.name}: scenario {name}: {error}") from error
    own = file.parent / f"{made.program}.py"
    program = own if own.exists() else PROGRAMS / f"{made.program}.py"
    goal = made.goal or GOALS.get(made.kind, 0.0)
    limit = made.limit or _limit(made, goal)
    ranks = 3 if made.hosts == 3 and "ranks" not in table else made.ranks
    facts = {"program": program, "goal": goal, "limit": limit, "ranks": ranks}
    whole = msgspec.structs.replace(made, **facts)
    if complaint := _complaint(whole):
        raise ScenarioError(f"{file.name}: scenario {name}: {complaint}")
    return whole


def _limit(made: Scenario, goal: float) -> float:
    match made.kind:
        case "healthy":
            return HEALTHY_LIMIT
        case "works":
            return WATCHED_ON + made.named
        case "held":
            return goal + WATCHED_ON
        case _:
            return max(30.0, 2 * goal)


def _complaint(made: Scenario) -> str:
    named = made.culprits or made.culprit_hosts or made.why
    wrong = (
        (not made.program.exists(), f"there is no program {made.program.name}"),
        (
            bool(made.causes) == (made.kind in NEVER_JUDGED),
            "a healthy job has no causes, nor has one whose rank works on; any other has",
        ),
        (
            made.kind == "works" and not made.culprits,
            "it does not say who is to be named: culprits",
        ),
        (
            bool(made.causes) and not named,
            "it does not say whom to blame: culprits or culprit_hosts, or `why` nobody",
        ),
        (
            len(made.causes) > 1 and not made.why,
            "several causes are right, but `why` does not say why nobody could tell",
        ),
        (
            made.ranks % made.hosts > 0,
            f"{made.ranks} ranks cannot be spread evenly over {made.hosts} hosts",
        ),
    )
    return next((complaint for is_so, complaint in wrong if is_so), "")


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError
