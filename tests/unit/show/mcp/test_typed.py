"""The answers of the tools are typed, and every list has a cursor."""

from pydantic import BaseModel

from unstuck.show.mcp import typed


def models() -> list[type[BaseModel]]:
    found = (one for one in vars(typed).values() if isinstance(one, type))
    return [one for one in found if issubclass(one, typed.Answer)]


def test_a_schema_explains_what_a_name_does_not():
    schema = typed.JobVerdict.model_json_schema()
    assert schema["properties"]["verdict"]["description"].startswith("null: nothing")
    assert all(one.__doc__ for one in models())


def test_answers_cannot_be_changed():
    page = typed.Page()
    assert (page.next_cursor, page.total) == ("", 0)
    assert typed.Page.model_config.get("frozen")
