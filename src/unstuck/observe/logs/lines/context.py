"""The context of the failures: phases, ranks that write anything, the size of the job.

Only windows are looked at (a file's head, its tail, and the lines before a match), so the
cost does not grow with the file.
"""

import re

from unstuck.model.logs import LogFact, LogLine, LogPhase
from unstuck.observe.logs.files.sources import Source
from unstuck.observe.logs.find import phases, templates
from unstuck.observe.logs.lines import prefix

WINDOW = 16 << 10
HEAD = 64 << 10

_WORLD = re.compile(r"(?:world[_ ]size|WORLD_SIZE|nranks|num_processes)\W{1,4}(\d{1,6})\b")
_USAGE = re.compile(
    r": error: (?:unrecognized arguments|the following arguments are required|argument )"
)
_SPEAKER = re.compile(r"^\[(?:rank|RANK |Rank |default)(\d{1,6})\]", re.MULTILINE)
_DISTRIBUTED = re.compile(
    r"torch[./]distributed|torchrun|\bNCCL\b|ncclComm|\bgloo\b|\[rank\d|ProcessGroup|c10d|"
    r"DistributedDataParallel|world_size|deepspeed|accelerate launch|local[_-]rank|mpirun|"
    r"\bsrun\b|\[Rank \d|\[RANK \d|\bHCCL\b|TCPStore|\bFSDP\b|nproc_per_node|\bORTE\b|horovod"
)


class Context:
    """Collects over all windows of all files."""

    def __init__(self, year: int) -> None:
        self.year = year
        self.ranks: set[int] = set()
        self.hosts: set[str] = set()
        self._failed_hosts: set[str] = set()
        self.world_size = 0
        self.distributed = False
        self.usage_error = False
        self._framed: set[int | None] = set()
        self._phases: dict[tuple[int | None, LogFact], LogPhase] = {}

    @property
    def phases(self) -> tuple[LogPhase, ...]:
        """The last line of each phase and rank."""
        return tuple(self._phases.values())

    def look(self, window: str, source: Source, last_line: int) -> None:
        """Take in a window that ends with the line of this number."""
        self.look_round(window)
        lines = window.split("\n")
        first = last_line - len(lines) + 1
        for index, raw in enumerate(lines):
            for piece in raw.split("\r")[-3:] if "\r" in raw else (raw,):
                if piece:
                    self.look_at(prefix.clean(piece), source, first + index)

    def look_round(self, window: str) -> None:
        """Take in only what is said about the job as a whole, and which ranks speak."""
        self.distributed = self.distributed or bool(_DISTRIBUTED.search(window))
        self.usage_error = self.usage_error or bool(_USAGE.search(window))
        self.ranks.update(int(rank) for rank in _SPEAKER.findall(window))
        for size in _WORLD.findall(window):
            self.world_size = max(self.world_size, int(size))

    def look_at(self, piece: str, source: Source, number: int) -> None:
        """Take in one clean line."""
        head = prefix.parse(piece, self.year)
        rank = source.rank if head.rank is None else head.rank
        if rank is not None:
            self.ranks.add(rank)
        if head.host:
            self._take_host(head)
        found, code = self._phases_of(head.body, rank)
        if not found:
            return
        # A traceback shows where its own rank waited: that rank is not the busy one.
        whose = None if code else rank
        text, host = piece.strip()[:400], head.host or source.host
        line = LogLine(source.path, number, text, whose, host, head.time)
        for fact in found:
            self._phases[whose, fact] = LogPhase(fact, line)

    def _take_host(self, head: prefix.Prefix) -> None:
        """Keep a host; tracebacks of two hosts show that several processes worked together."""
        self.hosts.add(head.host)
        if phases.is_frame(head.body) or templates.exception(head.body):
            self._failed_hosts.add(head.host)
            self.distributed = self.distributed or len(self._failed_hosts) > 1

    def _phases_of(self, body: str, rank: int | None) -> tuple[frozenset[LogFact], bool]:
        """Return what a line says, and whether it is part of a traceback."""
        below = rank in self._framed
        self._framed.discard(rank)
        if phases.is_frame(body):
            self._framed.add(rank)
            return phases.of_code(body), True
        return (phases.of_code(body), True) if below else (phases.of(body), False)
