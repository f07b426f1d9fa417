"""What the ranks of a rehearsal found becomes lines that say what is wrong and where."""

from unstuck.launch.rehearsal.rated import rate
from unstuck.model.health import Check, Rating
from unstuck.model.rehearsal import PairResult, RankReport, ReduceResult

VERSIONS = {"python": "3.11.7", "torch": "2.13.0"}


def reports(count: int = 3, **fields: object) -> list[RankReport]:
    return [
        RankReport(
            rank, count, f"node{rank}", f"{rank}/node{rank}", stage="done", versions=VERSIONS,
            reduces=[ReduceResult(count, 0.01)], compute=1000.0, **fields,  # type: ignore[arg-type]
        )
        for rank in range(count)
    ]  # fmt: skip


def ways(slow: str = "", bandwidth: float = 1e9) -> list[PairResult]:
    names = [f"node{n}" for n in range(4)]
    return [
        PairResult(
            a, b, f"10.0.0.{i}:4000", 0.0002, bandwidth / 20 if slow in (a, b) else bandwidth
        )
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    ]


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_a_good_launch_has_nothing_wrong() -> None:
    found = reports()
    found[0].pairs = ways()
    checks = rate(found, 3)

    assert {check.rating for check in checks} == {Rating.OK}
    assert "every rank has met every other" in checks[0].text


def test_ranks_that_did_not_arrive_are_named() -> None:
    found = reports(3)[:2]
    for one in found:
        one.missing = [2]

    assert "rank 2 did not arrive" in named(rate(found, 3), "ranks").text


def test_a_blocked_way_names_both_ends_and_the_reason() -> None:
    found = reports()
    found[1].pairs = [PairResult("node1", "node2", "10.0.0.3:4000", error="timed out")]
    check = named(rate(found, 3), "connections")

    assert check.rating is Rating.BAD
    assert "node1 cannot reach node2 at 10.0.0.3:4000: timed out" in check.text
    assert "open all TCP ports" in check.fix


def test_a_name_that_leads_to_the_loopback_is_recognised() -> None:
    found = reports()
    found[1].pairs = [PairResult("node1", "node2", "127.0.1.1:4000", error="connection refused")]

    assert "/etc/hosts" in named(rate(found, 3), "connections").fix


def test_the_machine_at_the_end_of_every_slow_way_is_named() -> None:
    found = reports()
    found[0].pairs = ways(slow="node2")
    check = named(rate(found, 3), "bandwidth")

    assert check.rating is Rating.WARNING
    assert "node2 is at the end of every slow way" in check.fix


def test_one_slow_link_between_two_machines_accuses_neither() -> None:
    found = reports(2)
    found[0].pairs = [PairResult("node0", "node1", "10.0.0.2:4000", 0.0002, 1e5)]
    check = named(rate(found, 2), "bandwidth")

    assert check.rating is Rating.WARNING
    assert "node0 to node1 0.8 Mbit/s" in check.text
    assert "end of every slow way" not in check.fix


def test_other_versions_and_a_wrong_clock_are_told_with_their_machine() -> None:
    found = reports()
    found[2].versions = {**VERSIONS, "torch": "2.9.1"}
    found[0].pairs = [PairResult("node0", "node2", "10.0.0.3:1", 0.0002, 1e9, clock_offset=-90.0)]
    checks = rate(found, 3)

    assert "torch is 2.9.1 on node2, 2.13.0 elsewhere" in named(checks, "versions").text
    assert "node2 is 90.0 s behind node0" in named(checks, "clocks").text


def test_an_all_reduce_that_does_not_end_names_who_did_not_come() -> None:
    found = reports()
    found[2].reduces = []
    found[2].stage = "pairs"
    found[2].problems = ["all_reduce in groups of 3: gave up after 18 s"]
    checks = rate(found, 3)

    assert "rank 2 did not come to its end" in named(checks, "all-reduce").text
    assert "rank 2: all_reduce in groups of 3: gave up" in named(checks, "problem").text


def test_a_machine_that_computes_slowly_is_named_and_nothing_at_all_is_bad() -> None:
    found = reports()
    found[1].compute = 100.0

    assert "node1 10 times slower" in named(rate(found, 3), "computing").text
    assert rate([], 0)[0].rating is Rating.BAD
