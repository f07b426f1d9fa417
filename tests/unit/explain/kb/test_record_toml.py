"""Any text of a record comes back from its TOML file as it was."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from unstuck.explain.kb import read
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.record_toml import to_toml
from unstuck.explain.kb.schema import Record, Text

RECORD = gather([read.BUILT_IN]).records[0]
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@given(TEXTS, TEXTS)
def test_any_text_comes_back(one: str, other: str):
    record = replace(
        RECORD, signature=one, imported=other, os_notes={one: Text(other, one)}, tags=(one, other)
    )
    assert msgspec.toml.decode(to_toml(record), type=Record) == record


def test_patterns_are_readable():
    text = to_toml(replace(RECORD, patterns=(r"Timed out waiting \d+ms",)))
    assert r"patterns = ['Timed out waiting \d+ms']" in text
