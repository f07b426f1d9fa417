"""A record is strict: what is not known is an error, and every text has both languages."""

import msgspec
import pytest
from msgspec.structs import replace

from unstuck.explain.kb.schema import Confusion, Graph, Record, Text, say


def test_text_is_said_in_the_language_asked_for() -> None:
    text = Text("a barrier", "\u5c4f\u969c")

    assert say(text, "en") == "a barrier"
    assert say(text, "zh") == "\u5c4f\u969c"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"colour": "red"}, "unknown field"),
        ({"role": "culprit"}, "Invalid enum value"),
        ({"title": {"en": "only English"}}, "missing required field `zh`"),
        ({"title": {"en": "a", "zh": "b", "de": "c"}}, "unknown field `de`"),
        ({"facts": ["full-moon"]}, "Invalid enum value"),
    ],
)
def test_unknown_word_is_an_error(barrier: Record, change: dict[str, object], why: str) -> None:
    plain = {**msgspec.to_builtins(barrier), **change}

    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(plain, Record)


def test_links_name_the_field_that_has_them(barrier: Record) -> None:
    graph = Graph(("a/1", "a/2"), ("b/1",), (Confusion("c/1", Text("x", "y")),))
    record = replace(barrier, refines="d/1", graph=graph)

    assert record.links() == [
        ("refines", "d/1"),
        ("graph.leads_to[0]", "a/1"),
        ("graph.leads_to[1]", "a/2"),
        ("graph.preceded_by[0]", "b/1"),
        ("graph.confused_with[0]", "c/1"),
    ]
    assert replace(barrier, graph=Graph()).links() == []
