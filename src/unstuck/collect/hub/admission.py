"""Who may connect to the hub, and how much a stranger may cost it."""

import asyncio
from collections.abc import Callable

from unstuck.collect import wire
from unstuck.collect.session import Session, admit

MOST_UNPROVED = 512
"""Connections that have not proved anything yet; the oldest of them gives way to a new one."""


class Admission:
    """Does the handshake with whoever connects."""

    def __init__(self, token: str, is_taken: Callable[[str], bool]) -> None:
        self._token = token
        self._is_taken = is_taken
        self._unproved: dict[asyncio.StreamWriter, None] = {}

    async def admit(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[wire.Hello, Session]:
        """Return who has connected.

        Raises:
            ConnectionError: it is not an agent of this job.
            TimeoutError: it does not say.
        """
        if len(self._unproved) >= MOST_UNPROVED:
            oldest = next(iter(self._unproved))
            del self._unproved[oldest]
            oldest.transport.abort()
        self._unproved[writer] = None
        try:
            return await admit(reader, writer, self._token, self._is_taken)
        finally:
            self._unproved.pop(writer, None)
