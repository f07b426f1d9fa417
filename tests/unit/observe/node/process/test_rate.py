"""The growth of a counter over the last seconds."""

from unstuck.observe.node.process.rate import Rate


def test_first_look_has_nothing_to_compare_with():
    assert Rate().share(5.0, 100.0) == 0.0


def test_share_is_of_the_last_seconds_only():
    rate = Rate()
    for second in range(10):
        rate.share(float(second), 0.0)
    found = [rate.share(float(second), (second - 9) * 0.5) for second in range(10, 15)]
    assert found[-1] == 0.5


def test_share_stays_between_0_and_1():
    rate = Rate()
    rate.share(0.0, 10.0)
    assert rate.share(1.0, 14.0) == 1.0
    assert rate.share(2.0, 0.0) == 0.0
    assert rate.share(2.0, 0.0) == 0.0
