"""What scripts/rules complains about: each rule finds a place that breaks it, and only that."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "rules"
LONG = "value = 0\n" * 81


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project that keeps every rule, with a copy of the script that has no exceptions."""
    for folder in ("scripts", "src/unstuck/act", "src/unstuck/show/cli", "tests/unit/act"):
        (tmp_path / folder).mkdir(parents=True)
    script = "".join(
        line
        for line in SCRIPT.read_text().splitlines(keepends=True)
        if not line.startswith('    "') or line.startswith('    """')
    )
    (tmp_path / "scripts" / "rules").write_text(script)
    (tmp_path / "src" / "unstuck" / "act" / "plan.py").write_text(LONG)
    (tmp_path / "tests" / "unit" / "act" / "test_plan.py").touch()
    return tmp_path


def complaints(project: Path, *options: str) -> list[str]:
    argv = [sys.executable, str(project / "scripts" / "rules"), *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines() if done.returncode else []


def test_tree_that_keeps_the_rules_is_fine(project: Path):
    assert complaints(project) == []


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("act/new.py", LONG, "act/new.py: over 80 lines, no unit test of its name"),
        ("act/steps/plan.py", "", "act/plan.py: a module name twice in one package"),
        ("act/wait.py", "import time\ntime.monotonic()\n", "act/wait.py: calls time.*"),
    ],
)
def test_place_that_breaks_a_rule_is_named(project: Path, file: str, text: str, words: str):
    path = project / "src" / "unstuck" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert complaints(project)[0].startswith(words)


def test_folder_has_room_for_fourteen_modules(project: Path):
    folder = project / "src" / "unstuck" / "show" / "cli"
    for number in range(14):
        (folder / f"command{number}.py").touch()
    assert complaints(project) == []
    (folder / "plan.py").touch()
    assert complaints(project) == ["show/cli: over 14 modules in one folder"]


def test_clock_that_a_test_can_replace_and_clocks_elsewhere_are_allowed(project: Path):
    package = project / "src" / "unstuck"
    (package / "act" / "clock.py").write_text("import time\ntime.monotonic()\n")
    (package / "act" / "lease.py").write_text("import time\nclock = time.monotonic\n")
    (package / "show" / "live.py").write_text("import time\ntime.time()\n")
    assert complaints(project) == []


def test_exception_that_is_no_longer_needed_is_named_and_removed(project: Path):
    script = project / "scripts" / "rules"
    listed = script.read_text().replace("CROWDED = (\n", 'CROWDED = (\n    "act",\n')
    script.write_text(listed)
    assert complaints(project)[0].startswith("act: no longer an exception")
    complaints(project, "--shrink")
    assert complaints(project) == []
