"""Notify people who do not watch the job: a Slack-compatible web hook, a command.

The address of a web hook is a secret: it comes from the environment only, and is never printed.
"""

import os
import subprocess
import threading
from collections.abc import Callable

import msgspec

from unstuck.act.policy import Notify
from unstuck.console import say
from unstuck.explain.report import machine
from unstuck.model.verdict import Verdict

WITHIN = 10.0
"""Seconds for each; the job does not wait for it."""


def notify(
    verdict: Verdict, settings: Notify, plan: str, announce: Callable[[str], None] = say
) -> list[threading.Thread]:
    """Send it in threads of their own; a failure is announced, without the address."""
    work: list[Callable[[], None]] = []
    address = os.environ.get(settings.webhook_env, "")
    if address:
        work.append(lambda: _post(address, text_of(verdict, plan)))
    if settings.command:
        work.append(lambda: _run(settings.command, machine.line(verdict)))
    threads = [threading.Thread(target=_quietly, args=(one, announce), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    return threads


def text_of(verdict: Verdict, plan: str) -> str:
    """Return the message: what, why, what is done about it, what to do."""
    lines = [f"unstuck: {verdict.summary} ({verdict.cause}, {verdict.confidence})"]
    lines += [f"next: {plan}"] if plan else []
    lines += [f"do: {act}" for act in verdict.do[:3]]
    return "\n".join(lines)


def _quietly(work: Callable[[], None], announce: Callable[[str], None]) -> None:
    try:
        work()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        status = getattr(error, "code", None)
        why = f"the web hook answered {status}" if status else type(error).__name__
        announce(f"could not notify: {why}")


def _post(address: str, text: str) -> None:
    import urllib.request  # only where needed: it imports half of the standard library

    if not address.startswith(("https://", "http://")):
        raise ValueError("not a web address")
    request = urllib.request.Request(  # noqa: S310 - checked above
        address,
        data=msgspec.json.encode({"text": text}),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=WITHIN):  # noqa: S310 - checked above
        pass


def _run(command: tuple[str, ...], line: str) -> None:
    subprocess.run(
        command, input=line.encode(), timeout=WITHIN, check=True, stdout=subprocess.DEVNULL
    )
