"""Members of a group that run different collectives under the same number."""

from scenes import Scene, culprits, job, silent, verdict_of
from unstuck.model.rank import Operation
from unstuck.model.verdict import Cause, Confidence


def odd_one(op: str = "all_reduce", sizes: tuple[tuple[int, ...], ...] = ((4,),)) -> Scene:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank)
    return scene.enter(2, op=op, sizes=sizes)


def test_the_minority_is_to_blame_for_another_operation() -> None:
    verdict = verdict_of(odd_one("broadcast"))
    assert (verdict.cause, verdict.confidence) == (Cause.COLLECTIVE_MISMATCH, Confidence.CERTAIN)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)
    assert verdict.culprits[0].doing == "runs broadcast of 4 Float elements as #41 of group 0"


def test_rank_zero_may_be_the_minority() -> None:
    scene = job(3).enter(0, op="barrier", sizes=())
    verdict = verdict_of(scene.enter(1).enter(2))
    assert culprits(verdict) == [0]


def test_other_sizes_are_a_mismatch() -> None:
    assert culprits(verdict_of(odd_one(sizes=((5,),)))) == [2]


def test_other_types_are_a_mismatch() -> None:
    scene = odd_one()
    double = Operation("0", 41, "all_reduce", ((4,),), ("Double",), 10.0)
    assert culprits(verdict_of(scene.progress(2, "0", pending=(double,)))) == [2]


def test_equal_counts_in_other_shapes_agree() -> None:
    assert verdict_of(odd_one(sizes=((2, 2),))).cause is Cause.TRANSPORT_STALL


def test_sizes_may_differ_where_the_operation_allows_it() -> None:
    scene = job(3)
    for rank in range(3):
        scene.enter(rank, op="all_to_all", sizes=((rank + 1,),))
    assert verdict_of(scene).cause is Cause.TRANSPORT_STALL


def test_a_tie_names_both_sides_and_says_so() -> None:
    scene = job(4)
    for rank in range(4):
        scene.enter(rank, op="all_reduce" if rank < 2 else "all_gather")
    verdict = verdict_of(scene)
    assert (verdict.confidence, culprits(verdict)) == (Confidence.POSSIBLE, [0, 1, 2, 3])
    assert "the same size" in verdict.because


def test_a_mismatch_is_judged_only_once_somebody_is_stuck() -> None:
    scene = job(2).enter(0, stalled=0.5)
    assert silent(scene.enter(1, op="broadcast", stalled=0.5))


def test_uneven_data_is_offered_when_a_rank_is_already_in_its_next_phase() -> None:
    verdict = verdict_of(odd_one("barrier", ()))
    assert Cause.UNEVEN_WORK in [one.cause for one in verdict.alternatives]


def test_one_that_completed_the_other_operation_is_compared_too() -> None:
    scene = job(4)
    for rank in (1, 2, 3):
        scene.enter(rank)
    done = Operation("0", 41, "broadcast", ((4,),), ("Float",), 10.0, done=True)
    scene.progress(0, "0", enqueued=41, completed=41, recent=(done,))
    verdict = verdict_of(scene.sleep(0))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [0])


def test_an_earlier_divergence_is_told() -> None:
    scene = odd_one("broadcast")
    for rank in range(4):
        earlier = Operation("0", 40, "barrier" if rank == 2 else "all_reduce", done=True)
        scene.progress(rank, "0", recent=(earlier,))
    texts = [item.text for item in verdict_of(scene).evidence]
    assert "the calls have differed since #40 (all_reduce and barrier)" in texts


def rooted(*roots: int) -> Scene:
    scene = job(len(roots))
    for rank, root in enumerate(roots):
        scene.enter(rank, op="broadcast")
        operation = Operation("0", 41, "broadcast", ((4,),), ("Float",), 10.0, root=root)
        scene.progress(rank, "0", pending=(operation,))
    return scene


def test_another_root_is_a_mismatch() -> None:
    verdict = verdict_of(rooted(0, 0, 2, 0))
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert verdict.culprits[0].doing.startswith("runs broadcast of 4 Float elements with root 2")


def test_a_root_that_is_not_known_everywhere_says_nothing() -> None:
    assert verdict_of(rooted(0, -1, 2, 0)).cause is Cause.TRANSPORT_STALL
