"""A line becomes a skeleton: what varies is templated, what only people know is missing."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unstuck.explain.kb import regex
from unstuck.explain.kb.check import check, gather
from unstuck.explain.kb.draft import draft, template

LINE = (
    "[rank3]:[E1115 10:22:33.123 ProcessGroupNCCL.cpp:616] [Rank 3] shard 7 of /data/a/b is "
    "short by 12.5 KB at 10.0.0.3:29500 (pid 4711) after 600000 ms: 0x7F00abcd 'x y'"
)


def test_what_varies_is_taken_out() -> None:
    made = template(LINE)

    assert made.signature == ("[Rank …] shard … of … is short by … KB at … (pid …) after … ms: … …")
    match = re.search(made.pattern, LINE)
    assert match
    assert match.groupdict() == {
        "rank": "3",
        "path": "/data/a/b",
        "addr": "10.0.0.3:29500",
        "pid": "4711",
        "timeout_ms": "600000",
    }


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank3]: ",
        "[default0]:",
        "2026-11-15 10:22:33,123 ",
        "2026-11-15T10:22:33.5Z ",
        "(Worker pid=77, ip=10.0.0.1) ",
        "node7:4711:4712 [0] ",
        "[E ProcessGroupNCCL.cpp:616] ",
        "3: ",
        "\x1b[31mERROR: ",
        "[rank3]: 2026-11-15 10:22:33 INFO ",
    ],
)
def test_prefix_of_the_line_is_no_part_of_the_message(prefix: str) -> None:
    assert template(f"{prefix}the shard is short").signature == "the shard is short"


def test_other_values_of_the_same_message_match() -> None:
    pattern = template("shard 7 of /data/a is short by 0x1f").pattern

    assert re.search(pattern, "shard 123 of /data/other/b is short by 0xffff")


def test_skeleton_is_refused_until_it_is_filled_in(tmp_path: Path) -> None:
    text = draft("RuntimeError: the shard 'a' is short by 12 bytes", "data/short")
    path = tmp_path / "data" / "short.toml"
    path.parent.mkdir()
    path.write_text(text)
    assert [str(p) for p in gather([tmp_path]).problems] == [f"{path}:role: Invalid enum value ''"]

    path.write_text(text.replace('role = ""', 'role = "root"'))
    found = gather([tmp_path])
    fields = {p.field for p in check(found.records)}
    assert {"title.en", "root_cause.zh", "must_not_match", "category"} <= fields
    assert not {field for field in fields if field.startswith(("patterns", "anchors", "must_m"))}


def test_domain_and_name_are_guessed_from_the_line() -> None:
    assert "id = 'nccl/nccl-warn-shard-is-short'" in draft("NCCL WARN shard is short")
    assert "missing: a longer anchor" in draft("x 1 y 2")


@settings(deadline=None)
@given(st.text(max_size=300))
@example("1.2.3.4.5")
@example("1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22.23")
@example("/a/b;/c/d;/e/f;/g/h")
@example("/a/b/c//d/e 0x" + "f" * 50 + " " + "9" * 60)
@example("it's \"quoted\" 'twice' \\d")
@example("3: 4: [rank1]:")
def test_any_line_gives_a_pattern_that_matches_it_and_is_safe(line: str) -> None:
    made = template(line)

    assert re.search(made.pattern, made.line)
    assert regex.problem(made.pattern) == ""


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_line_gives_readable_toml(line: str) -> None:
    import tomllib

    record = tomllib.loads(draft(line, "a/b"))

    assert record["must_match"] == [template(line).line]
    assert re.search(record["patterns"][0], record["must_match"][0])
