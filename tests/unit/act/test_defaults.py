"""`--recover` has a sensible answer to every cause; without it nothing is touched."""

from pathlib import Path

import pytest

from unstuck.act.defaults import RECOVER, policy
from unstuck.act.plan import exit_of
from unstuck.errors import ConfigError
from unstuck.model.action import TELLING, Action
from unstuck.model.exits import Exit
from unstuck.model.verdict import Cause


def acts(cause: Cause) -> list[Action]:
    return [step.action for step in policy(recover=True).rules[cause]]


def test_every_cause_has_a_rule_and_a_reason():
    assert set(RECOVER) == set(Cause)
    assert all(default.why for default in RECOVER.values())
    for cause in Cause:
        assert {Action.DUMP, Action.REPORT, Action.NOTIFY} <= {*acts(cause)}


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Cause.COLLECTIVE_MISMATCH, Exit.CODE),
        (Cause.ORDER_INVERSION, Exit.CODE),
        (Cause.UNEVEN_WORK, Exit.CODE),
        (Cause.RANK_LEFT_EARLY, Exit.CODE),
        (Cause.SOFTWARE_BUG, Exit.CODE),
        (Cause.TIMEOUT_TOO_SHORT, Exit.SETTINGS),
        (Cause.NETWORK_MISCONFIGURATION, Exit.SETTINGS),
    ],
)
def test_what_a_restart_cannot_mend_is_stopped_at_once(cause: Cause, code: Exit):
    touching = [s for s in policy(recover=True).rules[cause] if s.action not in TELLING]
    assert [step.action for step in touching] == [Action.STOP]
    assert exit_of(touching[0]) is code


def test_what_moves_is_only_told():
    assert {*acts(Cause.STRAGGLER)} <= TELLING
    assert {*acts(Cause.RESOURCE_CONTENTION)} <= TELLING


def test_what_may_pass_is_given_time_first():
    for cause in (Cause.TRANSPORT_STALL, Cause.UNKNOWN):
        touching = [act for act in acts(cause) if act not in TELLING]
        assert touching[0] is Action.WAIT


def test_what_a_healthy_rank_looks_like_is_only_told():
    for cause in (Cause.BUSY_ELSEWHERE, Cause.HOST_DEADLOCK, Cause.NEVER_JOINED):
        assert {*acts(cause)} <= TELLING


def test_lost_node_is_left_behind():
    for cause in (Cause.NODE_FAILURE, Cause.NETWORK_PARTITION, Cause.HARDWARE_FAULT):
        assert Action.EXCLUDE in acts(cause)


def test_without_recover_nothing_acts_and_no_file_is_read(tmp_path: Path):
    file = tmp_path / "unstuck.toml"
    file.write_text("not toml at all [")
    found = policy(recover=False, file=file)
    assert not found.acts
    assert all(
        {s.action for s in rule} == {Action.DUMP, Action.REPORT} for rule in found.rules.values()
    )


def test_one_rule_by_option_acts_for_that_cause_only():
    found = policy(recover=False, on=("process-crash=report,restart",))
    assert found.acts
    assert [c for c, r in found.rules.items() if any(s.action not in TELLING for s in r)] == [
        Cause.PROCESS_CRASH
    ]


def test_bad_file_is_said(tmp_path: Path):
    file = tmp_path / "unstuck.toml"
    for text, complaint in (
        ("[policy", "is not TOML"),
        ("policy = 3", "is not a table"),
        ("[policy]\nfoo = 'report'", "no cause `foo`"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=complaint):
            policy(recover=True, file=file)
    with pytest.raises(ConfigError, match="cannot read"):
        policy(recover=True, file=tmp_path / "none.toml")
