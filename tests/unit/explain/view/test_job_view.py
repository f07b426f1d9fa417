"""The whole job as a person sees it."""

import msgspec

from scenes import culprits, job, one_sleeps, verdict_of
from unstuck.explain.view.doing_now import BY_LETTER, State
from unstuck.explain.view.job_view import view_job
from unstuck.model.rank import Tempo


def test_ranks_are_listed_host_by_host_with_a_letter_each():
    view = view_job(job(4, per_host=2).snapshot())

    assert [(host.name, host.first, host.count) for host in view.grid.hosts] == [
        ("host0", 0, 2),
        ("host1", 2, 2),
    ]
    assert [BY_LETTER[letter] for letter in view.grid.states] == [State.COMPUTING] * 4


def test_a_rank_that_was_never_seen_has_its_place_at_the_end():
    scene = job(3)
    scene.world_size = 4

    view = view_job(scene.snapshot())

    assert view.grid.ranks == (0, 1, 2, 3)
    assert view.grid.hosts[-1].name == ""
    assert view.counts[State.MISSING] == 1


def test_the_verdict_names_culprits_and_victims_and_the_group_that_is_apart():
    scene = one_sleeps()
    verdict = verdict_of(scene)

    view = view_job(scene.snapshot(), verdict)

    assert list(view.culprits) == culprits(verdict) == [2]
    assert view.victims == "0,1,3"
    assert (view.groups[0].least, view.groups[0].most) == (40, 41)


def test_time_shows_who_needs_most_of_its_own():
    scene = job(3)
    for rank, own in enumerate((0.1, 0.3, 0.1)):
        scene.change(rank, tempo=Tempo(steps=20, step=0.4, own=own))

    time = view_job(scene.snapshot()).time

    assert (time.step, time.own, time.slowest[0].rank) == (0.4, 0.1, 1)
    assert time.slowest[0].waiting == 0.4 - 0.3
    assert round(time.waiting_share, 2) == 0.75


def test_a_view_of_many_ranks_is_small_as_json():
    view = view_job(job(2000, per_host=8).snapshot())

    assert len(msgspec.json.encode(view)) < 60_000
