"""The environment of the world lab: real training libraries, beside the user's own environment."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from unstuck.console import say
from unstuck.errors import LabError

TORCH = "torch==2.13.0"
"""Installed first and held: what comes after it must not bring another build of torch."""
LIBRARIES = ("numpy", "lightning", "accelerate", "transformers")
_STAMP = "unstuck-world"
Install = Callable[[Path, Sequence[str]], None]


def home() -> Path:
    """Return where the environment is kept: beside the other caches of unstuck."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "unstuck" / "world"


def prepare(folder: Path, install: Install | None = None) -> str:
    """Make the environment where it is not there yet, and return its interpreter.

    Args:
        folder: where it belongs.
        install: installs packages into an environment; pip by default.

    Raises:
        LabError: it cannot be made or filled.

    Example:
        python = prepare(home())
    """
    python = folder / "bin" / "python"
    stamp = folder / _STAMP
    content = "\n".join((TORCH, *LIBRARIES, sys.version)) + "\n"
    if python.exists() and stamp.exists() and stamp.read_text() == content:
        return str(python)
    say(f"installing {TORCH} and {', '.join(LIBRARIES)} into {folder}; once, some minutes")
    try:
        venv.create(folder, with_pip=install is None, clear=True)
        for packages in ((TORCH,), (TORCH, *LIBRARIES)):
            say(f"installing {' '.join(packages)}")
            (install or _pip)(python, packages)
        stamp.write_text(content)
    except OSError as error:
        raise LabError(f"cannot make {folder}: {(error.strerror or str(error)).lower()}") from error
    return str(python)


def _pip(python: Path, packages: Sequence[str]) -> None:
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    # Its progress goes to stderr: stdout belongs to the result.
    done = subprocess.run(
        [*command, *packages], check=False, stdout=2, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise LabError(
            f"pip could not install {' '.join(packages)}: {last}",
            hint="the world lab needs a package index that has these",
        )
