"""What the ranks have, with what the script says of where it comes from."""

from unstuck.diagnose.timeouts.merge import merge
from unstuck.model.timeouts import JobSettings, Knob, KnobNote, Layer, NoteKind, Origin

DEFAULT = "default process group"
LIVE = Knob(DEFAULT, Layer.GROUP, 77.0, origin=Origin.SCRIPT, backend="gloo")
FALLEN = Knob("group 1", Layer.GROUP, 1800.0)
IN_SCRIPT = Knob(DEFAULT, Layer.GROUP, 77.0, "", Origin.SCRIPT, "train.py:12")
CALL = Knob("new_group at train.py:20", Layer.GROUP, 1800.0, where="train.py:20")
SECTION = Knob("section 'save'", Layer.SECTION, 60.0, "", Origin.SCRIPT, "train.py:30")


def merged(live: tuple[Knob, ...], static: tuple[Knob, ...]) -> dict[str, Knob]:
    found = merge(JobSettings("live", live), JobSettings("static", static))
    return {knob.name: knob for knob in found.knobs}


def test_a_live_timeout_learns_its_line() -> None:
    assert merged((LIVE,), (IN_SCRIPT,))[DEFAULT].where == "train.py:12"


def test_a_line_that_says_something_else_is_not_where_it_comes_from() -> None:
    other = Knob(DEFAULT, Layer.GROUP, 60.0, "", Origin.SCRIPT, "train.py:12")
    found = merged((LIVE,), (other,))[DEFAULT]
    assert (found.seconds, found.where) == (77.0, "")


def test_the_only_call_that_can_have_made_a_group_did() -> None:
    assert merged((LIVE, FALLEN), (IN_SCRIPT, CALL))["group 1"].where == "train.py:20"
    two = (CALL, Knob("new_group at train.py:21", Layer.GROUP, 1800.0, where="train.py:21"))
    assert merged((LIVE, FALLEN), two)["group 1"].where == ""


def test_what_no_rank_can_know_comes_from_script_and_command() -> None:
    found = merged((LIVE,), (IN_SCRIPT, CALL, SECTION))
    assert set(found) == {DEFAULT, "section 'save'"}


def test_notes_of_both_are_kept() -> None:
    note = KnobNote(NoteKind.CONFLICT, ("all_reduce",), "raises TypeError")
    found = merge(JobSettings("live"), JobSettings("static", notes=(note,), read_by_script=("X",)))
    assert (found.notes, found.read_by_script, found.source) == ((note,), ("X",), "live")
