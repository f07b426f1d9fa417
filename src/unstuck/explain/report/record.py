"""A knowledge-base record as people read it: one outline for the terminal and for the web."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from unstuck.explain.kb import words
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import (
    DeadEnd,
    LiveSign,
    PossibleCause,
    Rate,
    Record,
    Text,
    Workaround,
    say,
)
from unstuck.model.logs import LogFact

_THREAD = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")
_ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull|discussions)/(\d+)")


class Part(Struct, frozen=True):
    """A paragraph, a piece of code, or an entry of a list."""

    text: str = ""
    head: str = ""
    code: str = ""
    notes: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    """Ids of other records to link to."""
    links: tuple[str, ...] = ()

    @property
    def is_entry(self) -> bool:
        """Tell whether it is an entry of a list."""
        return bool(self.head or self.records or self.links)


class Section(Struct, frozen=True):
    """A heading and what is below it."""

    title: str
    parts: tuple[Part, ...]


TITLES = {
    "says": Text("What it says", "原文"),
    "means": Text("What it means", "含义"),
    "live": Text("How it looks in a watched job", "在被监视的任务里是什么样"),
    "causes": Text("How to tell the causes apart", "如何区分原因"),
    "refinements": Text("When more is known", "进一步细分"),
    "dont": Text("What not to try", "不要尝试"),
    "helps": Text("What helps", "有效的做法"),
    "leads_to": Text("Leads to", "会导致"),
    "preceded_by": Text("Comes after", "通常之前出现"),
    "confused": Text("Easily confused with", "容易混淆"),
    "versions": Text("Versions", "版本"),
    "systems": Text("On other systems", "其他系统"),
    "also": Text("Also known as", "其他说法"),
    "links": Text("Links", "链接"),
}

_REPORTS = Text("{} public reports", "{} 份公开报告")
_ONE_REPORT = Text("1 public report", "1 份公开报告")
_IN_LOGS = Text("in the logs: {}", "日志特征：{}")
_WHEN = Text("when: {}", "适用条件：{}")
_MEASURED = Text(
    "helped in {} of {} measured runs (95 %: {}), torch {}, {}",
    "在 {} / {} 次实测中有效（95%：{}），torch {}，{}",
)
_REPORTED = Text("helped in {} of {} reports", "在 {} / {} 份报告中有效")
_REFINES = Text("{}, narrowed down by: {}", "{} 的细分，条件：{}")
_EXAMPLE = Text("For example:", "例如：")
_MORE = Text("and {} more causes", "等，另有 {} 种原因")
_MOST_CAUSES = 4
_JOIN = Text("; ", "；")


def outline(record: Record, kb: KnowledgeBase, lang: str = "en") -> list[Section]:
    """Return the sections of a record that have something to say, in reading order.

    Example:
        outline(kb.get("gloo/recv-timeout"), kb, "zh")
    """
    graph = record.graph
    parts: dict[str, Iterable[Part]] = {
        "says": _says(record, lang),
        "means": [Part(say(record.root_cause, lang))],
        "live": [_live(sign, lang) for sign in record.live],
        "causes": [_cause(cause, lang) for cause in record.causes],
        "refinements": [_other(r.id, kb, lang, r.facts) for r in kb.refinements(record.id)],
        "dont": [_claim(item, item.why, lang) for item in record.dead_ends],
        "helps": [_claim(item, item.how, lang) for item in record.workarounds],
        "leads_to": [_other(target, kb, lang) for target in graph.leads_to],
        "preceded_by": [_other(target, kb, lang) for target in graph.preceded_by],
        "confused": [Part(say(c.tell, lang), records=(c.record,)) for c in graph.confused_with],
        "versions": [
            Part(say(v.note, lang) if v.note else "", head=v.range) for v in record.versions
        ],
        "systems": [Part(say(t, lang), head=name) for name, t in record.os_notes.items()],
        "also": [Part(alias) for alias in record.aliases],
        "links": [Part(links=(link,)) for link in dict.fromkeys((*record.docs, *record.sources))],
    }
    made = ((key, tuple(found)) for key, found in parts.items())
    return [Section(say(TITLES[key], lang), found) for key, found in made if found]


def about(record: Record, lang: str = "en") -> list[str]:
    """Return in a few words what kind of record it is and how well it is known."""
    sure = words.CONFIDENCES.get(record.confidence)
    causes = Text("causes: {}", "原因判断：{}")
    return [
        say(words.ROLES[record.role], lang),
        record.category,
        say(words.TIERS[record.tier], lang),
        *([say(causes, lang).format(say(sure, lang))] if sure and record.causes else []),
        *([record.error_code] if record.error_code else []),
    ]


def address(source: str) -> str:
    """Return the address of a source, or nothing where it has none.

    Example:
        address("NVIDIA/nccl#849")   # "https://github.com/NVIDIA/nccl/issues/849"
    """
    if source.startswith(("https://", "http://")):
        return source
    thread = _THREAD.fullmatch(source)
    return f"https://github.com/{thread[1]}/issues/{thread[2]}" if thread else ""


def named(source: str) -> str:
    """Return how a source is shown: a thread as `owner/name#number`."""
    thread = _ADDRESS.fullmatch(source)
    return f"{thread[1]}#{thread[2]}" if thread else source.removeprefix("https://")


def _says(record: Record, lang: str) -> Iterator[Part]:
    if record.refines:
        facts = _facts(record.facts, lang)
        yield Part(say(_REFINES, lang).format(f"`{record.refines}`", facts))
        yield Part(record.signature)
        return
    yield Part(code=record.signature)
    if record.must_match:
        yield Part(say(_EXAMPLE, lang))
        yield Part(code=record.must_match[0])


def _cause(cause: PossibleCause, lang: str) -> Part:
    known = say(words.CAUSES[cause.cause], lang)
    notes: list[str] = []
    if cause.facts:
        notes.append(say(_IN_LOGS, lang).format(_facts(cause.facts, lang)))
    if cause.reported:
        count = _ONE_REPORT if cause.reported == 1 else _REPORTS
        notes.append(say(count, lang).format(cause.reported))
    return Part(
        say(cause.evidence, lang),
        head=f"{cause.cause} ({known})",
        notes=tuple(notes),
        links=cause.sources,
    )


def _live(sign: LiveSign, lang: str) -> Part:
    shown = sign.causes if len(sign.causes) <= _MOST_CAUSES else sign.causes[: _MOST_CAUSES - 1]
    known = ", ".join(f"{cause} ({say(words.CAUSES[cause], lang)})" for cause in shown)
    more = len(sign.causes) - len(shown)
    head = f"{known} {say(_MORE, lang).format(more)}" if more else known
    return Part(say(sign.looks, lang), head=head)


def _claim(item: DeadEnd | Workaround, detail: Text, lang: str) -> Part:
    notes = [say(_WHEN, lang).format(say(item.condition, lang))] if item.condition else []
    if item.rate:
        notes.append(_rate(item.rate, lang))
    return Part(
        say(detail, lang), head=say(item.action, lang), notes=tuple(notes), links=item.sources
    )


def _rate(rate: Rate, lang: str) -> str:
    if rate.kind != "measured":
        return say(_REPORTED, lang).format(rate.successes, rate.runs)
    low, high = interval(rate.successes, rate.runs)
    span = f"{low:.0%}-{high:.0%}"
    return say(_MEASURED, lang).format(rate.successes, rate.runs, span, rate.torch, rate.scenario)


def interval(successes: int, runs: int) -> tuple[float, float]:
    """Return the 95 % interval (Wilson) of a rate, which also holds for few runs.

    Example:
        interval(3, 3)   # (0.44, 1.0)
    """
    z = 1.96
    share = successes / runs
    centre = share + z * z / (2 * runs)
    spread = z * ((share * (1 - share) + z * z / (4 * runs)) / runs) ** 0.5
    scale = 1 + z * z / runs
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _other(target: str, kb: KnowledgeBase, lang: str, facts: tuple[LogFact, ...] = ()) -> Part:
    known = kb.records.get(target)
    return Part(
        say(known.title, lang) if known else "",
        notes=tuple(say(words.FACTS[fact], lang) for fact in facts),
        records=(target,),
    )


def _facts(facts: Iterable[LogFact], lang: str) -> str:
    return say(_JOIN, lang).join(say(words.FACTS[fact], lang) for fact in facts)
