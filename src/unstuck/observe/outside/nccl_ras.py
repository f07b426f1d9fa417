"""NCCL's own account of a running job (RAS, since NCCL 2.24): what each GPU's rank has launched.

A process of the job listens on port 28028 of its machine, or where NCCL_RAS_ADDR says. The protocol
is lines of text; since 2.28.7 the answer may be JSON. What it has are counts of launches, by
communicator: a rank with fewer than the others has not called what they wait in. Nothing is
completed by that: a collective in which all are and that hangs looks fine here. Its ranks are
those of a communicator, so that processes are told by host and pid.
"""

import re
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import BinaryIO, cast

import msgspec
from msgspec import Struct

PORT = 28028
_WITHIN = 3.0
"""Seconds for the first words."""
_ANSWERS_WITHIN = 8.0
"""NCCL itself waits for five seconds for processes that do not answer."""
_MOST_BYTES = 64 << 20
"""512 ranks need more than 256 KiB."""
_VARIABLE = "NCCL_RAS_ADDR"


class RasError(Exception):
    """NCCL did not answer, or not in a way that is known."""


class RasRank(Struct, frozen=True):
    """One rank of one communicator."""

    rank: int
    host: str = ""
    pid: int = 0
    collective_counts: dict[str, int] = {}

    @property
    def launched(self) -> int:
        """Return how many collectives it has launched."""
        return sum(self.collective_counts.values())


class MissingRank(Struct, frozen=True):
    """One of which NCCL has no answer."""

    rank: int
    host: str = ""
    pid: int = 0


class Communicator(Struct, frozen=True):
    """One communicator and what is known of its ranks."""

    hash: str
    size: int = 0
    ranks: tuple[RasRank, ...] = ()
    missing_ranks: tuple[MissingRank, ...] = ()


class Account(Struct, frozen=True):
    """The whole answer."""

    nccl_version: str = ""
    communicators: tuple[Communicator, ...] = ()


def address(env: Mapping[str, str]) -> tuple[str, int]:
    """Return where the ranks with this environment listen.

    Example:
        >>> address({"NCCL_RAS_ADDR": "10.0.0.1:4000"}), address({})
        (('10.0.0.1', 4000), ('localhost', 28028))
    """
    host, _, port = env.get(_VARIABLE, "").rpartition(":")
    return (host or "localhost", int(port)) if port.isdigit() else ("localhost", PORT)


def read(host: str = "localhost", port: int = PORT) -> Account:
    """Ask for the account of a job.

    Raises:
        RasError: nobody listens there, or the answer cannot be understood.

    Example:
        read().communicators[0].ranks
    """
    try:
        with socket.create_connection((host, port), timeout=_WITHIN) as connection:
            return parse(_converse(connection))
    except OSError as error:
        raise RasError((error.strerror or str(error)).lower()) from error


def _converse(connection: socket.socket) -> bytes:
    with connection.makefile("rwb") as file:
        stream = cast("BinaryIO", file)
        if not _say(stream, "CLIENT PROTOCOL 2").startswith(b"SERVER PROTOCOL "):
            raise RasError("it does not speak the protocol of NCCL RAS")
        if _say(stream, "SET FORMAT json").strip() != b"OK":
            raise RasError("it has no JSON: NCCL is older than 2.28.7")
        stream.write(b"VERBOSE STATUS\n")
        stream.flush()
        until = time.monotonic() + _ANSWERS_WITHIN
        chunks: list[bytes] = []
        while sum(map(len, chunks)) < _MOST_BYTES:
            connection.settimeout(max(0.01, until - time.monotonic()))
            chunk = file.read1(1 << 16)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
        raise RasError("its answer is too long")


def _say(stream: BinaryIO, line: str) -> bytes:
    stream.write(f"{line}\n".encode())
    stream.flush()
    return stream.readline(1024)


def parse(data: bytes) -> Account:
    """Understand the answer; that of 2.28.9 lacks or has too many commas.

    Raises:
        RasError: it cannot be understood.
    """
    try:
        return msgspec.json.decode(data, type=Account)
    except msgspec.MsgspecError:
        mended = re.sub(rb"([}\]])(\s*)([{\[\"])", rb"\1,\2\3", data)
        mended = re.sub(rb",(\s*[}\]])", rb"\1", mended)
    try:
        return msgspec.json.decode(mended, type=Account)
    except msgspec.MsgspecError as error:
        raise RasError(f"its answer cannot be understood: {error}") from error


def told(account: Account, ranks: Mapping[int, int]) -> list[str]:
    """Say which ranks have launched fewer collectives than others; `ranks` maps pids to ranks.

    Example:
        told(read(), {6299: 0, 6247: 1})  # ["rank 1 has launched 100 …, the others 101"]
    """
    found: list[str] = []
    for one in account.communicators:
        for count, behind in _behind(one.ranks).items():
            most = max(rank.launched for rank in one.ranks)
            who = ", ".join(_name(rank, ranks) for rank in behind)
            verb = "has" if len(behind) == 1 else "have"
            found.append(
                f"{who} {verb} launched {count} collectives in communicator {one.hash}, "
                f"others {most}"
            )
        if one.missing_ranks:
            who = ", ".join(_name(rank, ranks) for rank in one.missing_ranks)
            found.append(f"{who}: no answer within communicator {one.hash}")
    return found


def _behind(members: Iterable[RasRank]) -> dict[int, list[RasRank]]:
    """Gather those below the highest count, if they are not more than half."""
    by_count: dict[int, list[RasRank]] = defaultdict(list)
    for rank in members:
        by_count[rank.launched].append(rank)
    count = sum(map(len, by_count.values()))
    top = max(by_count, default=0)
    return {
        launched: those
        for launched, those in sorted(by_count.items())
        if launched < top and 2 * len(those) <= count
    }


def _name(one: RasRank | MissingRank, ranks: Mapping[int, int]) -> str:
    known = ranks.get(one.pid)
    if known is not None:
        return f"rank {known}"
    return f"pid {one.pid} on {one.host}" if one.pid else f"its rank {one.rank}"
