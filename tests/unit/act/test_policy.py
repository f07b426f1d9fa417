"""A policy is read from words, and what does not make sense is refused in one line."""

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.act.defaults import policy
from unstuck.act.policy import Limits, parse_on, parse_rule, parse_table
from unstuck.errors import PolicyError
from unstuck.model.action import Action, Step
from unstuck.model.verdict import Cause

CRASH = Cause.PROCESS_CRASH


def test_acts_and_limits_are_read_in_order():
    rule = parse_rule(CRASH, "dump, wait:1.5m, checkpoint:20, restart:2, stop:code")
    assert rule == (
        Step(Action.DUMP),
        Step(Action.WAIT, seconds=90),
        Step(Action.CHECKPOINT, seconds=20),
        Step(Action.RESTART, times=2),
        Step(Action.STOP, stop="code"),
    )


def test_list_of_a_file_and_text_of_an_option_are_the_same():
    assert (
        parse_rule(CRASH, ["report", "restart:2"]) == parse_on("process-crash=report,restart:2")[1]
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("process-crash", "is not CAUSE=ACTIONS"),
        ("proces-crash=report", "did you mean `process-crash`"),
        ("process-crash=", "no action"),
        ("process-crash=restrt", "did you mean `restart`"),
        ("process-crash=restart:x", "needs a number of times"),
        ("process-crash=restart:0", "needs a number of times"),
        ("process-crash=restart:²", "needs a number of times"),
        ("process-crash=wait:soon", "needs a time"),
        ("process-crash=wait:0", "needs a time"),
        ("process-crash=wait:8d", "needs a time"),
        ("process-crash=wait:", "lacks its limit"),
        ("process-crash=report:3", "takes no limit"),
        ("process-crash=stop:later", "names no exit code"),
        ("process-crash=stop,restart", "would never be done"),
        ("process-crash=restart,restart", "is given twice"),
        ("straggler=report,restart", "would end a job that moves"),
    ],
)
def test_nonsense_is_refused_in_one_line(text: str, complaint: str):
    with pytest.raises(PolicyError, match=complaint) as caught:
        parse_on(text)
    assert "\n" not in caught.value.message


@given(st.text(string.printable))
def test_any_text_is_read_or_refused(text: str):
    with contextlib.suppress(PolicyError):
        assert parse_on(text)[1]


def test_a_step_is_written_as_it_is_read():
    rule = parse_rule(CRASH, "dump,wait:90,checkpoint:20s,restart:2,stop:code")
    assert parse_rule(CRASH, ",".join(str(step) for step in rule)) == rule


def test_option_wins_over_file_and_file_over_default():
    base = policy(recover=True)
    table = {"process-crash": "report,stop", "unknown": ["report"], "limits": {"restarts": 2}}
    found = parse_table(base, table, "unstuck.toml", ("unknown=notify",))
    assert found.rules[CRASH] == (Step(Action.REPORT), Step(Action.STOP))
    assert found.rules[Cause.UNKNOWN] == (Step(Action.NOTIFY),)
    assert found.origins[CRASH] == "unstuck.toml"
    assert found.origins[Cause.UNKNOWN] == "--on"
    assert found.origins[Cause.STRAGGLER] == "default"
    assert found.limits == Limits(restarts=2)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"limits": {"restart": 1}}, "unknown field `restart`"),
        ({"limits": {"restarts": 1.5}}, "limits: Expected `int`"),
        ({"limits": {"lease": True}}, "limits: Expected `float`"),
        ({"limits": {"lease": 0}}, "limits: Expected `float` > 0.0"),
        ({"limits": {"lease": float("nan")}}, "limits: Expected `float` > 0.0"),
        ({"limits": 3}, "limits is not a table"),
        ({"notify": {"webhook": "https://hooks.example.org/T0/B0"}}, "is a secret"),
        ({"notify": {"mail": "me"}}, "unknown field `mail`"),
        ({"process-crash": 3}, "must be a list of words"),
        ({"nonsense": "report"}, "there is no cause `nonsense`"),
    ],
)
def test_nonsense_in_a_file_is_refused_with_the_files_name(
    table: dict[str, object], complaint: str
):
    with pytest.raises(PolicyError, match=complaint) as caught:
        parse_table(policy(recover=True), table, "unstuck.toml")
    assert caught.value.message.startswith("unstuck.toml: ")
