"""The incident report as one HTML file."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from hostile import hostile, incident
from scenes import job
from unstuck.explain.report.incident import page
from unstuck.explain.report.incident.contents import contents


class Elements(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_it_says_who_where_why_and_what_to_do():
    seen = Elements(page.render(incident()))

    for expected in (
        "busy-elsewhere",
        "rank 2 is asleep, train.py:31 in evaluate",
        "time.sleep(3600)",
        "Do not",
        "all_reduce #41",
        "held responsible",
        "not begun, as far as its recorder shows",
    ):
        assert expected in seen.text


def test_nothing_is_loaded_and_nothing_runs():
    seen = Elements(page.render(incident()))

    assert not seen.names & {"script", "img", "iframe", "object", "form", "base"}
    assert not [
        value
        for name, value in seen.attributes
        if name in {"src", "href", "style"} or name.startswith("on")
    ]
    assert any((value or "").startswith("default-src 'none'") for _, value in seen.attributes)


def test_text_from_outside_stays_text():
    written = page.render(hostile())
    seen = Elements(written)

    assert not seen.names & {"script", "img"}
    assert "<script>alert(1)</script>" in seen.text
    assert "\x1b" not in written
    assert "\u202e" not in written


def test_a_healthy_snapshot_has_a_report_too():
    assert "Nothing is wrong" in page.render(contents(job().snapshot(), None, {}))


@pytest.mark.parametrize("size", [4, 600, 6000])
def test_it_stays_small_enough_to_be_mailed(size: int, tmp_path: Path):
    assert len(page.render(incident(size))) < 500_000
