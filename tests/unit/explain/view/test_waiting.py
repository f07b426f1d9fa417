"""Who waits for whom, as a picture."""

from scenes import job, one_sleeps, verdict_of
from unstuck.explain.view.waiting import BoxKind, picture
from unstuck.model.snapshot import Snapshot


def test_waiting_ranks_point_at_their_operation_and_that_at_the_culprit():
    scene = one_sleeps()

    shown = picture(scene.snapshot(), verdict_of(scene))

    by_kind = {box.kind: box for box in shown.boxes}
    assert by_kind[BoxKind.WAITING].title == "ranks 0,1,3"
    assert by_kind[BoxKind.OPERATION].title == "all_reduce #41"
    assert (by_kind[BoxKind.CULPRIT].title, by_kind[BoxKind.CULPRIT].detail) == (
        "rank 2",
        "is asleep",
    )
    assert [box.column for box in shown.boxes] == [1, 0, 2]
    assert len(shown.arrows) == 2


def test_a_longer_chain_has_more_columns():
    scene = job(4, {"a": (0, 1), "b": (1, 2), "c": (2, 3)})
    scene.enter(0, "a").enter(1, "b").enter(2, "c").sleep(3)

    shown = picture(scene.snapshot(), verdict_of(scene))

    assert [box.title for box in sorted(shown.boxes, key=lambda box: box.column)] == [
        "rank 0",
        "all_reduce #41",
        "rank 1",
        "all_reduce #41",
        "rank 2",
        "all_reduce #41",
        "rank 3",
    ]
    assert len(shown.arrows) == 6


def test_without_a_graph_the_verdict_itself_is_drawn():
    scene = one_sleeps()

    shown = picture(Snapshot(0.0), verdict_of(scene))

    assert [box.kind for box in shown.boxes] == [*BoxKind]
    assert picture(scene.snapshot(), None).boxes == ()
