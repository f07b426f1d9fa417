"""The tree in the docstring is the tree in the code, and exit codes stay what they are."""

import re

import pytest

from unstuck import errors
from unstuck.errors import InternalError, UnstuckError, UserError, WorldError


def all_errors(base: type[UnstuckError] = UnstuckError) -> list[type[UnstuckError]]:
    return [base, *(found for child in base.__subclasses__() for found in all_errors(child))]


def test_docstring_draws_every_error() -> None:
    drawn = re.findall(r"(\w+Error)\b", (errors.__doc__ or "").split("Exit codes")[0])

    assert drawn == [
        error.__name__ for error in all_errors() if error.__module__ == errors.__name__
    ]


@pytest.mark.parametrize(("root", "code"), [(UserError, 2), (WorldError, 3), (InternalError, 4)])
def test_exit_code_says_whose_turn_it_is(root: type[UnstuckError], code: int) -> None:
    assert {error.exit_code for error in all_errors(root)} == {code}


def test_error_carries_one_line_and_what_to_type_next() -> None:
    error = UserError("nothing is at runs/7", hint="ls runs")

    assert str(error) == "nothing is at runs/7"
    assert error.hint == "ls runs"
