"""What is fed with random input, and what may come of it: an answer, or an error of its own kind.

A target takes a source of chance and raises if something is wrong. Finds are kept as seeds in
`corpus/TARGET`, one a line, and tried again in every run of the tests.
"""

import contextlib
import os
import tempfile
import tomllib
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from scenes import job, one_sleeps
from unstuck.act.controls import RefusedError, Steering
from unstuck.act.defaults import policy as default_policy
from unstuck.act.policy import parse_table
from unstuck.collect import bundle, wire
from unstuck.collect.hub.membership import Membership
from unstuck.collect.hub.notes import Notes
from unstuck.diagnose.diagnose import diagnose
from unstuck.errors import DumpError, UnstuckError
from unstuck.explain.advice.advice import advise
from unstuck.explain.kb import read as records
from unstuck.explain.kb import regex
from unstuck.explain.report import machine, terminal
from unstuck.model.frame import Frame
from unstuck.model.rank import Phase, RankState
from unstuck.model.snapshot import Snapshot
from unstuck.observe.dumps import files as dumps
from unstuck.observe.node.ranks import RankWatcher
from unstuck.observe.probe.page import PageWriter
from unstuck.pipelines import logs

GOLDEN = Path(__file__).parents[1] / "golden"
NOISE = frozenset("\x1b\x07\x9b\u202e\r")
TEXTS = ("", "x", "\x1b]0;t\x07", "\x9b2J\u202e\r\n", "rank 3", "é" * 300, "{}", "²", "-1", "0")
NUMBERS = (0.0, -1.0, 0.5, 3.0, 61.0, 1e9, -1e9, 1e-300)
WHOLE = (0, 1, 2, 3, 7, -1, 1000, 1 << 53)


# --- chance


def mutated(chance: Random, data: bytes, most: int = 8) -> bytes:
    """Change, cut, double or insert a few bytes."""
    body = bytearray(data)
    for _ in range(chance.randint(1, most)):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(5):
            case 0 if at < len(body):
                body[at] = chance.randrange(256)
            case 1:
                body[at:at] = chance.choice((b"[", b"{", b'"', b"\x00", b"99999999999", b"\xff"))
            case 2:
                del body[at : at + chance.choice((1, 7, 200))]
            case 3:
                body[at:at] = body[at : at + chance.choice((3, 90))]
            case _:
                body[at:at] = chance.randbytes(chance.choice((1, 4)))
    return bytes(body)


def anything(chance: Random, depth: int = 0) -> Any:  # noqa: PLR0911 - one for each kind
    """Return some JSON value."""
    match chance.randrange(8 if depth < 3 else 5):
        case 0:
            return chance.choice(TEXTS)
        case 1:
            return chance.choice(WHOLE)
        case 2:
            return chance.choice(NUMBERS)
        case 3:
            return None
        case 4:
            return chance.random() < 0.5
        case 5:
            return [anything(chance, depth + 1) for _ in range(chance.randrange(3))]
        case _:
            names = ("set", "get", "value", "if", "pause", "patience", "section", "seconds", "x")
            return {chance.choice(names): anything(chance, depth + 1) for _ in range(3)}


@cache
def fields_of(kind: Any) -> dict[str, Any]:
    """Return the types of a struct's fields."""
    return typing.get_type_hints(kind, include_extras=True)


