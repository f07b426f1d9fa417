"""Where ranks that lost a peer leave notes for each other: at the hub, else in the job's store.

The hub outlives every rank. The job's store may live in a rank (rank 0, unless torchrun shares its
own) and is lost with it.
"""

import os
import time
from typing import Any, Protocol

from torch.distributed import distributed_c10d as c10d

from unstuck.observe.probe import link

_ANSWER_WITHIN = 2.0
_TRY_FOR = 10.0


class Notes(Protocol):
    """A few operations that several processes can agree by."""

    def read(self, keys: list[str]) -> list[str | None]:
        """Return what stands under these keys; None where nothing does."""
        ...

    def write(self, key: str, value: str) -> None:
        """Write a note."""
        ...

    def write_first(self, key: str, value: str) -> str:
        """Write a note unless there is one; return what stands there then."""
        ...

    def delete(self, key: str) -> None:
        """Take a note away."""
        ...


class HubNotes:
    """Notes at the hub, by way of the agent of this node."""

    def __init__(self, place: str) -> None:
        self._place = f"{_attempt()}/{place}"

    def read(self, keys: list[str]) -> list[str | None]:
        """See `Notes`."""
        return list(_asked({"get": [f"{self._place}/{key}" for key in keys]})["values"])

    def write(self, key: str, value: str) -> None:
        """See `Notes`."""
        _asked({"set": f"{self._place}/{key}", "value": value})

    def write_first(self, key: str, value: str) -> str:
        """See `Notes`."""
        return str(_asked({"set": f"{self._place}/{key}", "value": value, "if": ""})["value"])

    def delete(self, key: str) -> None:
        """See `Notes`."""
        _asked({"delete": f"{self._place}/{key}"})


class StoreNotes:
    """Notes in a store of torch; with a connection of its own, as others may block theirs."""

    def __init__(self, store: Any, place: str) -> None:
        self._store = c10d.PrefixStore(f"unstuck/{place}", store.clone())

    def read(self, keys: list[str]) -> list[str | None]:
        """See `Notes`."""
        return [self._store.get(key).decode() if self._store.check([key]) else None for key in keys]

    def write(self, key: str, value: str) -> None:
        """See `Notes`."""
        self._store.set(key, value)

    def write_first(self, key: str, value: str) -> str:
        """See `Notes`."""
        return self._store.compare_set(key, "", value).decode()

    def delete(self, key: str) -> None:
        """See `Notes`."""
        self._store.delete_key(key)


def at_hub() -> bool:
    """Tell whether a hub keeps notes for this process."""
    return "values" in (link.ask({"note": {"get": []}}, _ANSWER_WITHIN) or {})


def _attempt() -> str:
    """Name this attempt of the job: after a restart nothing of the old one counts."""
    env = os.environ
    count = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    where = f"{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"
    # On several nodes the counts differ, but then every attempt has an address of its own.
    return where if env.get("GROUP_WORLD_SIZE", "1") != "1" else f"{where}/{count}"


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    """Ask the hub, again if need be: asking twice does no harm.

    Raises:
        ConnectionError: it does not answer.
    """
    until = time.monotonic() + _TRY_FOR
    while True:
        found = link.ask({"note": request}, _ANSWER_WITHIN)
        if found is not None and "error" not in found:
            return found
        if time.monotonic() > until:
            why = found["error"] if found else "no answer"
            raise ConnectionError(f"the hub keeps no notes: {why}")
        time.sleep(0.1)
