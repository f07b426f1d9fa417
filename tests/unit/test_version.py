"""`unstuck --version` is quick and does not need torch."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from unstuck._version import __version__

LIMIT = 0.25
UNSTUCK = str(Path(sys.executable).parent / "unstuck")


def show_version(env: dict[str, str] | None = None) -> tuple[float, str]:
    """Return the processor time it took: a busy machine stretches only the wall clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [UNSTUCK, "--version"], capture_output=True, text=True, check=False, env=env
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0, done.stderr
    return took, done.stdout


def test_version_starts_quickly():
    best = min(show_version()[0] for _ in range(5))
    assert best < LIMIT, f"unstuck --version took {best:.3f} s, the best of 5"


def test_version_works_without_torch(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise ImportError('torch is hidden by this test')\n")
    _, out = show_version(os.environ | {"PYTHONPATH": str(tmp_path)})
    assert __version__ in out
