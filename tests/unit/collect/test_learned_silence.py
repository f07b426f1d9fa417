"""How long a silence may be: learned from intervals, with the promised rate of errors."""

import random

import pytest

from unstuck.collect.learned_silence import ERROR_RATE, Arrivals


def learned(gaps: list[float], floor: float = 0.01, most: float = 60.0) -> Arrivals:
    arrivals = Arrivals(floor, most)
    for gap in gaps:
        arrivals.note(gap)
    return arrivals


def test_newcomer_is_given_time():
    assert Arrivals(1.0, 6.0).limit == 3.0
    assert learned([0.3] * 10, 1.0, 6.0).limit == 3.0


def test_floor_and_ceiling_hold():
    assert learned([0.3] * 100, 1.0, 6.0).limit == 1.0
    assert learned([0.3, 5.0] * 100, 1.0, 6.0).limit == 6.0


@pytest.mark.parametrize("scale", [0.01, 0.1, 0.5])
def test_error_rate_holds_for_intervals_with_an_exponential_tail(scale: float):
    source = random.Random(7)
    wrong, beats = 0, 0
    for _ in range(40):
        limit = learned([0.3 + source.expovariate(1 / scale) for _ in range(400)]).limit
        more = [0.3 + source.expovariate(1 / scale) for _ in range(10_000)]
        wrong += sum(gap > limit for gap in more)
        beats += len(more)
    # 0.4 expected at that rate; the spread of an estimate from 40 long intervals allows some.
    assert wrong <= 20 * ERROR_RATE * beats


def test_limit_follows_the_load_up_and_down():
    source = random.Random(1)
    arrivals = learned([0.3 + source.random() * 0.01 for _ in range(400)])
    quiet = arrivals.limit
    for _ in range(100):
        arrivals.note(0.3 + source.random())
    busy = arrivals.limit
    for _ in range(600):
        arrivals.note(0.3 + source.random() * 0.01)
    assert quiet < 0.5
    assert busy > 1.5
    assert arrivals.limit == pytest.approx(quiet, rel=0.2)


def test_one_long_pause_is_learned_at_once():
    arrivals = learned([0.3] * 400)
    arrivals.note(2.0)
    assert arrivals.limit >= 3.0


def test_outage_teaches_nothing():
    arrivals = learned([0.3] * 400, 1.0, 6.0)
    arrivals.note(30.0)
    assert arrivals.limit == 1.0
