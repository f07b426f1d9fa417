"""`unstuck doctor` over several hosts: hosts that meet over a slow link, and one that is alone."""

import json
import subprocess
import sys
from typing import Any

import pytest

from jobs import unwatched
from unstuck.lab.hosts import Hosts
from unstuck.lab.job import node_torchrun

pytestmark = [pytest.mark.system, pytest.mark.namespaces]


REHEARSE = """
import os, sys, msgspec
from unstuck.launch.rehearsal.rehearse import rehearse
found = rehearse(sys.argv[2:], os.environ, within=float(sys.argv[1]))
print(msgspec.json.encode(found.checks).decode())
"""


def rehearse(hosts: Hosts, within: float, *on: int) -> list[dict[str, Any]]:
    """Rehearse the launch on these hosts; return what the first of them says."""
    running: list[subprocess.Popen[str]] = []
    for i in on:
        launch = node_torchrun(hosts.address(0), hosts.address(i), nodes=len(hosts), ranks=1)
        command = [sys.executable, "-c", REHEARSE, str(within), *launch, "train.py"]
        running.append(
            subprocess.Popen(
                hosts.command(i, command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=unwatched(),
            )
        )
    outputs = [one.communicate() for one in running]
    assert outputs[0][0], outputs[0][1]
    return json.loads(outputs[0][0])


def rated(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(check for check in found if check["name"] == name)


def test_a_slow_link_is_found_between_hosts_that_meet(two_hosts: Hosts) -> None:
    two_hosts.shape(0, "tbf", "rate", "20mbit", "burst", "32kbit", "latency", "400ms")

    found = rehearse(two_hosts, 80.0, 0, 1)

    assert [check for check in found if check["rating"] == "bad"] == []
    assert {rated(found, name)["rating"] for name in ("ranks", "versions", "clocks")} == {"ok"}
    slow = rated(found, "bandwidth")
    assert slow["rating"] == "warning"
    assert "node0 to node1" in slow["text"]
    assert rated(found, "all-reduce")["rating"] == "ok"


def test_a_node_that_nobody_answers_is_told_where_it_looked_for_the_others(
    two_hosts: Hosts,
) -> None:
    found = rehearse(two_hosts, 6.0, 1)

    missed = rated(found, "rendezvous")
    assert missed["text"] == "10.77.0.1:29400 cannot be reached: connection refused"
