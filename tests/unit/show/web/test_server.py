"""The server as a process: stored runs in a real one, seen over real HTTP."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from scenes import one_sleeps, verdict_of
from unstuck.collect import bundle


def test_stored_runs_are_served_until_ctrl_c(tmp_path: Path):
    scene = one_sleeps()
    bundle.write(tmp_path, scene.snapshot(), verdict_of(scene), about={})
    command = [sys.executable, "-m", "unstuck", "serve", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"(http://127\.0\.0\.1:\d+/)\?token=(\S+)", process.stderr.readline())
        assert found

        asked = urllib.request.Request(
            f"{found[1]}r/0/rank/2", headers={"Authorization": f"Bearer {found[2]}"}
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert json.load(answer)["doing"] == "is asleep"

        process.send_signal(signal.SIGINT)
        process.wait(30)
