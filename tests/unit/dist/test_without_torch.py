"""Without torch, `unstuck.dist` can be imported for its names and says what it needs."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import unstuck
from unstuck import dist
with unstuck.deadline(seconds=5):
    assert issubclass(unstuck.CollectiveTimeout, RuntimeError)
assert "CollectiveTimeout" in dir(dist)
try:
    dist.all_reduce
except ImportError as error:
    print(error)
"""


def test_names_are_there_and_operations_ask_for_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (
        "unstuck.dist needs torch, which is not installed\n",
        "",
    )
