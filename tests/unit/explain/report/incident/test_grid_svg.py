"""All ranks, drawn."""

from hostile import incident
from unstuck.explain.report.incident.grid_svg import draw
from unstuck.explain.view.doing_now import LETTERS, State
from unstuck.explain.view.job_view import Grid, HostView


def test_each_of_a_few_ranks_has_a_cell_with_its_number():
    job = incident().job

    shown = draw(job.grid, job.culprits)

    assert shown.count("<rect") == 4
    assert "rank 2: blocked, held responsible" in shown
    assert shown.count("blamed") == 1


def test_many_ranks_are_one_path_for_each_state():
    job = incident(8192, sleeper=5000).job

    shown = draw(job.grid, job.culprits)

    assert shown.count("<path") == 2
    assert shown.count('class="ring"') == 1
    assert len(shown) < 5000


def test_a_chequered_job_is_thinned_and_shows_the_worst():
    letters = (LETTERS[State.COMPUTING] + LETTERS[State.GONE]) * 50_000
    grid = Grid(tuple(range(100_000)), letters, (HostView("a", 0, 100_000),))

    shown = draw(grid, ())

    assert len(shown) < 500_000
    assert "gone" in shown


def test_nothing_is_drawn_of_nobody():
    assert draw(Grid((), "", ()), ()) == ""
