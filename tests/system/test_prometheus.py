"""A real Prometheus scrapes a real job: the alerts of deploy/ fire, each for its own reason, and
resolve by themselves; every panel of the dashboard has data."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobs import StartJob
from unstuck.lab.job import LAUNCHER

pytestmark = pytest.mark.system

DEPLOY = Path(__file__).parents[2] / "deploy"
JOB = """
import os, time
import torch, torch.distributed as dist
import unstuck

def wait_while(look):
    while look():
        time.sleep(0.05)

there = lambda name: os.path.exists(os.path.join(os.environ["FOLDER"], name))
wait_while(lambda: not there("go"))
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    open(os.path.join(os.environ["FOLDER"], "pid"), "w").write(str(os.getpid()))
end = torch.zeros(1)
while not end.item():
    if dist.get_rank() == 1:
        end += there("end")
    dist.all_reduce(end)
    unstuck.step()
    time.sleep(0.05)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def until(look: Callable[[], Any], what: str, timeout: float = 60) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.2)
    return found


class Prometheus:
    """A server that scrapes and judges every second."""

    def __init__(self, port: int) -> None:
        self._api = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> Any:
        url = f"{self._api}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]

    def ready(self) -> bool:
        try:
            return bool(self.get("query", query="unstuck_build_info")["result"])
        except OSError:
            return False

    def alerts(self) -> dict[str, dict[str, Any]]:
        return {one["labels"]["alertname"]: one for one in self.get("alerts")["alerts"]}

    def until(self, alert: str, state: str | None) -> dict[str, Any]:
        def look() -> Any:
            found = self.alerts().get(alert)
            return found is None if state is None else found and found["state"] == state and found

        return until(look, f"{alert} {state or 'gone'}; there are {self.alerts()}")


@contextmanager
def process(*command: str, cwd: Path, **how: Any) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(command, cwd=cwd, text=True, **how) as started:
        try:
            yield started
        finally:
            started.terminate()


@contextmanager
def prometheus(folder: Path, metrics: str) -> Generator[Prometheus]:
    """Run the configuration of deploy/ as it is, but for the address, the token and the pace."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    text = re.sub("interval: 15s", "interval: 1s", text).replace("127.0.0.1:9099", metrics)
    assert metrics in text
    text += "    authorization:\n      credentials: the token of the test\n"
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "prometheus" / "unstuck-alerts.yml", folder)
    port = free_port()
    with (
        (folder / "prometheus.log").open("w") as log,
        process(
            "prometheus",
            *("--config.file=prometheus.yml", "--storage.tsdb.path=data"),
            f"--web.listen-address=127.0.0.1:{port}",
            cwd=folder,
            stdout=log,
            stderr=log,
        ),
    ):
        server = Prometheus(port)
        until(server.ready, "the first scrape")
        yield server


# scripts/test installs it where it may; under CI a skip is a failure.
@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs the package prometheus")
def test_alerts_fire_on_a_real_job_and_resolve(tmp_path: Path, start: StartJob):
    script = tmp_path / "train.py"
    script.write_text(JOB)
    job = start(
        *LAUNCHER, "--standalone", "--nproc-per-node", "2", str(script),
        env={"FOLDER": str(tmp_path)},
    )  # fmt: skip
    job.wait_watched()
    serve = (sys.executable, "-m", "unstuck", "metrics", "--listen", "127.0.0.1:0")
    token = {**os.environ, "UNSTUCK_METRICS_TOKEN": "the token of the test"}
    with process(*serve, str(job.run_dir), cwd=tmp_path, env=token, stderr=-1) as exporter:
        assert exporter.stderr is not None
        address = exporter.stderr.readline().split("//")[-1].partition("/")[0]
        with prometheus(tmp_path, address) as server:
            # Never started: after 15 minutes it would fire.
            server.until("UnstuckTrainingNeverStarted", "pending")
            (tmp_path / "go").touch()
            server.until("UnstuckTrainingNeverStarted", None)

            rank_1 = int(until((tmp_path / "pid").read_text, "the pid of rank 1"))
            os.kill(rank_1, signal.SIGSTOP)
            alert = server.until("UnstuckTrainingStalled", "firing")
            assert "Rank 1 on" in alert["annotations"]["description"]
            assert "UnstuckTelemetryGone" not in server.alerts()
            check_dashboard(server)
            os.kill(rank_1, signal.SIGCONT)
            server.until("UnstuckTrainingStalled", None)

            # Telemetry gone: after 2 minutes it would fire. The job itself is fine.
            hub = json.loads((job.run_dir / "unstuck.json").read_text())["hub_pid"]
            os.kill(hub, signal.SIGSTOP)
            server.until("UnstuckTelemetryGone", "pending")
            assert "UnstuckTrainingStalled" not in server.alerts()
            os.kill(hub, signal.SIGCONT)
            server.until("UnstuckTelemetryGone", None)

            (tmp_path / "end").touch()
            assert job.wait_exit() == 0
            ended = 'unstuck_job_state{state="ended"} == 1'
            until(lambda: server.get("query", query=ended)["result"], "ended")
            assert server.alerts() == {}


def check_dashboard(server: Prometheus) -> None:
    """Run every query of the dashboard; those about slow and silent ranks may find nothing."""
    dashboard = json.loads((DEPLOY / "grafana" / "unstuck-jobs.json").read_text())
    empty: list[str] = []
    for panel in dashboard["panels"]:
        found = [
            server.get("query", query=target["expr"].replace("$run", ".*"))["result"]
            for target in panel["targets"]
        ]
        if not any(found):
            empty.append(panel["title"])
    assert set(empty) <= {"Where the time of a step goes", "Silent nodes", "Pressure on the hosts"}
