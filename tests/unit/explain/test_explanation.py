"""A verdict from logs gets its record's advice; what it does not rest on stands beside it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from unstuck.explain.explanation import MOST_DO, MOST_LINKS, Explanation, explanation
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record, Role, Text, Workaround
from unstuck.model.logs import LogLine, LogMatch, LogReading
from unstuck.model.verdict import Cause, Confidence, Culprit, Evidence, Verdict
from unstuck.observe.logs.find.templates import Cluster
from unstuck.observe.logs.reader import Reading

KB = KnowledgeBase(gather([Path(__file__).parent / "kb" / "records"]).records)
BARRIER = KB.records["gloo/monitored-barrier"]
VERDICT = Verdict(
    Cause.PROCESS_CRASH,
    Confidence.LIKELY,
    (Culprit(rank=3, host="a", doing="raised ValueError"),),
    (),
    "",
    evidence=(Evidence("log", "ValueError", file="a.log", line=7),),
    records=(BARRIER.id,),
)


def match(record: Record, line: int = 1) -> LogMatch:
    return LogMatch(record.id, str(record.role), LogLine("a.log", line, "text"), {})


def cluster(line: int, exception: str = "", time: float | None = None) -> Cluster:
    return Cluster(f"t{line}", LogLine("a.log", line, "text", time=time), exception)


def explained(
    verdict: Verdict | None,
    *matches: LogMatch,
    unknown: tuple[Cluster, ...] = (),
    record: Record = BARRIER,
    lang: str = "en",
) -> Explanation:
    kb = KnowledgeBase([*KB.records.values(), record])
    return explanation(Reading(LogReading(matches), list(unknown)), verdict, kb, lang)


@pytest.mark.parametrize(("lang", "colon"), [("en", ": "), ("zh", "\uff1a")])
def test_advice_is_that_of_the_record(lang: str, colon: str):
    verdict = explained(VERDICT, lang=lang).verdict
    helps, dead = BARRIER.workarounds[0], BARRIER.dead_ends[0]

    assert verdict is not None
    assert helps.condition is not None
    condition = getattr(helps.condition, lang)
    action, how = verdict.do[0].split(colon, 1)
    assert action.startswith(getattr(helps.action, lang))
    assert condition[1:].rstrip(".\u3002\u65f6") in action
    assert how == getattr(helps.how, lang)
    assert verdict.dont[0] == colon.join(getattr(t, lang) for t in (dead.action, dead.why))


def test_without_a_record_the_cause_decides_what_to_do():
    verdict, by_record = (
        explained(replace(VERDICT, records=r)).verdict for r in ((), (BARRIER.id,))
    )

    assert verdict is not None
    assert by_record is not None
    assert verdict.do
    assert verdict.do != by_record.do


def test_where_the_cause_is_unknown_the_culprit_is_the_first_place_to_look():
    verdict = explained(replace(VERDICT, cause=Cause.UNKNOWN)).verdict

    assert verdict is not None
    assert verdict.do[0].startswith("look at rank 3 first")


def test_no_more_than_a_few_steps_and_links_are_given():
    step = Workaround(Text("Try", "\u8bd5"), Text("this", "\u8fd9\u4e2a"))
    links = tuple(f"https://example.org/{n}" for n in range(9))
    record = replace(BARRIER, workarounds=(step,) * 9, docs=links, sources=("torch 2.13", *links))
    found = explained(VERDICT, record=record)

    assert found.verdict is not None
    assert len(found.verdict.do) == MOST_DO
    assert found.links == links[:MOST_LINKS]


def test_detail_that_only_repeats_the_action_is_left_out():
    step = Workaround(Text("Try again.", "\u8bd5"), Text("Try again", "\u8bd5"))
    verdict = explained(VERDICT, record=replace(BARRIER, workarounds=(step,))).verdict

    assert verdict is not None
    assert verdict.do == ("Try again",)


def test_unknown_failures_are_what_the_verdict_does_not_rest_on_earliest_first():
    wrapper = cluster(9, "torch.distributed.DistBackendError")
    clusters = (cluster(8, time=5.0), cluster(7), cluster(2, time=1.0), wrapper)

    assert [c.first.line for c in explained(VERDICT, unknown=clusters).unknown] == [2, 8]
    assert [c.first.line for c in explained(None, unknown=clusters).unknown] == [7, 9, 2, 8]


def test_failures_that_give_no_verdict_are_the_programs_own():
    harmless = replace(BARRIER, id="a/b", role=Role.HARMLESS)
    matches = (match(BARRIER), match(harmless, 2))

    assert explained(None, *matches, record=harmless).own == matches[:1]
    assert explained(VERDICT, *matches, record=harmless).own == ()


def test_setting_without_effect_is_noted_once_and_not_where_its_line_failed():
    setting = replace(BARRIER, id="a/b", role=Role.DIAGNOSTIC, category="setting")
    matches = (match(setting, 1), match(BARRIER, 1), match(setting, 4), match(setting, 6))
    (note,) = explained(None, *matches, record=setting).settings

    assert (note.record, note.line) == ("a/b", 4)
    assert note.advice == setting.workarounds[0].how.en
