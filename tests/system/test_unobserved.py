"""When the probe cannot work the training goes on, and it is said which rank is not seen."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from unstuck.lab.job import Job

pytestmark = pytest.mark.system

BREAKS_THE_PROBE = """
import mmap

def refuse(*args, **kwargs):
    raise OSError("no memory to map")

mmap.mmap = refuse
"""


def test_a_probe_that_fails_does_not_hurt_the_job(job: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAKS_THE_PROBE)

    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    running = job("healthy", ranks=2, env={"PYTHONPATH": path})

    assert running.wait_exit(90) == 0, running.words()
    said = running.stderr.read_text()
    assert "unobserved: OSError: no memory to map" in said
    assert "Traceback" not in said
    assert running.verdicts() == []
