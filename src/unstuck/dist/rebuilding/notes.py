"""Where the ranks of a job leave notes for each other to agree on which of them continue."""

from typing import Any, Protocol

from torch.distributed import distributed_c10d as c10d


class Notes(Protocol):
    """The few operations through which several processes can agree."""

    poll_every: float
    """Seconds between two reads when waiting for a note."""

    def read(self, keys: list[str]) -> list[str | None]:
        """Return the notes under these keys; None where there is none."""
        ...

    def write(self, key: str, value: str) -> None:
        """Write a note."""
        ...

    def write_first(self, key: str, value: str) -> str:
        """Write a note unless there is one already; return the one that is there afterwards."""
        ...

    def delete(self, key: str) -> None:
        """Delete a note."""
        ...


class StoreNotes:
    """Notes in a store of torch, over a connection of their own: others may be blocked.

    The store may live in a rank (rank 0, unless torchrun shares its own) and is lost with it.
    """

    poll_every = 0.002

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
