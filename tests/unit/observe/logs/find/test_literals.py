"""Both scanners find the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.observe.logs.find.literals import HyperScanner, Literal, PlainScanner, scanner

LITERALS = [Literal(b"ab"), Literal(b"b("), Literal(b"Error", any_case=True), Literal(b"\xc3\xa9")]


@given(st.lists(st.sampled_from([b"ab", b"b(", b"ERROR", b"error", b"\xc3\xa9", b"\xff", b"a"])))
def test_with_and_without_hyperscan_the_hits_are_the_same(parts: list[bytes]):
    data = b"".join(parts)
    assert sorted(HyperScanner(LITERALS).scan(data)) == PlainScanner(LITERALS).scan(data)


def test_without_literals_nothing_is_found():
    assert scanner([]).scan(b"anything") == []


def test_without_hyperscan_the_plain_way_is_taken(monkeypatch: pytest.MonkeyPatch):
    def refuse(_name: str) -> None:
        raise ImportError("no such instruction")

    monkeypatch.setattr("unstuck.observe.logs.find.literals.import_module", refuse)
    assert scanner([Literal(b"x")]).scan(b"axbx") == [(2, 0), (4, 0)]
