"""Which records fit a live verdict by how they look in a watched job."""

from collections.abc import Iterable, Iterator

from msgspec.structs import asdict

from unstuck.explain.kb.schema import LiveSign, Record, Role
from unstuck.model import doing as d
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Culprit, Verdict

KINDS = frozenset(kind.__struct_config__.tag for kind in d.Activity.__args__)
"""The kinds of activity that a sign may name."""
_ROLES = (Role.ROOT, Role.EITHER, Role.CASCADE, Role.DIAGNOSTIC, Role.HARMLESS)


def fitting(verdict: Verdict, snapshot: Snapshot, records: Iterable[Record]) -> list[Record]:
    """Return the records with a sign that fits, those that demand most first.

    Example:
        fitting(verdict, snapshot, kb.records.values())[0].id  # "torchrun/sigkill"
    """
    facts = _Facts(verdict, snapshot)
    found = [
        (max(weights), record)
        for record in records
        if (weights := [_demands(sign) for sign in record.live if facts.fit(sign)])
    ]
    found.sort(key=lambda one: (-one[0], _ROLES.index(one[1].role), one[1].id))
    return [record for _, record in found]


def _demands(sign: LiveSign) -> int:
    given = (sign.doing, sign.ops, sign.code, sign.first)
    return 2 * sum(map(bool, given)) + bool(sign.backends)


class _Facts:
    """What signs are compared with."""

    def __init__(self, verdict: Verdict, snapshot: Snapshot) -> None:
        own = [one for one in verdict.culprits if one.cause is None]
        self.cause = verdict.cause
        self.doing = {kind for one in own for kind in _kinds(one.activity)}
        self.code = " ".join(_code(one) for one in own).lower()
        stuck = verdict.stuck
        self.op = stuck.op.rsplit(":", 1)[-1].lower() if stuck else ""
        self.first = stuck is not None and stuck.number <= 1
        self.backends = _backends(snapshot, stuck.group if stuck else "")

    def fit(self, sign: LiveSign) -> bool:
        return (
            self.cause in sign.causes
            and (not sign.doing or not self.doing.isdisjoint(sign.doing))
            and (not sign.ops or self.op in sign.ops)
            and (not sign.backends or any(b in self.backends for b in sign.backends))
            and (not sign.code or any(word in self.code for word in sign.code))
            and (self.first or not sign.first)
        )


def _kinds(activity: d.Activity | None) -> Iterator[str]:
    """Yield the kind of an activity, alone and with what it says more exactly."""
    while activity is not None:
        kind = str(activity.__struct_config__.tag)
        yield kind
        fields = asdict(activity)
        for name in ("how", "signal"):
            if fields.get(name):
                yield f"{kind}:{fields[name]}"
        activity = fields.get("instead") or fields.get("lacks")


def _code(culprit: Culprit) -> str:
    section = culprit.activity.section if culprit.activity else ""
    file = culprit.file.rsplit("/", 1)[-1]
    return f"{culprit.function} {culprit.code} {section} {file}"


def _backends(snapshot: Snapshot, group: str) -> str:
    known = (g for state in snapshot.ranks for g in state.groups if not group or g.name == group)
    return " ".join(dict.fromkeys(one.backend.lower() for one in known if one.backend))
