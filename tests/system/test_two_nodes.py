"""Two hosts, one job: a verdict over both, and a cut link is not taken for a dead host."""

from collections.abc import Callable, Sequence

import pytest

from expectations import FAULT_RANK, PROGRAMS
from unstuck.lab.hosts import Hosts
from unstuck.lab.job import Job, node_torchrun

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

Start = Callable[..., Job]


def _start_both(
    start: Start, hosts: Hosts, program: str, *, ranks: int = 2, **env: str
) -> list[Job]:
    """Start the job on both hosts, with so many ranks on each."""
    return [_start_one(start, hosts, i, program, ranks, env) for i in range(2)]


def _start_one(
    start: Start, hosts: Hosts, i: int, program: str, ranks: int, env: dict[str, str]
) -> Job:
    def wrap(argv: Sequence[str]) -> list[str]:
        return hosts.command(i, argv)

    command = node_torchrun(hosts.address(0), hosts.address(i), ranks=ranks)
    options = ("--hub", f"{hosts.address(0)}:29600", "--patience", "3s")
    script = str(PROGRAMS / f"{program}.py")
    return start(*command, script, options=options, env=env, wrap=wrap)


def test_a_hang_on_the_second_host_is_named_with_its_host(start: Start, two_hosts: Hosts) -> None:
    first, second = _start_both(start, two_hosts, "subgroup")
    second.wait_onset()
    verdict = first.wait_verdict(20)

    assert verdict["cause"] == "busy-elsewhere", first.words()
    culprits = [(each["rank"], each["host"]) for each in verdict["culprits"]]
    assert [(FAULT_RANK, two_hosts.hostname(1))] == culprits


def test_a_death_on_the_second_host_is_named(start: Start, two_hosts: Hosts) -> None:
    first, second = _start_both(start, two_hosts, "sigkill")
    second.wait_onset()
    verdict = first.wait_verdict(20)

    assert verdict["cause"] == "process-crash", first.words()
    assert [each["rank"] for each in verdict["culprits"]] == [FAULT_RANK]


def test_a_healthy_job_over_two_hosts(start: Start, two_hosts: Hosts) -> None:
    both = _start_both(start, two_hosts, "healthy", ranks=1, STEPS="40")

    assert [each.wait_exit(90) for each in both] == [0, 0], both[0].words()
    assert [*both[0].verdicts(), *both[1].verdicts()] == []


def test_a_cut_link_is_a_partition_or_a_lost_node(start: Start, two_hosts: Hosts) -> None:
    first, second = _start_both(start, two_hosts, "healthy", ranks=1, STEPS="1000", FAULT_RANK="1")
    second.wait_onset()
    two_hosts.cut(1)
    verdict = first.wait_verdict(30)

    assert verdict["cause"] in ("network-partition", "node-failure"), first.words()
    assert {each["host"] for each in verdict["culprits"]} == {two_hosts.hostname(1)}
