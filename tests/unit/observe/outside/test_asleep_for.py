"""How long a thread has slept is told by the kernel, and looking does not wake it."""

import time
from pathlib import Path

from children import child, until
from unstuck.observe.outside.asleep_for import asleep_for


def test_a_sleeping_process_sleeps_longer_and_longer_although_it_is_looked_at(
    tmp_path: Path,
) -> None:
    with child(tmp_path) as sleeper:
        sleeper.do("1")
        sleeper.until_idle()
        before = time.monotonic()
        until(lambda: (asleep_for(sleeper.pid) or 0.0) > 0.3)

        first, again = asleep_for(sleeper.pid), asleep_for(sleeper.pid)
        lasted = time.monotonic() - before
        assert first is not None
        assert again is not None
        assert 0.3 < first <= again < lasted + 1.0

        sleeper.do("1")  # it runs, and sleeps again
        fresh = asleep_for(sleeper.pid)
        assert fresh is not None
        assert fresh < first


def test_a_process_that_runs_has_not_slept_and_one_that_is_gone_is_not_known(
    tmp_path: Path,
) -> None:
    with child(tmp_path) as runner:
        runner.tell("while True: pass")
        until(lambda: asleep_for(runner.pid) is not None)
        assert (asleep_for(runner.pid) or 0.0) < 5.0
        gone = runner.pid
    assert asleep_for(gone) is None