def value(chance: Random, kind: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """Return some value of a type of the model, within its bounds."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return bounded(chance, *arguments)
    if origin in (types.UnionType, typing.Union):
        return value(chance, chance.choice(arguments))
    if origin is tuple:
        return tuple(value(chance, arguments[0]) for _ in range(chance.randrange(4)))
    if origin is dict:
        return {"a": value(chance, arguments[1])}
    if kind is type(None):
        return None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return chance.choice(list(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{name: value(chance, one) for name, one in fields_of(kind).items()})
    return {str: chance.choice(TEXTS), bool: chance.random() < 0.5, int: chance.choice(WHOLE)}.get(
        kind, chance.choice(NUMBERS)
    )


def bounded(chance: Random, kind: Any, meta: msgspec.Meta) -> Any:
    """Return a number within these bounds, often at their edge."""
    least = meta.ge if meta.ge is not None else -1
    most = meta.le if meta.le is not None else (meta.lt or 2) - 1
    choices = [one for one in (WHOLE if kind is int else NUMBERS) if least <= one <= most]
    return chance.choice([*choices, *choices, kind(least), kind(most)])


# --- targets


def state(chance: Random) -> Snapshot:
    """Return a job of which a few fields are anything that their types allow."""
    whole = chance.choice((one_sleeps, lambda: job(chance.randrange(1, 6))))().snapshot()
    ranks: list[Any] = list(whole.ranks)
    nodes: list[Any] = list(whole.nodes)
    for _ in range(chance.randrange(1, 6)):
        many = chance.choice((ranks, nodes))
        at = chance.randrange(len(many))
        kinds = fields_of(type(many[at]))
        name = chance.choice([n for n in kinds if n not in ("rank", "node")])
        many[at] = replace(many[at], **{name: value(chance, kinds[name])})
    return replace(whole, ranks=tuple(ranks), nodes=tuple(nodes))


def diagnosis(chance: Random) -> None:
    """Frames -> membership -> diagnosis -> advice -> report."""
    whole = state(chance)
    members = Membership("h")
    for number, node in enumerate(whole.nodes):
        mine = tuple(one for one in whole.ranks if one.host == node.host)
        shared = {n: getattr(node, n) for n in fields_of(Frame) if hasattr(node, n)}
        members.hear(Frame(number=number, sent_at=0.0, ranks=mine, **shared), 100.0)
    later = members.snapshot(100.0 + chance.choice((0.1, 3.0, 40.0)), whole.taken_at)
    for snapshot in (whole, later):
        found = diagnose(snapshot)
        assert not found.broken, found.broken[0].trace
        if found.verdict is not None:
            verdict = advise(found.verdict)
            shown = terminal.render(verdict, width=80, colour=False)
            assert not NOISE & set(shown), shown
            assert not NOISE & set(machine.line(verdict))


def message(chance: Random) -> None:
    """One message on the wire: understood, or the connection is refused."""
    known = (
        wire.Challenge(b"n" * 16),
        wire.Say(chance.choice(TEXTS)),
        wire.Question(1, "{}"),
        wire.Lack(((1, 2),)),
        wire.Heard(7),
        wire.Peers((wire.Peer("h/1", "h", "127.0.0.1", 7),)),
    )
    data = mutated(chance, wire.body(chance.choice(known)))
    for decode in (wire.decode, wire.decode_report):
        with contextlib.suppress(ConnectionError):
            decode(data)
    ranks = mutated(chance, msgspec.msgpack.encode(state(chance).ranks))
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        msgspec.msgpack.decode(ranks, type=tuple[RankState, ...])


def page(chance: Random) -> None:
    """A rank's page: its state, or unobserved with the reason."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rank-0.{os.getpid()}.page"
        writer = PageWriter(str(path))
        about = {"phase": chance.choice([*Phase, "?"]), "groups": {"0": 3}, "status": {"0": [3, 2]}}
        writer.report(about | {"x": anything(chance), "failure": anything(chance)})
        data = path.read_bytes()
        path.write_bytes(mutated(chance, data[:400]).ljust(400, b"\0")[:400] + data[400:])
        watcher = RankWatcher(path, "h", 100.0)
        try:
            watcher.look(101.0)
            watcher.phase(101.0)
            watcher.missed_deadlines(101.0)
        finally:
            watcher.close(remove=False)


@cache
def samples(pattern: str, largest: int = 200_000) -> list[bytes]:
    """Return golden files to begin with."""
    found = [one for one in sorted(GOLDEN.glob(pattern)) if one.is_file()]
    return [one.read_bytes() for one in found if one.stat().st_size < largest]


def dump(chance: Random) -> None:
    """A flight-recorder dump."""
    data = mutated(chance, chance.choice(samples("dumps/**/*")))
    with contextlib.suppress(DumpError):
        dumps._content("trace_0", data)


def stored(chance: Random) -> None:
    """An incident bundle."""
    with tempfile.TemporaryDirectory() as folder:
        home = bundle.write(Path(folder), one_sleeps().snapshot(), None, about={})
        path = home / chance.choice(bundle.FILES)
        path.write_bytes(mutated(chance, path.read_bytes()))
        with contextlib.suppress(UnstuckError):
            diagnose(bundle.read(home).snapshot)


def log(chance: Random) -> None:
    """A log file."""
    text = mutated(chance, chance.choice(samples("logs/**/*.log", 20_000)), 20)
    logs.explain_text(text.decode(errors="replace"))


def record(chance: Random) -> None:
    """A record of the knowledge base."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.toml"
        source = chance.choice(sorted(records.BUILT_IN.rglob("*.toml")))
        path.write_bytes(mutated(chance, source.read_bytes()))
        with contextlib.suppress(UnstuckError):
            for pattern in records.read(path).patterns:
                regex.problem(pattern)


POLICY = b"""[policy]
straggler = "report"
process-crash = ["dump", "restart"]
[policy.limits]
lease = 30
"""


def policy(chance: Random) -> None:
    """The [policy] table of unstuck.toml."""
    with contextlib.suppress(UnstuckError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        table = tomllib.loads(mutated(chance, POLICY).decode())
        parse_table(default_policy(recover=True), table.get("policy", {}), "unstuck.toml")


def ctl(chance: Random) -> None:
    """What people and ranks ask of the hub."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(RefusedError):
            Steering(Path(folder) / "controls.json").obey(anything(chance), 100.0)
        Notes().handle(anything(chance))


TARGETS: dict[str, Callable[[Random], None]] = {
    one.__name__: one for one in (diagnosis, message, page, dump, stored, log, record, policy, ctl)
}
