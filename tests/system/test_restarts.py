"""torchrun's own restarts work under unstuck, and the new attempt has no ghosts of the old."""

from collections.abc import Callable

import pytest

from expectations import PROGRAMS
from unstuck.lab.job import LAUNCHER, Job

pytestmark = pytest.mark.system

RENDEZVOUS = {
    "standalone": ("--standalone",),
    "static": ("--master-addr", "127.0.0.1", "--master-port"),
}


@pytest.mark.parametrize("rendezvous", RENDEZVOUS)
def test_the_second_attempt_runs_to_its_end(
    start: Callable[..., Job], rendezvous: str, free_port: int
) -> None:
    where = RENDEZVOUS[rendezvous] + ((str(free_port),) if rendezvous == "static" else ())
    size = ("--nproc-per-node", "2", "--max-restarts", "2")
    running = start(*LAUNCHER, *where, *size, str(PROGRAMS / "restart.py"))

    assert running.wait_exit(90) == 0, running.words()
    assert "attempt 1 result 2.0" in running.stdout.read_text(), running.words()
    _only_the_death_is_blamed(running)


def _only_the_death_is_blamed(running: Job) -> None:
    for verdict in running.verdicts():
        assert verdict["attempt"] == 0, verdict
        assert verdict["cause"] == "process-crash", verdict
        assert [culprit["rank"] for culprit in verdict["culprits"]] == [1], verdict
