"""Notify people who do not watch the job: a web hook, e-mail, a command.

The address of a web hook is a secret: it comes from the environment only, and is never printed.
A web hook or mail server that does not answer is tried again a few times, never for ever, and
never more than a few messages wait at a time. The job does not notice any of it.
"""

import os
import subprocess
import threading
from collections.abc import Callable
from functools import partial

import msgspec

from unstuck.act.policy import Notify, WebhookFormat
from unstuck.act.steps import cloud_event, mail
from unstuck.clock import SYSTEM, Clock
from unstuck.console import say
from unstuck.explain.report import machine
from unstuck.model.verdict import Verdict

WITHIN = 10.0
"""Seconds for each attempt; the job does not wait for it."""
PAUSES = (2.0, 8.0)
"""Seconds before the second and the third attempt; there is no fourth."""
MOST_WAITING = 8
"""Messages under way; more are not sent, which is said."""

_slots = threading.BoundedSemaphore(MOST_WAITING)
_AGAIN = (408, 425, 429)


def notify(
    verdict: Verdict,
    settings: Notify,
    plan: str,
    announce: Callable[[str], None] = say,
    *,
    source: str = "",
    clock: Clock = SYSTEM,
) -> list[threading.Thread]:
    """Send it in threads of their own; a failure is announced, without the address.

    `source` says which job this is about.
    """
    work: list[Callable[[], None]] = []
    if address := os.environ.get(settings.webhook_env, ""):
        work.append(partial(_post, address, *_body(verdict, settings, plan, source)))
    if settings.email:
        work.append(partial(mail.send, verdict, settings, text_of(verdict, plan), source))
    if settings.command:
        work.append(partial(_run, settings.command, machine.line(verdict)))
    threads = [
        threading.Thread(target=_quietly, args=(one, announce, clock), daemon=True) for one in work
    ]
    for thread in threads:
        thread.start()
    return threads


def text_of(verdict: Verdict, plan: str) -> str:
    """Return the message: what, why, what is done about it, what to do."""
    lines = [f"unstuck: {verdict.summary} ({verdict.cause}, {verdict.confidence})"]
    lines += [f"next: {plan}"] if plan else []
    lines += [f"do: {act}" for act in verdict.do[:3]]
    return "\n".join(lines)


def _body(verdict: Verdict, settings: Notify, plan: str, source: str) -> tuple[bytes, str]:
    """Return what a web hook is sent, and of which type that is."""
    if settings.webhook_format is WebhookFormat.CLOUDEVENTS:
        event = cloud_event.of_verdict(verdict, source)
        return msgspec.json.encode(event), cloud_event.CONTENT_TYPE
    return msgspec.json.encode({"text": text_of(verdict, plan)}), "application/json"


def _quietly(work: Callable[[], None], announce: Callable[[str], None], clock: Clock) -> None:
    if not _slots.acquire(blocking=False):
        announce(f"could not notify: {MOST_WAITING} messages are waiting to be sent already")
        return
    try:
        _with_retries(work, clock)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        status = getattr(error, "code", None)
        why = f"the web hook answered {status}" if status else type(error).__name__
        announce(f"could not notify: {why}")
    finally:
        _slots.release()


def _with_retries(work: Callable[[], None], clock: Clock) -> None:
    for pause in PAUSES:
        try:
            work()
        except OSError as error:
            if not _may_pass(error):
                raise
            clock.sleep(pause)
        else:
            return
    work()


def _may_pass(error: OSError) -> bool:
    """Tell whether it may succeed later: not if somebody answered that it is wrong."""
    status = getattr(error, "code", None) or getattr(error, "smtp_code", None)
    if not isinstance(status, int):
        return not isinstance(error, FileNotFoundError | PermissionError)
    smtp = hasattr(error, "smtp_code")
    return 400 <= status < 500 if smtp else status >= 500 or status in _AGAIN


def _post(address: str, body: bytes, kind: str) -> None:
    import urllib.request  # only where needed: it imports half of the standard library

    if not address.startswith(("https://", "http://")):
        raise ValueError("not a web address")
    request = urllib.request.Request(  # noqa: S310 - checked above
        address, data=body, headers={"Content-Type": kind}
    )
    with urllib.request.urlopen(request, timeout=WITHIN):  # noqa: S310 - checked above
        pass


def _run(command: tuple[str, ...], line: str) -> None:
    subprocess.run(
        command, input=line.encode(), timeout=WITHIN, check=True, stdout=subprocess.DEVNULL
    )
