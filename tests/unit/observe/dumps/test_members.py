"""Who is in which group, from all dumps together."""

from pathlib import Path

from recorded import blamed, dump, entry, gloo, message, put, rank, snapshot_of, started, verdict_of
from unstuck.diagnose.diagnose import diagnose


def test_the_last_rank_is_missed_where_the_dumps_list_the_job(tmp_path: Path):
    put(tmp_path, {number: dump(entry(1), started(2)) for number in range(3)})
    snapshot = snapshot_of(tmp_path)

    assert snapshot.world_size == 4
    assert rank(snapshot, 3).unobserved == "there is no dump of it"
    verdict = diagnose(snapshot).verdict
    assert verdict is not None
    assert "rank 3, for which the others wait" in verdict.summary


def test_a_rank_that_is_missing_does_not_hide_one_that_did_not_come(tmp_path: Path):
    ahead = dump(entry(1), started(2))
    put(tmp_path, {0: ahead, 1: ahead, 2: dump(entry(1))})
    assert blamed(verdict_of(tmp_path)) == [2]


def test_ranks_of_a_message_are_those_within_its_group(tmp_path: Path):
    config = {"pp": {"name": "pp", "desc": "pp", "ranks": "[4, 9]"}}
    waits = message(1, "recv 1<-0", process_group=["pp", "pp"])
    put(tmp_path, {9: dump(waits, pg_config=config), 4: dump(pg_config=config)})
    (one,) = rank(snapshot_of(tmp_path), 9).p2p
    assert (one.kind, one.peer, one.ordinal) == ("recv", 4, 1)


def test_a_rank_that_recorded_nothing_is_behind_all_others(tmp_path: Path):
    waits = gloo(entry(1, retired=False))
    put(tmp_path, {0: waits, 1: waits, 2: gloo(), 3: waits})
    verdict = verdict_of(tmp_path)
    assert blamed(verdict) == [2]
    assert verdict is not None
    assert "has issued no collective" in verdict.summary


def test_gloo_and_nccl_parts_of_one_group_are_kept_apart(tmp_path: Path):
    put(tmp_path, {number: dump(entry(1), started(2), size=2) for number in range(2)}, "gpu_")
    put(tmp_path, {number: gloo(entry(1)) for number in range(2)}, "cpu_")
    names = [group.name for group in rank(snapshot_of(tmp_path), 0).groups]
    assert sorted(names) == ["0 (gloo)", "0 (nccl)"]
