"""What `unstuck top` draws: every rank, the verdict, one rank, at any width."""

from rich.text import Text

from scenes import job, one_sleeps, verdict_of
from unstuck.explain.advice.advice import advise
from unstuck.explain.view.job_view import JobView, view_job
from unstuck.explain.view.rank_view import view_rank
from unstuck.show.tui import drawing


def stalled(size: int = 4) -> JobView:
    scene = one_sleeps(size)
    return view_job(scene.snapshot(), advise(verdict_of(scene)))


def plain(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def test_every_rank_has_a_cell_beside_its_host():
    view = view_job(job(20, per_host=8).snapshot())
    assert plain(drawing.grid(view, 80, letters=True)) == [
        "host0 c c c c c c c c",
        "host1 c c c c c c c c",
        "host2 c c c c",
    ]


def test_a_long_host_wraps_at_a_multiple_of_eight():
    view = view_job(job(40).snapshot())
    rows = drawing.places(view, 60)
    assert [len(row) for row in rows] == [24, 16]
    assert [place for row in rows for place in row] == list(range(40))
    assert all(line.cell_len <= 60 for line in drawing.grid(view, 60))


def test_who_is_blamed_and_who_is_selected_stands_out():
    (line,) = drawing.grid(stalled(), 80, selected=1)
    styles = {str(span.style) for span in line.spans}
    assert "bold white on red" in styles
    assert "blue reverse" in styles


def test_a_snapshot_has_the_verdict_and_what_to_do():
    text = "\n".join(
        plain(list(drawing.once(stalled(), "stalled for 10 s", "7", 80, letters=True)))
    )
    assert text.startswith("stalled for 10 s  4 ranks on 1 host  step 40  7")
    assert "w 3 collective" in text
    assert "at  train.py:31 in evaluate: time.sleep(3600)" in text
    assert "       do  " in text


def test_a_healthy_job_says_that_nothing_is_known():
    assert plain(drawing.verdict_lines(None, 80)) == ["nothing is known to be wrong"]


def test_a_rank_shows_its_place_and_a_healthy_one_beside_it():
    lines = plain(drawing.rank_lines(view_rank(one_sleeps().snapshot(), 2), 100))
    assert lines[0].startswith("   rank 2  is asleep (host0, pid 1002), no progress for 11 s")
    assert any("40 of 40 operations completed; rank " in line for line in lines)
    assert any("train.py:31 evaluate: time.sleep(3600)" in line for line in lines)


def test_long_texts_wrap_beside_their_label():
    lines = plain(drawing.verdict_lines(stalled().verdict, 60))
    assert all(len(line) <= 60 for line in lines)
    labels = [line[:9].strip() for line in lines[1:]]
    assert [label for label in labels if label] == ["what", "at", "do", "don't", "likely"]


def test_a_narrow_terminal_still_gets_cells():
    view = stalled()
    assert drawing.cells_per_row(view, 1) == 1
    assert drawing.head(view, "stalled", "x" * 200, 40).cell_len <= 40


def test_control_characters_do_not_reach_the_terminal():
    lines = drawing.stack_lines(['Thread 1\n  File "\x1b[2Jx"'])
    assert plain(lines) == ["Thread 1", '  File "[2Jx"', ""]
