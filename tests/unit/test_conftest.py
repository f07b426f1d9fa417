"""What conftest does: skips become failures under CI, and tests run in a sensible order."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
CANNOT = """
import pytest

@pytest.mark.namespaces
def test_cannot():
    pass

@pytest.mark.xfail(strict=True)
def test_expected():
    assert False
"""
NO_MODULE = """
import pytest
pytest.importorskip("no_such_module_anywhere")
"""
WORKER = """
import pytest

@pytest.mark.parametrize("n", range(6))
def test_worker(n, worker_id, request):
    print("ran", request.path.stem, "on", worker_id)
"""

ALONE = """
import time
import pytest

@pytest.mark.parametrize("n", range(9))
@pytest.mark.parametrize("how", ["beside", pytest.param("alone", marks=pytest.mark.alone)])
def test_takes_its_time(n, how):
    began = time.monotonic()
    time.sleep(0.02)
    print("ran", how, began, time.monotonic())
"""


def run_pytest(folder: Path, *options: str, ci: bool = False) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder with our conftest, where the command `ip` cannot be found."""
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\n"
        "markers =\n    alone\n    system\n    namespaces\n    processes\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env |= {"PATH": str(folder), "CI": "true" if ci else "false"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )


@pytest.mark.parametrize(
    ("ci", "summary"), [(False, "1 skipped, 1 xfailed"), (True, "1 xfailed, 1 error")]
)
def test_what_the_machine_cannot_run_is_skipped_but_fails_under_ci(
    tmp_path: Path, ci: bool, summary: str
):
    (tmp_path / "test_it.py").write_text(CANNOT)
    done = run_pytest(tmp_path, ci=ci)
    assert summary in done.stdout
    assert "network namespaces need root" in done.stdout or "iproute2" in done.stdout
    assert done.returncode == ci


@pytest.mark.parametrize(("ci", "code"), [(False, 5), (True, 2)])
def test_a_module_that_skips_itself_fails_under_ci(tmp_path: Path, ci: bool, code: int):
    (tmp_path / "test_it.py").write_text(NO_MODULE)
    done = run_pytest(tmp_path, ci=ci)
    assert done.returncode == code, done.stdout
    assert "no_such_module_anywhere" in done.stdout


def test_jobs_and_unit_tests_run_side_by_side_and_what_shares_a_job_stays_together(tmp_path: Path):
    for name in ("system/test_partitions", "system/test_hangs", "unit/test_it"):
        file = tmp_path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(WORKER)
    done = run_pytest(tmp_path, "-n", "2", "-rP")
    ran = re.findall(r"ran (\w+) on (\w+)", done.stdout)
    assert len(ran) == 18, done.stdout
    workers = {file: {on for which, on in ran if which == file} for file, _ in ran}
    assert len(workers["test_partitions"]) == 1
    first = {worker: next(file for file, on in ran if on == worker) for _, worker in ran}
    assert "test_it" in first.values(), ran
    assert set(first.values()) - {"test_it"}, ran


def test_beside_a_test_that_must_be_alone_no_other_runs(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(ALONE)
    done = run_pytest(tmp_path, "-n", "3", "-rP")
    found = re.findall(r"ran (\w+) ([\d.]+) ([\d.]+)", done.stdout)
    assert len(found) == 18, done.stdout
    ran = [(how, float(began), float(ended)) for how, began, ended in found]
    for how, began, ended in ran:
        beside = [one for one in ran if one[1] < ended and began < one[2]]
        assert how == "beside" or beside == [(how, began, ended)]
