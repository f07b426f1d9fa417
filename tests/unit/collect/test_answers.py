"""What a rank is told about the others, from states as agents see them."""

from typing import Any

import pytest

from unstuck.collect import answers
from unstuck.model.frame import Frame
from unstuck.model.host import PeerLink
from unstuck.model.rank import (
    CodeLine,
    Failure,
    GroupProgress,
    Operation,
    Phase,
    PointToPoint,
    Process,
    ProcessState,
    RankState,
)
from unstuck.model.snapshot import NodeState, Snapshot

GONE = ProcessState.GONE
ALIVE = Process(7, ProcessState.SLEEPING)


def told(state: RankState, **how: Any) -> dict[str, Any]:
    return answers.about_ranks([state], 1_000_000.0, **how)["ranks"][str(state.rank)]


def rank(process: Process = ALIVE, **fields: Any) -> RankState:
    return RankState(2, "a", process, phase=fields.pop("phase", "run"), **fields)


PENDING = GroupProgress("0", (0, 1), 9, 8, pending=(Operation("0", 9, "all_reduce"),))


@pytest.mark.parametrize(
    ("state", "word", "doing"),
    [
        (rank(), "running", "is running its own code"),
        (rank(sections=("load",)), "running", "is running its own code in section load"),
        (rank(phase="start"), "starting", "is starting"),
        (rank(phase="init"), "waiting", "waits in init_process_group"),
        (
            rank(in_flight=True, groups=(PENDING,)),
            "waiting",
            "waits in all_reduce number 9 of group 0",
        ),
        (
            rank(in_flight=True, p2p=(PointToPoint("recv", "0", 1, 1),)),
            "waiting",
            "waits in a recv with rank 1",
        ),
        (rank(in_flight=True), "waiting", "waits for others"),
        (rank(Process(7, ProcessState.STOPPED)), "stopped", "is stopped"),
        (rank(beat_age=5.0), "frozen", "cannot run Python code at the moment"),
        (rank(left_for=3.0), "left", "has left the job"),
        (
            rank(failure=Failure("KeyError", "'x'\nmore", 2.0)),
            "failed",
            "failed with KeyError: 'x'",
        ),
        (rank(failure=Failure("OSError", "", 2.0)), "failed", "failed with OSError: "),
        (rank(Process(7, GONE, gone_for=4.0, exit_code=-9)), "gone",
         "has ended, killed by signal 9"),
        (rank(Process(7, GONE, gone_for=4.0, exit_code=3)), "gone", "has ended with exit code 3"),
        (rank(Process(7, ProcessState.ZOMBIE)), "gone", "has ended"),
        (rank(Process(7, GONE, gone_for=4.0, exit_code=0)), "left", "has left the job"),
        (rank(Process(7, GONE, gone_for=4.0), phase="exit"), "left", "has left the job"),
        (rank(unobserved="no page"), "unobserved", "cannot be observed: no page"),
    ],
)  # fmt: skip
def test_every_state_has_a_word_and_a_phrase(state: RankState, word: str, doing: str):
    found = told(state)
    assert (found["state"], found["doing"]) == (word, doing)


def test_rank_of_a_silent_node_is_silent_unless_it_is_known_to_have_ended():
    silent = frozenset({"a"})
    assert told(rank(), silent=silent)["state"] == "silent"
    assert told(rank(Process(7, GONE, gone_for=1.0)), silent=silent)["state"] == "gone"


def test_place_is_the_scripts_own_line_or_that_of_its_failure():
    stack = (CodeLine("torch/x.py", 1, "f"), CodeLine("train.py", 9, "main", user=True))
    found = told(rank(stack=stack, stalled_for=2.5))
    assert (found["file"], found["line"], found["function"]) == ("train.py", 9, "main")
    assert (found["since"], found["seconds"]) == ("1970-01-12T13:46:37.500Z", 2.5)
    failed = told(rank(stack=stack, failure=Failure("E", "", 1.0, CodeLine("a.py", 3, "g"))))
    assert failed["file"] == "a.py"


def test_who_knows_more_about_a_running_rank_is_asked():
    assert told(rank(), describe=lambda _: "is asleep")["doing"] == "is asleep"
    assert (
        told(rank(Process(7, ProcessState.STOPPED)), describe=lambda _: "is asleep")["doing"]
        == "is stopped"
    )


def test_answer_is_bounded_and_keeps_those_that_do_not_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answers, "MOST_RANKS", 2)
    ranks = [RankState(n, "a", ALIVE, phase=Phase.RUN, in_flight=n != 3) for n in range(5)]
    found = answers.about_ranks(ranks, 0.0)
    assert (list(found["ranks"]), found["left_out"]) == (["3", "0"], 3)


def test_peers_tell_a_stopped_node_from_a_silent_and_a_lost_one():
    nodes = (
        NodeState("a/1", "a", 0.2),
        NodeState("b/1", "b", 5.0),
        NodeState("c/1", "c", 5.0, kernel_answers=True),
        NodeState("d/1", "d", 5.0, disconnected=True),
        NodeState("e/1", "e", 9.0, ended=True),
    )
    ranks = tuple(RankState(n, host, ALIVE, phase=Phase.RUN) for n, host in enumerate("abcde"))
    found = answers.answer({"ask": "peers"}, Snapshot(50.0, nodes, ranks))
    assert {name: (n["state"], n["alive"], n["silent"]) for name, n in found["nodes"].items()} == {
        "a/1": ("alive", True, False),
        "b/1": ("silent", False, True),
        "c/1": ("stopped", True, True),
        "d/1": ("lost", False, True),
        "e/1": ("ended", False, False),
    }
    assert [found["ranks"][str(n)]["state"] for n in range(4)] == ["running", *["silent"] * 3]
    assert list(answers.silent_ranks(Snapshot(50.0, nodes, ranks[:4]))) == ["1", "2", "3"]
    assert found["nodes"]["b/1"]["ranks"] == [1]


def test_question_without_an_answer():
    assert "error" in answers.answer({"ask": "why"}, Snapshot(0.0))


@pytest.mark.parametrize(
    ("silent_for", "suspected", "state"),
    [(1.3, (True, True), "silent"), (1.3, (True, False), "alive"), (0.9, (True, True), "alive")],
)
def test_node_that_all_its_neighbours_suspect_is_silent_sooner(
    silent_for: float, suspected: tuple[bool, bool], state: str
):
    nodes = (
        NodeState("a/1", "a", 0.2, links=(PeerLink("c/1", "c", 1.2, suspect=suspected[0]),)),
        NodeState("b/1", "b", 0.2, links=(PeerLink("c/1", "c", 1.2, suspect=suspected[1]),)),
        NodeState("c/1", "c", silent_for, suspect_after=2.0),
    )
    found = answers.answer({"ask": "peers"}, Snapshot(50.0, nodes))
    assert found["nodes"]["c/1"]["state"] == state


def test_what_one_node_sees_by_itself():
    links = (
        PeerLink("b/1", "b", 0.1),
        PeerLink("c/1", "c", 2.0, suspect=True),
        PeerLink("d/1", "d"),
    )
    frame = Frame("a/1", "a", 1, 0.0, (rank(),), links=links)
    nodes = answers.own_peers(frame, 50.0)["nodes"]
    assert [nodes[name]["state"] for name in ("a/1", "b/1", "c/1", "d/1")] == [
        "alive", "alive", "silent", "alive",
    ]  # fmt: skip
