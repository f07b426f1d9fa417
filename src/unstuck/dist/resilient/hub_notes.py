"""Notes kept by the hub, which outlives every rank."""

import os
import time
from typing import Any

from unstuck.observe.probe import link

_ANSWER_WITHIN = 2.0
_RETRY_FOR = 10.0


class HubNotes:
    """Notes at the hub, reached through this node's agent."""

    poll_every = 0.01

    def __init__(self, place: str) -> None:
        self._place = f"{_attempt()}/{place}"

    def read(self, keys: list[str]) -> list[str | None]:
        """See `Notes`."""
        return list(_ask({"get": [f"{self._place}/{key}" for key in keys]})["values"])

    def write(self, key: str, value: str) -> None:
        """See `Notes`."""
        _ask({"set": f"{self._place}/{key}", "value": value})

    def write_first(self, key: str, value: str) -> str:
        """See `Notes`."""
        return str(_ask({"set": f"{self._place}/{key}", "value": value, "if": ""})["value"])

    def delete(self, key: str) -> None:
        """See `Notes`."""
        _ask({"delete": f"{self._place}/{key}"})


def has_hub() -> bool:
    """Tell whether a hub keeps notes for this process."""
    return "values" in (link.ask({"note": {"get": []}}, _ANSWER_WITHIN) or {})


def _attempt() -> str:
    """Name this attempt of the job: after a restart, notes of the previous one do not count."""
    env = os.environ
    count = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    where = f"{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"
    # On several nodes the counts differ, but then every attempt has its own address.
    return where if env.get("GROUP_WORLD_SIZE", "1") != "1" else f"{where}/{count}"


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """Ask the hub, repeatedly if necessary: asking twice does no harm.

    Raises:
        ConnectionError: it does not answer.
    """
    until = time.monotonic() + _RETRY_FOR
    while True:
        answer = link.ask({"note": request}, _ANSWER_WITHIN)
        if answer is not None and "error" not in answer:
            return answer
        if time.monotonic() > until:
            why = answer["error"] if answer else "no answer"
            raise ConnectionError(f"the hub keeps no notes: {why}")
        time.sleep(0.1)
