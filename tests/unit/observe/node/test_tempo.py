"""Where a rank's time goes, from looks at uneven moments."""

import random

import pytest

from timelines import watch
from unstuck.model.rank import Tempo
from unstuck.observe.node.tempo import TempoMeter


def test_own_time_and_waiting_are_told_apart():
    tempos = watch(lambda rank, _: 0.3 if rank == 2 else 0.1)

    assert tempos[2].step == pytest.approx(0.305, rel=0.02)
    assert tempos[2].own == pytest.approx(0.3, rel=0.1)
    assert all(t.own == pytest.approx(0.1, abs=0.05) for r, t in enumerate(tempos) if r != 2)
    assert all(tempo.steps >= 20 for tempo in tempos)


@pytest.mark.parametrize("step", [0.01, 0.1, 0.0999, 0.2, 1.0, 7.0])
def test_steps_as_long_as_the_looks_are_apart_do_not_fool_it(step: float):
    """Half of each step is waiting, whatever the rhythm of the looks."""
    tempos = watch(lambda rank, _: step if rank else step / 2, ranks=2, transfer=0.0,
                   steps=max(40, int(30 / step)))  # fmt: skip

    assert tempos[0].own / tempos[0].step == pytest.approx(0.5, abs=0.15)
    assert tempos[1].own / tempos[1].step > 0.95


def test_own_time_that_varies_may_be_off_by_chance():
    chance = random.Random(3)
    steady, varies = watch(lambda rank, _: 0.4 + rank * chance.uniform(-0.3, 0.3), ranks=2)

    assert steady.error < 0.03
    # 0.17 s from step to step, over some 20 steps.
    assert varies.error == pytest.approx(0.17 / varies.steps**0.5, rel=0.5)


def test_steps_that_held_something_else_are_left_out():
    def work(rank: int, step: int) -> float:
        saves = rank == 0 and step % 5 == 0
        return 0.1 + (0.3 if saves else 0.0)

    first, other, *_ = watch(work)
    assert first.step == pytest.approx(0.105, rel=0.05)
    assert first.own == pytest.approx(other.own, abs=0.02)


def test_what_is_new_is_told_with_the_time_it_began():
    def work(rank: int, step: int) -> float:
        return 0.4 if rank == 1 and step >= 300 else 0.1

    before = watch(work, steps=300)[1]
    after = watch(work, steps=310)[1]
    later = watch(work, steps=350)[1]

    assert before.changed_for == 0.0
    assert before.usual_own == pytest.approx(0.1, rel=0.2)
    assert after.own == pytest.approx(0.1, rel=0.2)
    assert later.own == pytest.approx(0.4, rel=0.1)
    assert later.usual_own == pytest.approx(0.1, rel=0.2)
    assert later.changed_for == pytest.approx(50 * 0.405, abs=1.0)


def test_line_that_takes_most_of_the_own_time_is_named():
    first = watch(lambda rank, _: 0.2 if rank else 0.1, spot=lambda *_: "augment")[0]

    assert first.place is not None
    assert (first.place.file, first.place.function, first.place.user) == (
        "train.py",
        "augment",
        True,
    )
    assert first.place_share == 1.0


def test_line_that_takes_more_than_before_is_named_and_not_the_one_that_always_takes_most():
    chance = random.Random(3)

    def spot(_rank: int, step: int) -> str:
        lines, shares = ("backward", "augment", "write"), (0.7, 0.3, 0.0)
        return chance.choices(lines, shares if step < 300 else (0.36, 0.32, 0.32))[0]

    def work(rank: int, step: int) -> float:
        return 0.2 if rank == 1 and step >= 300 else 0.1

    before, after = (watch(work, steps=steps, spot=spot)[1] for steps in (290, 400))
    assert before.place is not None
    assert before.place.function == "backward"
    assert after.place is not None
    assert after.place.function == "write"
    assert after.place_share == pytest.approx(0.32, abs=0.1)


def test_job_without_optimizer_counts_its_collectives():
    tempos = watch(lambda rank, _: 0.3 if rank == 2 else 0.1, counted=False)

    assert {tempo.unit for tempo in tempos} == {"collective"}
    assert tempos[2].own / tempos[2].step > 0.9
    assert tempos[0].own / tempos[0].step < 0.5


@pytest.mark.parametrize("steps", [0, 5, 11])
def test_too_few_steps_say_nothing(steps: int):
    assert watch(lambda *_: 1.0, steps=steps) == [Tempo()] * 4


def test_few_seconds_say_nothing():
    assert watch(lambda *_: 0.01, steps=200) == [Tempo()] * 4


def looks(meter: TempoMeter, count: int, **fields: object) -> None:
    for number in range(1, count + 1):
        now = float(number) + random.Random(number).random() / 10
        report = {"at": (now, number, float(number)), "groups": {"0": number}, "frames": []}
        meter.look({**report, "status": {"0": (number, number)}, "p2p_issued": 0, **fields})


def test_sends_and_receives_start_it_over():
    meter = TempoMeter()
    looks(meter, 30)
    assert meter.tempo(31.0).steps >= 20
    sent = {"p2p_issued": 1, "groups": {}, "status": {"0": (1, 1)}, "frames": []}
    meter.look({"at": (31.0, 31, 31.0), **sent})
    assert meter.tempo(31.0) == Tempo()


def test_one_report_counts_once_and_an_old_page_not_at_all():
    meter = TempoMeter()
    report = {"at": (1.0, 1, 1.0), "p2p_issued": 0, "groups": {}, "frames": []}
    for _ in range(100):
        meter.look(report | {"status": {}})
        meter.look({"phase": "run"})
    assert meter._looks == 0
    report["status"] = {"0": (1, 1)}
    for _ in range(100):
        meter.look(report)
    assert meter._looks == 1


def test_script_that_counts_again_from_one_starts_it_over():
    meter = TempoMeter()
    looks(meter, 30)
    looks(meter, 5)
    assert meter.tempo(31.0) == Tempo()


def test_wait_for_a_core_counts_in_the_steps_that_count():
    """One step holds a long pause without a core: it is left out with what it waited."""
    now = 0.0
    meter = TempoMeter(lambda: 0.2 * now)
    for number in range(1, 41):
        now += 10.0 if number == 30 else 0.5
        for later in (0.1, 0.2):
            report = {"at": (now + later, number, now), "groups": {"0": number}, "frames": []}
            meter.look({**report, "status": {"0": (number, number)}, "p2p_issued": 0})
    assert meter.tempo(now).delayed == pytest.approx(0.1)


def test_wait_for_a_disk_is_counted_look_by_look():
    waits = iter([True, False, False, False] * 10)
    meter = TempoMeter(disk=lambda: next(waits))
    looks(meter, 40)
    assert meter.tempo(41.0).disk == pytest.approx(0.25, abs=0.03)


def test_kernel_that_does_not_tell_of_delays():
    meter = TempoMeter()
    looks(meter, 30)
    assert meter.tempo(31.0).delayed is None
