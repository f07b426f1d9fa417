"""How long a rank usually goes without progress, learned from its own past."""

from unstuck.model.rank import Pace
from unstuck.observe.node.pace import Progress


def test_stall_grows_until_the_frontier_moves():
    progress = Progress(10.0)
    assert progress.look("a", 1, 11.0)
    assert not progress.look("a", 1, 14.0)
    assert progress.stalled_for(14.0) == 3.0
    assert progress.look("b", 2, 15.0)
    assert progress.stalled_for(15.0) == 0.0


def test_warm_up_is_not_part_of_the_pace():
    progress = Progress(0.0)
    for done in range(1, 6):
        progress.look(done, done, done * 100.0)
    assert progress.pace() == Pace()

    for done, now in ((6, 500.5), (7, 501.0), (8, 503.0)):
        progress.look(done, done, now)
    assert progress.pace() == Pace(gaps=3, typical=0.5, longest=2.0)


def test_long_ago_is_forgotten():
    progress = Progress(0.0)
    progress.look(0, 5, 0.0)
    progress.look(1, 6, 100.0)
    for n in range(2, 514):
        progress.look(n, n + 5, 100.0 + n)
    assert progress.pace().longest < 5
