"""Whose a process is, by what launchers gave to it and to its ancestors."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from unstuck.observe.probe import lineage

LOOK = """
import json, os
from unstuck.observe.probe import lineage
print(json.dumps([os.getpid(), os.getppid(), lineage.top(), lineage.is_inside_another()]))
"""
OUTER = {
    "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500", "UNSTUCK_RUN": "m",
}  # fmt: skip
INNER = OUTER | {"WORLD_SIZE": "1", "MASTER_PORT": "40001"}


def below_a_shell(outer: Mapping[str, str], inner: Mapping[str, str]) -> tuple[int, int, int, bool]:
    """Run Python below a shell, each with what its launcher gave it."""
    changes = " ".join(f"{name}={value}" for name, value in inner.items())
    line = f'{changes} "$PYTHON" -c "$LOOK"; exit $?'
    clean = {k: v for k, v in os.environ.items() if not k.startswith("UNSTUCK_")}
    env = clean | dict(outer) | {"PYTHON": sys.executable, "LOOK": LOOK}
    said = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=True)
    return tuple(json.loads(said.stdout))


def test_below_a_wrapper_the_wrapper_is_the_top() -> None:
    _, parent, top, inside = below_a_shell(OUTER, OUTER)
    assert (top, inside) == (parent, False)


def test_a_launcher_inside_a_rank_makes_no_ranks_of_this_job() -> None:
    pid, _, top, inside = below_a_shell(OUTER, INNER)
    assert (top, inside) == (pid, True)


def test_what_is_above_the_launcher_does_not_count() -> None:
    """A pod may give RANK and WORLD_SIZE to the launcher; it gives no LOCAL_RANK."""
    pod = {name: OUTER[name] for name in ("RANK", "WORLD_SIZE", "MASTER_PORT", "UNSTUCK_RUN")}
    pid, _, top, inside = below_a_shell(pod, INNER)
    assert (top, inside) == (pid, False)


def test_another_run_above_does_not_count() -> None:
    pid, _, top, inside = below_a_shell(OUTER, INNER | {"UNSTUCK_RUN": "another"})
    assert (top, inside) == (pid, False)


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (*lineage.IDENTITY, lineage.WITHIN, lineage.PROBED, lineage.JOINED, "UNSTUCK_RUN"):
        monkeypatch.setenv(name, "")  # so that whatever a test sets is taken back
        monkeypatch.delenv(name)
    return monkeypatch


def test_a_process_without_a_number_may_join_a_job_of_its_own(env: pytest.MonkeyPatch) -> None:
    assert lineage.may_join()


def test_what_a_joined_rank_starts_is_never_a_rank(env: pytest.MonkeyPatch) -> None:
    env.setenv(lineage.JOINED, "1")
    assert not lineage.may_join()


def test_an_evaluation_without_a_number_inside_a_launched_rank(env: pytest.MonkeyPatch) -> None:
    env.setenv(lineage.WITHIN, f"1:{lineage.identity(OUTER)}")
    assert lineage.is_inside_another()
    assert not lineage.may_join()


def test_a_rank_stays_one_after_exec(env: pytest.MonkeyPatch) -> None:
    env.setenv(lineage.WITHIN, f"{os.getpid()}:{lineage.identity(OUTER)}")
    env.setenv(lineage.JOINED, str(os.getpid()))
    assert lineage.may_join()


def test_a_claim_names_the_first_process_and_stays(env: pytest.MonkeyPatch) -> None:
    for name, value in OUTER.items():
        env.setenv(name, value)
    lineage.claim()
    mine = os.environ[lineage.WITHIN]
    assert mine == f"{os.getpid()}:0/0/2/29500/"
    env.setenv(lineage.WITHIN, "1:0/0/2/29500/")
    lineage.claim(joined=True)
    assert os.environ[lineage.WITHIN].startswith("1:")
    assert os.environ[lineage.JOINED] == str(os.getpid())
