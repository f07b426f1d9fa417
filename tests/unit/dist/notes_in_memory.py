"""Notes that the threads of one test process leave for each other."""

import threading


class MemoryNotes:
    """A dictionary behind a lock."""

    poll_every = 0.001

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self._lock = threading.Lock()

    def read(self, keys: list[str]) -> list[str | None]:
        with self._lock:
            return [self.kept.get(key) for key in keys]

    def write(self, key: str, value: str) -> None:
        with self._lock:
            self.kept[key] = value

    def write_first(self, key: str, value: str) -> str:
        with self._lock:
            return self.kept.setdefault(key, value)

    def delete(self, key: str) -> None:
        with self._lock:
            self.kept.pop(key, None)
