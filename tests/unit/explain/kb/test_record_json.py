"""Records of other collections come in and go out again without losing anything."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from unstuck.errors import RecordError
from unstuck.explain.kb import read
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.record_json import from_json, to_json
from unstuck.explain.kb.record_toml import to_toml
from unstuck.explain.kb.schema import Rate, Record, Text, Tier

BUILT_IN = gather([read.BUILT_IN]).records

FOUNDING: dict[str, Any] = {
    "id": "pytorch/barrier-timeout-elsewhere",
    "signature": "RuntimeError: [torch.distributed] Barrier timeout after 600000 ms",
    "signature_zh": "\u969c\u788d\u540c\u6b65\u8d85\u65f6",
    "regex": r"RuntimeError: \[torch\.distributed\] Barrier timeout after \d+ ms",
    "domain": "pytorch",
    "category": "network_error",
    "subcategory": None,
    "root_cause": "A rank did not reach the barrier.",
    "root_cause_type": "generic",
    "root_cause_zh": "\u67d0\u4e2a\u8fdb\u7a0b\u672a\u5230\u8fbe",
    "versions": [
        {
            "version": "torch>=1.13.0",
            "introduced": None,
            "deprecated": None,
            "removed": None,
            "behavior_change": None,
            "status": "active",
        }
    ],
    "os_specific": {"windows": "no NCCL"},
    "dead_ends": [
        {
            "action": "",
            "why_fails": "A longer timeout does not fix a deadlock.",
            "fail_rate": 0.8,
            "condition": "",
            "sources": [],
        }
    ],
    "workarounds": [
        {
            "action": "Give all ranks the same number of batches",
            "success_rate": 0.7,
            "how": "drop_last=True",
            "condition": "uneven data",
            "sources": ["https://example.org/1"],
        }
    ],
    "workarounds_zh": ["\u4f7f\u7528 drop_last"],
    "transition_graph": {
        "leads_to": ["gloo/recv-timeout"],
        "preceded_by": [],
        "frequently_confused_with": ["torchrun/exit-barrier-timeout"],
    },
    "official_doc_url": "https://docs.pytorch.org/docs/stable/distributed.html",
    "official_doc_section": None,
    "error_code": None,
    "verification_tier": "ai_generated",
    "confidence": 0.88,
    "fix_success_rate": 0.8,
    "resolvable": "true",
    "first_seen": "2023-05-20",
    "last_confirmed": "2024-06-01",
    "last_updated": "2024-06-01",
    "evidence_count": 1,
    "tags": [],
    "locale": "en",
    "aliases": ["barrier timeout"],
    "of_their_own": {"votes": [1, 2.5, None]},
}


def stored(record: Record, directory: Path) -> Record:
    """Write a record to its TOML file and read it again."""
    path = directory / "record.toml"
    path.write_text(to_toml(record), encoding="utf-8")
    return read.read(path)


def test_founding_record_survives_the_way_through_toml(tmp_path: Path):
    record = stored(from_json(FOUNDING), tmp_path)

    assert to_json(record) == FOUNDING
    assert list(to_json(record)) == list(FOUNDING)
    assert json.loads(json.dumps(to_json(record), ensure_ascii=False)) == FOUNDING


def test_imported_record_is_recognised_in_logs(tmp_path: Path):
    record = stored(from_json(FOUNDING), tmp_path)
    line = f"[rank3]: {FOUNDING['signature']}"

    assert [found for found, _, _ in Matcher(KnowledgeBase([record])).confirm(line)] == [record.id]
    assert record.tier is Tier.UNVERIFIED
    assert record.dead_ends[0].rate is None  # a rate without its count is not believed


def test_change_made_here_goes_out_and_the_rest_as_it_came():
    record = from_json(FOUNDING)
    changed = replace(record, root_cause=Text("Another reason.", record.root_cause.zh))
    out = to_json(replace(changed, tags=("barrier",)))

    assert out["root_cause"] == "Another reason."
    assert out["tags"] == ["barrier"]
    same = {key: value for key, value in FOUNDING.items() if key not in {"root_cause", "tags"}}
    assert {key: out[key] for key in same} == same


def test_object_with_little_in_it_gets_nothing_added():
    little = {"signature": "RuntimeError: shard 7 is short", "domain": "My Data", "note": [1]}
    record = from_json(little)

    assert to_json(record) == little
    assert record.id == "my-data/runtimeerror-shard-7-is-short"
    assert record.patterns == ()


def test_pattern_that_could_run_forever_is_kept_but_not_used():
    bad = copy.deepcopy(FOUNDING) | {"regex": r"(a+)+b"}
    record = from_json(bad)

    assert (record.patterns, record.anchors) == ((), ())
    assert to_json(record) == bad


@pytest.mark.parametrize("bad", [[], "text", {}, {"signature": ""}, {"signature": "x", "tags": 7}])
def test_what_is_no_record_is_refused(bad: object):
    with pytest.raises(RecordError):
        from_json(bad)


@pytest.mark.slow
@pytest.mark.parametrize("record", BUILT_IN, ids=lambda record: record.id)
def test_own_records_go_out_and_come_back(record: Record, tmp_path: Path):
    out = to_json(record)

    assert to_json(stored(from_json(out), tmp_path)) == out
    assert stored(record, tmp_path) == record
    if record.patterns:
        for line in record.must_match:
            assert re.search(out["regex"], line)


def test_rates_are_shares_of_what_was_counted():
    record = next(one for one in BUILT_IN if one.workarounds and one.dead_ends)
    step = replace(record.workarounds[0], rate=Rate(3, 4))
    dead = replace(record.dead_ends[0], rate=Rate(1, 4))
    out = to_json(replace(record, workarounds=(step,), dead_ends=(dead,)))

    assert out["workarounds"][0]["success_rate"] == 0.75
    assert out["dead_ends"][0]["fail_rate"] == 0.75
    assert out["fix_success_rate"] == 0.75
