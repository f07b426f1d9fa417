"""What a knowledge-base record is. One TOML file per record; unknown keys are errors.

A signature alone never gives one cause: `causes` lists those it can have, each with the
evidence that separates it from the others. A record that `refines` another one has no
pattern of its own: it is the answer when its parent's pattern matched and all its `facts`
hold. Every text is in English and Chinese, every rate has its counts, every claim its source.
"""

from enum import StrEnum

from msgspec import Struct, field

from unstuck.model.logs import LogFact
from unstuck.model.verdict import Cause


class Role(StrEnum):
    """What a matching line says about the failure."""

    ROOT = "root"
    """It is the failure itself."""
    CASCADE = "cascade"
    """A consequence: the failure is elsewhere."""
    EITHER = "either"
    """Root or cascade, depending on what else is in the logs."""
    DIAGNOSTIC = "diagnostic"
    """It helps to find the failure but is not one itself."""
    HARMLESS = "harmless"
    """It looks like a failure but is not one."""


FAILURES = {Role.ROOT, Role.EITHER, Role.CASCADE}
"""What a line says in which something failed, here or elsewhere."""


class Tier(StrEnum):
    """How well the record is known, best first."""

    MEASURED = "measured"
    REPRODUCED = "reproduced"
    """The message was produced here and compared character by character."""
    REPORTED = "reported"
    """From public reports, linked."""
    UNVERIFIED = "unverified"


class Text(Struct, frozen=True, forbid_unknown_fields=True):
    """One text in both languages."""

    en: str
    zh: str


def say(text: Text, lang: str) -> str:
    """Return a text in one language; English where an imported record has no Chinese.

    Example:
        say(record.title, "zh")
    """
    return (text.zh or text.en) if lang == "zh" else text.en


class Rate(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How often something helped or failed: measured runs, or a count of public reports."""

    successes: int
    runs: int
    kind: str = "reported"
    """`measured` or `reported`."""
    scenario: str = ""
    torch: str = ""


class PossibleCause(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One cause the signature can have, and the evidence that separates it."""

    cause: Cause
    evidence: Text
    facts: tuple[LogFact, ...] = ()
    """When all of these hold in the logs, this cause is the likely one."""
    reported: int = 0
    """In how many public reports this was the established cause."""
    sources: tuple[str, ...] = ()


class DeadEnd(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What people try although it does not help, and why it does not."""

    action: Text
    why: Text
    condition: Text | None = None
    rate: Rate | None = None
    sources: tuple[str, ...] = ()


class Workaround(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What helps: the action, and how exactly (a command, a line of code)."""

    action: Text
    how: Text
    condition: Text | None = None
    rate: Rate | None = None
    sources: tuple[str, ...] = ()


class LiveSign(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the failure looks in a watched job, before or without its message.

    It fits a live verdict of one of the causes if all that is given here holds.
    """

    causes: tuple[Cause, ...]
    looks: Text
    doing: tuple[str, ...] = ()
    """Kinds of `culprit.activity`, one of which it is: `asleep`, `killed:SIGKILL`."""
    ops: tuple[str, ...] = ()
    """Operations, in one of which the others wait."""
    backends: tuple[str, ...] = ()
    """Backends, one of which the group has in which the others wait."""
    code: tuple[str, ...] = ()
    """Words, one of which is in the culprit's function, section or line of code."""
    first: bool = False
    """The operation is the first of its group."""


class Confusion(Struct, frozen=True, forbid_unknown_fields=True):
    """Another record that looks similar, and how to tell them apart."""

    record: str
    tell: Text


class Graph(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What leads to what; ids of other records."""

    leads_to: tuple[str, ...] = ()
    preceded_by: tuple[str, ...] = ()
    confused_with: tuple[Confusion, ...] = ()


class Version(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the message or the behaviour exists or changed."""

    range: str
    """For example `torch>=2.4` or `nccl<2.27.3`."""
    note: Text | None = None


class Record(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One failure signature and what is known about it."""

    id: str
    """`domain/slug`, never changed; also the path of the file below records/."""
    title: Text
    signature: str
    """The message as printed, with … for what varies; for a derived record what it looks like."""
    role: Role
    domain: str
    """pytorch, nccl, gloo, torchrun, ddp, dataloader, cuda, network, hccl, ray, rpc …"""
    category: str
    """timeout, mismatch, rendezvous, network, crash, memory, hardware, teardown, setting …"""
    root_cause: Text
    causes: tuple[PossibleCause, ...]
    tier: Tier
    anchors: tuple[str, ...] = ()
    """Literals; every line that a pattern matches contains at least one. For fast scanning."""
    patterns: tuple[str, ...] = ()
    """Python regular expressions with named groups: rank, seq, op, numel_in, timeout_ms, host …"""
    refines: str = ""
    facts: tuple[LogFact, ...] = ()
    must_match: tuple[str, ...] = ()
    """Real lines."""
    must_not_match: tuple[str, ...] = ()
    dead_ends: tuple[DeadEnd, ...] = ()
    workarounds: tuple[Workaround, ...] = ()
    graph: Graph = field(default_factory=Graph)
    live: tuple[LiveSign, ...] = ()
    """How it looks in a watched job."""
    versions: tuple[Version, ...] = ()
    os_notes: dict[str, Text] = field(default_factory=dict[str, Text])
    aliases: tuple[str, ...] = ()
    """Other wordings under which people look for it, printed or not."""
    error_code: str = ""
    docs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    resolvable: bool = True
    confidence: str = "likely"
    """certain, likely or possible: that the causes listed are the right ones."""
    first_seen: str = ""
    last_confirmed: str = ""
    last_updated: str = ""
    imported: str = ""
    """The JSON record of another collection that it was made from, as it came."""

    def links(self) -> list[tuple[str, str]]:
        """Return the ids of the records that this one names, each after the field that names it."""
        graph = self.graph
        return [
            *([("refines", self.refines)] if self.refines else []),
            *((f"graph.leads_to[{n}]", target) for n, target in enumerate(graph.leads_to)),
            *((f"graph.preceded_by[{n}]", target) for n, target in enumerate(graph.preceded_by)),
            *((f"graph.confused_with[{n}]", c.record) for n, c in enumerate(graph.confused_with)),
        ]
