"""One rank beside a healthy one."""

from scenes import job, one_sleeps, verdict_of
from unstuck.explain.view.doing_now import State
from unstuck.explain.view.rank_view import view_rank


def test_the_sleeping_rank_is_shown_beside_one_that_waits_for_it():
    scene = one_sleeps()

    view = view_rank(scene.snapshot(), 2, verdict_of(scene))

    assert (view.state, view.doing, view.blamed) == (State.BLOCKED, "is asleep", True)
    assert view.healthy in (1, 3)
    (group,) = view.groups
    assert (group.enqueued, group.their_enqueued) == (40, 41)
    (pair,) = group.operations
    assert pair.mine is None
    assert pair.theirs is not None
    assert pair.theirs.op == "all_reduce"
    assert pair.differs


def test_a_rank_that_was_never_seen_is_not_made_up():
    view = view_rank(job(2).snapshot(), 7)

    assert not view.known
    assert (view.state, view.doing) == (State.MISSING, "was never seen")


def test_a_lone_rank_has_nobody_to_be_compared_with():
    view = view_rank(job(1).snapshot(), 0)

    assert view.healthy is None
    assert view.state is State.COMPUTING
