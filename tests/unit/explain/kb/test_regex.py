"""Patterns that some line could make run for ever are refused; the useful ones are not."""

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.explain.kb import hostile, regex


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(?:a|aa)*c",
        r"(\w+\s*)*:",
        r"rank (?:\d+,?)* failed",
        r"x(?:y{1,9}){1,9}z",
        r"(?:.*,)*end of it",
        r"x(y)?(?(1)(?:a+)+|b)z",
    ],
)
def test_repeat_inside_a_repeat_is_refused(pattern: str) -> None:
    assert "repeat inside a repeat" in regex.problem(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"failed.*rank.*timeout",
        r"failed .*?, .*",
        r"a\d*\d+b",
        r"a[^x]*b[^y]*c",
        r"error (?:in .*)?at .* line",
        r"error (?:in .*|of .*) at .* line",
        r"(in )?error (?(1).*|x) at .* line",
    ],
)
def test_two_open_ends_that_share_text_are_refused(pattern: str) -> None:
    assert "two open-ended repeats" in regex.problem(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"rank.{0,900}.{0,900}.{0,900}failed",
        r"rank a{0,999}a{0,999}a{0,999}b",
        r"rank" + r" .{0,99}" * 4,
        r"rank .*, .{0,200}, .{0,200}, failed",
    ],
)
def test_bounded_repeats_that_share_text_are_refused_when_they_are_many(pattern: str) -> None:
    assert "more than two long ones" in regex.problem(pattern)


def test_many_optional_parts_do_not_make_the_check_itself_slow() -> None:
    began = process_time()
    assert regex.problem("x.*" + "a?" * 200 + "b") == ""

    assert process_time() - began < 1


@pytest.mark.parametrize("pattern", [r".*failed", r"(?P<all>.+) failed", r"\S+ failed", r"\b.*x"])
def test_leading_open_end_is_refused(pattern: str) -> None:
    assert "starts with" in regex.problem(pattern)


@pytest.mark.parametrize("pattern", [r"(unclosed", r"a{5,2}", r"(?P<1>x)"])
def test_pattern_that_does_not_compile_is_refused(pattern: str) -> None:
    assert "does not compile" in regex.problem(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"Ranks? (?P<missing>\d+(?:, \d+)*) failed to pass",
        r"(?:\d{1,3}\.){3}\d{1,3} is not reachable",
        r"version (\d+\.)+\d+",
        r"SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+), NumelIn=(?P<numel_in>\d+)",
        r"ran for .*?=(?P<ms>\d+) ms",
        r"keys: (?P<keys>/\w+(?:, /\w+)*) after",
        r"failed .{0,200}, because of .{0,200}",
        r"^.* failed",
        r"reason \[(?P<a>[^\]]*)\] and \[(?P<b>[^\]]*)\]",
        r"cause: (?P<cause>.*)",
    ],
)
def test_useful_patterns_pass_and_are_fast(pattern: str) -> None:
    assert regex.problem(pattern) == ""
    assert hostile.slowest(pattern) < hostile.SLOWEST


def test_probe_ends_soon_on_a_pattern_that_would_not() -> None:
    began = process_time()
    took = hostile.slowest(r"(?:a|a)*(?:a|a)*(?:a|a)*b")

    assert took > hostile.SLOWEST
    assert process_time() - began < 20


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        (r"Connection (reset|refused) by \d+ peers", {"Connection reset by ", " peers"}),
        (r"timed out(?: after)? it", {"timed out it"}),
        (r"[Tt]imed out", {"timed out"}),
        (r"(?:abc){2} (?!never)def", {"abcabc def"}),
        (r"exitcode {1,2}: -9", {"exitcode  : -9"}),
        (r"exitcode +: -9", {"exitcode ", " : -9"}),
    ],
)
def test_expansions_tell_the_literals_that_a_match_needs(pattern: str, ways: set[str]) -> None:
    assert ways in [set(way) for way in regex.expansions(pattern)]


def test_flag_at_the_start_ignores_case() -> None:
    assert regex.ignores_case("(?i)abc")
    assert regex.ignores_case("(?si)abc")
    assert not regex.ignores_case("(?s)abc")
    assert not regex.ignores_case("a(?i:bc)")


@given(
    st.recursive(
        st.sampled_from(["a", "b", r"\d", r"\w", ".", "[^a]", " ", "ab"]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            inner.map(lambda p: f"(?:{p})*"),
            inner.map(lambda p: f"(?:{p})?"),
            inner.map(lambda p: f"(?:{p}){{1,3}}"),
            st.tuples(inner, inner).map(lambda p: f"(?:{p[0]}|{p[1]})"),
        ),
        max_leaves=6,
    ),
    st.text(alphabet="ab 0", max_size=30),
)
def test_literals_of_an_expansion_are_in_every_match(pattern: str, text: str) -> None:
    match = re.search(pattern, text)
    ways = regex.expansions(pattern)

    assert match is None or any(all(part in match[0] for part in way) for way in ways)
