"""Who is in which process group, according to all dumps together.

NCCL writes the members of every group under its name. gloo writes one list under the empty
name, of whichever group was made last, and often an empty one: there, the default group is
every rank of the job, and the members of another group are the ranks that have used it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from unstuck.observe.dumps.files import Content, Dump, Entry

_NUMBER = re.compile(r"\d{1,7}")
_MOST_LETTERS = 8 << 20
"""Of a list of members: enough for a million."""
DEFAULT = "default_pg"

GroupId = tuple[str, str]
"""Backend and name: the recorders of gloo and NCCL count the same group separately."""


class Roster(Struct, frozen=True):
    """The members of all groups, and the size of the job as far as the dumps tell."""

    listed: dict[GroupId, list[tuple[tuple[int, ...], frozenset[int]]]]
    """Per group the member lists that pg_config gives; several after a split."""
    users: dict[GroupId, tuple[int, ...]]
    """Per group the ranks whose dumps mention it."""
    world: tuple[int, ...]
    sure: bool
    """Whether some dump lists the whole job; else there may be ranks above the highest seen."""
    shared_names: frozenset[str]
    """Names that several backends use."""

    def members(self, group: GroupId, description: str, rank: int) -> tuple[int, ...]:
        """List the members of a group of this rank."""
        for ranks, inside in self.listed.get(group, ()):
            if rank in inside:
                return ranks
        return self.world if _is_default(group, description) else self.users.get(group, ())

    def is_guessed(self, group: GroupId, description: str) -> bool:
        """Tell whether the members are only those that have used the group."""
        return group not in self.listed and not _is_default(group, description)

    def name(self, group: GroupId) -> str:
        """Name a group so that gloo's and NCCL's part of it stay apart."""
        backend, name = group
        return f"{name} ({backend})" if name in self.shared_names else name


def backend_of(content: Content) -> str:
    """Tell which backend's recorder wrote a dump; empty when nothing in it says."""
    named = next((one.backend for one in content.entries if one.backend), "")
    return named or ("gloo" if "" in content.pg_config else "")


def make_roster(dumps: Sequence[Dump], refused: Iterable[int] = ()) -> Roster:
    """Put together what the dumps say about groups; `refused` ranks have a file, unreadable."""
    listed: dict[GroupId, dict[tuple[int, ...], None]] = defaultdict(dict)
    users: dict[GroupId, list[int]] = defaultdict(list)
    backends: dict[str, set[str]] = defaultdict(set)
    world = _without_holes({*(dump.rank for dump in dumps), *refused})
    sure = False
    cache: dict[str, tuple[int, ...]] = {}
    for dump in dumps:
        backend = backend_of(dump.content)
        for name, config in dump.content.pg_config.items():
            listing = str(config.get("ranks", ""))[:_MOST_LETTERS]
            if listing not in cache:
                cache[listing] = tuple(map(int, _NUMBER.findall(listing)))
            ranks = cache[listing]
            if name and ranks:
                listed[backend, name][ranks] = None
            if ranks and (config.get("desc") == DEFAULT or _is_world(ranks)):
                world.update(ranks)
                sure = True
        for name in _names(dump.content.entries):
            users[backend, name].append(dump.rank)
            backends[name].add(backend)
    return Roster(
        listed={
            group: [(ranks, frozenset(ranks)) for ranks in found] for group, found in listed.items()
        },
        users={group: tuple(sorted(set(ranks))) for group, ranks in users.items()},
        world=tuple(sorted(world)),
        sure=sure,
        shared_names=frozenset(name for name, found in backends.items() if len(found) > 1),
    )


def status_names(content: Content) -> dict[str, str]:
    """Map the keys of `pg_status` to names of groups.

    NCCL numbers the groups of a rank as it makes them, but names them by a count over the whole
    job. Where both lists are complete they have the same order; an entry, which has both, must
    not contradict. Otherwise a key is taken for the name itself.
    """
    keys, names = list(content.pg_status), list(content.pg_config)
    plain = {key: key for key in keys}
    if len(keys) != len(names) or not all(one.isdecimal() for one in (*keys, *names)):
        return plain
    found = dict(zip(sorted(keys, key=int), sorted(names, key=int), strict=True))
    known = {str(entry.pg_id): entry.group for entry in content.entries}
    agree = all(found.get(key, name) == name for key, name in known.items())
    return found if agree else plain


def _without_holes(ranks: set[int]) -> set[int]:
    """Add the ranks between: they belong to the job, unless a file's name is no rank at all."""
    size = max(ranks, default=-1) + 1
    return set(range(size)) if size <= 4 * len(ranks) + 64 else ranks


def _is_world(ranks: tuple[int, ...]) -> bool:
    return ranks[0] == 0 and ranks[-1] == len(ranks) - 1


def _names(entries: Iterable[Entry]) -> set[str]:
    return {entry.group for entry in entries}


def _is_default(group: GroupId, description: str) -> bool:
    return description == DEFAULT or (not description and group[1] in ("", "0"))
