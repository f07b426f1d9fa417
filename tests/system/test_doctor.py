"""`unstuck doctor` over several hosts: hosts that meet over a slow link, and one that is alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import unwatched
from unstuck.lab.hosts import Hosts
from unstuck.lab.job import UNSTUCK, node_torchrun

pytestmark = [pytest.mark.system, pytest.mark.namespaces]


def rehearse(hosts: Hosts) -> tuple[int, dict[str, Any]]:
    """Type the command on all hosts; return what the first one says."""
    running: list[subprocess.Popen[str]] = []
    for i in range(len(hosts)):
        launch = node_torchrun(hosts.address(0), hosts.address(i), nodes=len(hosts), ranks=1)
        command = [*UNSTUCK, "doctor", "--json", *launch, "train.py"]
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
    return running[0].returncode, json.loads(outputs[0][0])


def rated(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(check for check in found["checks"] if check["name"] == name)


def test_a_slow_link_is_found_between_hosts_that_meet(two_hosts: Hosts) -> None:
    two_hosts.shape(0, "tbf", "rate", "20mbit", "burst", "32kbit", "latency", "400ms")

    code, found = rehearse(two_hosts)

    assert code == 0, found
    assert rated(found, "ranks")["rating"] == "ok"
    assert rated(found, "versions")["rating"] == "ok"
    assert rated(found, "clocks")["rating"] == "ok"
    slow = rated(found, "bandwidth")
    assert slow["rating"] == "warning"
    assert "node0 to node1" in slow["text"]
    assert [c["rating"] for c in found["checks"] if c["name"] == "all-reduce"] == ["ok"]


def test_a_node_that_nobody_answers_is_told_where_it_looked_for_the_others(
    two_hosts: Hosts, tmp_path: Path
) -> None:
    command = node_torchrun(two_hosts.address(0), two_hosts.address(1), nodes=2, ranks=1)
    code = (
        "import os, sys; from unstuck.launch.rehearsal.rehearse import rehearse; "
        "[print(c.name, c.text) for c in rehearse(sys.argv[1:], os.environ, within=6).checks]"
    )
    done = subprocess.run(
        two_hosts.command(1, [sys.executable, "-c", code, *command, "train.py"]),
        capture_output=True,
        text=True,
        check=False,
        env=unwatched(),
        cwd=tmp_path,
    )

    assert "rendezvous 10.77.0.1:29400 cannot be reached: connection refused" in done.stdout
