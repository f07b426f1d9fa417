"""What to do and what not to try, for a verdict. Pure: the same verdict, the same advice.

`situation.py` says which table of `texts.toml` fits; this module fills in the ranks, hosts and
pids, and keeps the answer short: at most three things to do and two not to, the first thing first.
"""

import re
from functools import lru_cache
from importlib.resources import files

import msgspec

from unstuck.diagnose.text import ranks_text
from unstuck.diagnose.wording import MOST_PROCESSES
from unstuck.explain.advice.situation import first_culprit, situation
from unstuck.model import doing as d
from unstuck.model.verdict import Culprit, Verdict

MOST_DO = 3
MOST_DONT = 2
MOST_HOSTS = 8

_AFTER_MARK = re.compile(r"([，：；（]) +")
"""Names in a Chinese text have a space on either side, but not after a full-width mark."""
_Line = tuple[str, str]
"""English and Chinese."""


class Advice(msgspec.Struct, frozen=True):
    """One table: its lines, each written out or the name of a shared one."""

    do: tuple[_Line | str, ...] = ()
    dont: tuple[_Line | str, ...] = ()
    like: str = ""
    """The table that has what is not given here."""
    first: _Line | None = None
    """The first thing to do, where the rest is as in that table."""


@lru_cache(1)
def texts() -> tuple[dict[str, Advice], dict[str, _Line]]:
    """Return all situations, complete, and the lines that they share."""
    found = msgspec.toml.decode((files("unstuck.explain.advice") / "texts.toml").read_bytes())
    shared = msgspec.convert(found.pop("shared"), dict[str, _Line])
    tables = msgspec.convert(found, dict[str, Advice])
    return {name: _complete(one, tables) for name, one in tables.items()}, shared


def _complete(one: Advice, tables: dict[str, Advice]) -> Advice:
    if not one.like:
        return one
    base = tables[one.like]
    do = one.do or base.do
    return Advice((one.first, *do[1:]) if one.first else do, one.dont or base.dont)


def advise(verdict: Verdict, lang: str = "en") -> Verdict:
    """Return the verdict with `do` and `dont` filled in for its cause and its culprits.

    Example:
        advise(verdict).do[0]  # "on node7: `kill -CONT 4711` (resumes where it stopped)"
    """
    tables, shared = texts()
    advice = tables[situation(verdict)]
    words = _words(verdict, lang)

    def written(line: _Line | str) -> str:
        if line == "longer" and words["missing"]:
            line = "longer-missing"
        pair = shared[line] if isinstance(line, str) else line
        return _AFTER_MARK.sub(r"\1", pair[lang == "zh"].format(**words))

    do = tuple(written(line) for line in advice.do[:MOST_DO])
    dont = tuple(written(line) for line in advice.dont[:MOST_DONT])
    return msgspec.structs.replace(verdict, do=do, dont=dont)


def _words(verdict: Verdict, lang: str) -> dict[str, str]:
    """Return what the braces in a text may name."""
    first, stuck, chinese = first_culprit(verdict), verdict.stuck, lang == "zh"
    blamed = tuple(one.rank for one in verdict.culprits)
    hosts = list(dict.fromkeys(one.host for one in verdict.culprits if one.host))
    more = ",..." if len(hosts) > MOST_HOSTS else ""
    unknown_host = "<主机>" if chinese else "<host>"
    unknown_pid = "<pid>" if chinese or first.rank < 0 else f"<pid of rank {first.rank}>"
    place = f"{first.file.rsplit('/', 1)[-1]}:{first.line}" if first.file else ""
    where = f"（{place}）" if chinese else f" at {place}"
    known_host = f" {first.host} " if chinese else first.host
    cut = verdict.cut[0] if verdict.cut else None
    return {
        "who": _ranks(blamed, lang) or ("出问题的 rank " if chinese else "the culprit"),
        "missing": _ranks(stuck.missing, lang) if stuck else "",
        "use": "use" if len(blamed) > 1 else "uses",
        "host": known_host if first.host else ("它所在的主机" if chinese else "its host"),
        "address": first.host or unknown_host,
        "addresses": ",".join(hosts[:MOST_HOSTS]) + more if hosts else unknown_host,
        "pid": str(first.pid) if first.pid else unknown_pid,
        "place": where if place else "",
        "op": stuck.op.rsplit(":", 1)[-1] if stuck else ("集合通信" if chinese else "collective"),
        "source": cut.source if cut else "",
        "target": cut.target if cut else "",
        "cut_host": cut.source if cut and not verdict.culprits else first.host or unknown_host,
        "seconds": f"{max([5.0, *(one.seconds for one in verdict.cut)]):.0f}",
        **_stopped(verdict, first, lang, unknown_pid),
        **_processes(first.activity),
    }


def _ranks(ranks: tuple[int, ...], lang: str) -> str:
    if not ranks or lang != "zh":
        return ranks_text(ranks) if ranks else ""
    if len(ranks) > 4:
        return f" {len(ranks)} 个 rank（第一个：{min(ranks)}）"
    return f" rank {'、'.join(str(rank) for rank in sorted(ranks))} "


def _stopped(verdict: Verdict, first: Culprit, lang: str, unknown: str) -> dict[str, str]:
    """Return the pids that one command can resume, and that other hosts have more of them."""
    here = [str(one.pid) for one in verdict.culprits if one.pid and one.host == first.host]
    others = any(one.host != first.host for one in verdict.culprits)
    again = "；其他主机同样处理" if lang == "zh" else "; do the same on the other hosts"
    return {"pids": " ".join(here) or unknown, "elsewhere": again if others else ""}


def _processes(activity: d.Activity | None) -> dict[str, str]:
    """Return the processes beside the job that an activity names."""
    match activity:
        case d.WaitsForProcess(processes=found):
            pass
        case d.WaitsForFileLock(holders=found) | d.WaitsForReader(readers=found):
            pass
        case d.Starved(taker=taker) | d.Slow(lacks=d.Starved(taker=taker)) if taker:
            return {"taker": str(taker.pid), "taker_name": taker.name}
        case _:
            return {}
    pids = [str(one.pid) for one in found[:MOST_PROCESSES]]
    return {"processes": " ".join(pids), "process": pids[0]} if pids else {}
