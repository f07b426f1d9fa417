"""Who waits for whom, drawn."""

from xml.etree import ElementTree as ET

from hostile import hostile, incident
from scenes import job, verdict_of
from unstuck.explain.report.incident.waiting_svg import as_file, draw
from unstuck.explain.view.waiting import Picture, picture


def test_boxes_stand_from_the_waiting_to_the_culprit():
    root = ET.fromstring(as_file(incident().waiting))

    boxes = {one.get("class"): float(one.get("x", 0)) for one in root.iter() if "rect" in one.tag}
    assert sorted(boxes, key=lambda name: boxes[name]) == [
        "box waiting",
        "box operation",
        "box culprit",
    ]


def test_a_circle_of_waiting_has_an_arrow_back():
    scene = job(4, {"a": (0, 1, 2, 3), "b": (0, 1, 2, 3)})
    for rank in range(4):
        scene.enter(rank, "b" if rank == 3 else "a", "all_reduce")

    shown = draw(picture(scene.snapshot(), verdict_of(scene)))

    assert "arrow back" in shown


def test_hostile_names_are_text_and_the_file_is_well_formed():
    ET.fromstring(as_file(hostile().waiting))


def test_nothing_is_drawn_where_nobody_waits():
    assert draw(Picture()) == ""
