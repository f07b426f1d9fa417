"""The ranks of a TP x PP x DP x EP job, its process groups, and the calls of each step."""

from dataclasses import dataclass
from functools import cached_property

from unstuck.errors import UsageError


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of a step: a collective of one stage (-1: of all), or a hop between two."""

    kind: str
    """`tp`, `ep`, `dp`, `world`, or `hop`: a message from one stage to a neighbour."""
    stage: int = -1
    to: int = -1

    def involves(self, stage: int) -> bool:
        """Tell whether the ranks of a stage take part."""
        return self.stage in (-1, stage) or self.to == stage


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its name and its members."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Rank = (data index * stages + stage) * tp + tensor index; expert groups lie within data.

    Example:
        >>> Layout(tp=2, pp=2, dp=4, ep=2).size
        16
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        if min(self.tp, self.pp, self.dp, self.ep) < 1 or self.dp % self.ep:
            raise UsageError(
                f"{self} is impossible: sizes must be at least 1, and ep must divide dp"
            )

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.tp * self.pp * self.dp

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return the tensor index, stage and data index of a rank."""
        return rank % self.tp, rank // self.tp % self.pp, rank // (self.tp * self.pp)

    def rank(self, t: int, p: int, d: int) -> int:
        """Return the rank with this tensor index, stage and data index."""
        return (d * self.pp + p) * self.tp + t

    @cached_property
    def step(self) -> tuple[Call, ...]:
        """The calls of one step in order: forward, backward, gradients, and one of all ranks."""
        inside = [kind for kind in ("tp", "ep") if getattr(self, kind) > 1]
        calls: list[Call] = []
        for p in range(self.pp):
            calls += [Call(kind, p) for kind in inside]
            calls += [Call("hop", p, p + 1)] if p + 1 < self.pp else []
        for p in reversed(range(self.pp)):
            calls += [Call(kind, p) for kind in inside]
            calls += [Call("hop", p, p - 1)] if p else []
        return (*calls, *([Call("dp")] if self.dp > 1 else []), Call("world"))

    @cached_property
    def world(self) -> Group:
        """The group of all ranks."""
        return Group("0", tuple(range(self.size)))

    @cached_property
    def _groups(self) -> dict[tuple[str, int, int], Group]:
        return {}

    def group(self, kind: str, rank: int) -> Group:
        """Return the group of one kind that a rank belongs to; for `hop`, its pipeline."""
        if kind == "world":
            return self.world
        t, p, d = self.place(rank)
        first, second = {
            "tp": (p, d),
            "ep": (t * self.pp + p, d // self.ep),
            "dp": (t, p),
            "hop": (t, d),
        }[kind]
        found = self._groups.get((kind, first, second))
        if found is None:
            ranks = self._members(kind, t, p, d)
            found = Group(f"{'pp' if kind == 'hop' else kind}{first}.{second}", ranks)
            self._groups[kind, first, second] = found
        return found

    def _members(self, kind: str, t: int, p: int, d: int) -> tuple[int, ...]:
        if kind == "tp":
            return tuple(self.rank(i, p, d) for i in range(self.tp))
        if kind == "hop":
            return tuple(self.rank(t, i, d) for i in range(self.pp))
        if kind == "ep":
            first = d - d % self.ep
            return tuple(self.rank(t, p, i) for i in range(first, first + self.ep))
        return tuple(self.rank(t, p, i) for i in range(self.dp))

    def participants(self, call: Call, rank: int) -> tuple[int, ...]:
        """List all ranks that must arrive for a call of this rank to complete."""
        if call.kind != "hop":
            return self.group(call.kind, rank).ranks
        t, _, d = self.place(rank)
        return (self.rank(t, call.stage, d), self.rank(t, call.to, d))
