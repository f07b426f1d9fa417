"""What the advice may fill in: the ranks, the host, the pid and the place of a verdict."""

from msgspec import Struct

from unstuck.model.verdict import Culprit, Verdict

MOST_HOSTS = 8

_NOBODY = Culprit(rank=-1, host="", doing="")


class Advice(Struct, frozen=True):
    """`do`: first thing first. `dont`: a dead end and why it is one."""

    do: tuple[str, ...]
    dont: tuple[str, ...]


class Facts:
    """A verdict in the words that advice needs."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.first = verdict.culprits[0] if verdict.culprits else _NOBODY
        self.who = rank_words(tuple(c.rank for c in verdict.culprits)) or "the culprit"
        self.several = len(verdict.culprits) > 1
        roots = [item.text for item in verdict.evidence if item.role == "root"]
        doings = [f"{c.doing} {c.function} {c.code}" for c in verdict.culprits]
        self._doings = " ".join(doings).lower()
        self._text = " ".join([self._doings, *roots, verdict.summary]).lower()

    def says(self, *words: str) -> bool:
        """Tell whether the culprits' doings or the root evidence hold one of these words."""
        return any(word in self._text for word in words)

    def does(self, *words: str) -> bool:
        """Tell whether the culprits' own doings, function or source line hold one of these."""
        return any(word in self._doings for word in words)

    @property
    def host(self) -> str:
        """The first culprit's host, in words where it is not known."""
        return self.first.host or "its host"

    @property
    def address(self) -> str:
        """The first culprit's host as a command takes it."""
        return self.first.host or "<host>"

    @property
    def addresses(self) -> str:
        """The hosts of all culprits, separated by commas; cut where they are many."""
        hosts = list(dict.fromkeys(c.host for c in self.verdict.culprits if c.host))
        if len(hosts) > MOST_HOSTS:
            return ",".join(hosts[:MOST_HOSTS]) + ",..."
        return ",".join(hosts) or "<host>"

    @property
    def pid(self) -> str:
        """The first culprit's pid, or a placeholder that says whose."""
        if self.first.pid:
            return str(self.first.pid)
        return f"<pid of rank {self.first.rank}>" if self.first.rank >= 0 else "<pid>"

    @property
    def place(self) -> str:
        """` at train.py:31`, or nothing where the line is not known."""
        if not self.first.file:
            return ""
        return f" at {self.first.file.rsplit('/', 1)[-1]}:{self.first.line}"

    @property
    def stuck_op(self) -> str:
        """`all_reduce`, or a plain word where no operation is stuck."""
        stuck = self.verdict.stuck
        return stuck.op.rsplit(":", 1)[-1] if stuck else "collective"

    def on_host(self, command: str, why: str = "") -> str:
        """Return a command with the host it belongs on, and what it shows or does."""
        return f"on {self.host}: `{command}`" + (f" ({why})" if why else "")

    def no_longer_timeout(self, reason: str = "") -> str:
        """Return the commonest dead end, with the reason it is one here."""
        missing = self.verdict.stuck.missing if self.verdict.stuck else ()
        if not reason and missing:
            reason = (
                f"{rank_words(missing)} never issued this {self.stuck_op}, "
                "so the others would only wait longer"
            )
        reason = (
            reason or f"{self.who} does not come by waiting, so the job would only stand longer"
        )
        return f"do not raise the timeout: {reason}"


def rank_words(ranks: tuple[int, ...]) -> str:
    """Name a few ranks as a sentence does.

    Example:
        rank_words((1, 2, 5))  # "ranks 1, 2 and 5"
    """
    if not ranks:
        return ""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 4:
        return f"{len(ranks)} ranks (first: {min(ranks)})"
    names = [str(rank) for rank in sorted(ranks)]
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
