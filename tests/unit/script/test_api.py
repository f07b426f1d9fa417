"""`unstuck.step` and `unstuck.section` in a watched rank and in a script nobody watches."""

import time
from pathlib import Path

import pytest

import unstuck
from unstuck.observe.probe.page import PageReader, PageWriter
from unstuck.observe.probe.this_process import current
from unstuck.script import api, section


@pytest.fixture(autouse=True)
def fresh():
    current.__init__()
    section._plain.clear()
    yield
    current.__init__()
    section._plain.clear()


@pytest.fixture
def page(tmp_path: Path) -> PageReader:
    current.attach(PageWriter(str(tmp_path / "page")))
    return PageReader(str(tmp_path / "page"))


def test_steps_count_up_or_as_the_script_says(page: PageReader):
    unstuck.step()
    unstuck.step()
    assert page.read().step == 2
    unstuck.step(100)
    unstuck.step()
    assert page.read().step == 101


def test_optimizer_steps_count_until_the_script_counts_its_own(page: PageReader):
    for _ in range(5):
        api.optimizer_stepped("optimizer", (), {})
    assert page.read().step == 5
    unstuck.step()
    api.optimizer_stepped("optimizer", (), {})
    assert page.read().step == 1


def test_sections_nest_and_restore(page: PageReader):
    seen: list[tuple[str, bool]] = []

    def look() -> None:
        now = page.read()
        seen.append((now.section, now.section_deadline > time.monotonic() + 20))

    with unstuck.section("epoch"):
        with unstuck.section("load", timeout=30):
            look()
            with unstuck.section("decode"):
                look()
            look()
        look()
    look()

    assert seen == [
        ("load", True),
        ("decode", False),
        ("load", True),
        ("epoch", False),
        ("", False),
    ]
    assert page.read().section_changes == 6


def test_section_is_left_by_an_exception(page: PageReader):
    with pytest.raises(KeyError), unstuck.section("load"):
        raise KeyError("x")
    assert page.read().section == ""


def test_sections_left_out_of_order_still_name_the_open_one(page: PageReader):
    first, second = unstuck.section("first"), unstuck.section("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert page.read().section == "second"
    second.__exit__(None, None, None)
    assert page.read().section == ""


@pytest.mark.parametrize("timeout", [0, -1.5])
def test_timeout_must_be_above_zero(timeout: float):
    with pytest.raises(ValueError, match=f"timeout must be above 0 seconds, not {timeout}"):
        unstuck.section("load", timeout=timeout)


@pytest.mark.parametrize("number", [-1, 2.5, 1 << 64, "seven"])
def test_odd_step_number_does_not_hurt_the_script(page: PageReader, number: object):
    unstuck.step(3)
    unstuck.step(number)  # type: ignore[arg-type] - that is the story
    unstuck.step(4)
    assert page.read().step == 4


@pytest.mark.parametrize("name", ["caf\udce9", 7, None])
def test_odd_section_name_does_not_hurt_the_script(page: PageReader, name: object):
    with unstuck.section(name):  # type: ignore[arg-type] - that is the story
        assert page.read().section in ("caf?", "7", "None")
    assert page.read().section == ""


def test_nobody_watches_and_it_costs_next_to_nothing():
    began = time.perf_counter()
    for _ in range(50_000):
        unstuck.step()
        with unstuck.section("load", timeout=30):
            pass
    each = (time.perf_counter() - began) / 50_000

    assert each < 50e-6


def test_detached_process_no_longer_writes(page: PageReader):
    unstuck.step(3)
    current.attach(None)
    unstuck.step(4)
    with unstuck.section("load"):
        pass
    assert (page.read().step, page.read().section_changes) == (3, 0)
