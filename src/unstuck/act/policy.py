"""A policy as data: for every cause an ordered list of actions with their limits.

Written as `restart:3`, in `unstuck.toml` or after `--on CAUSE=`:

    dump, report, notify      no limit
    wait:10m                  wait this long whether it passes
    checkpoint:30s, raise:10s at most this long, then the next action
    restart:3                 at most this often for the same cause and culprit without progress
    exclude:1h                restart without the node, which is allowed back after this long
    stop:code                 retry, node, code, settings or person: the exit code; without it
                              "storm" after restarts that did not help, else "person"
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, Any, TypeVar, cast

from msgspec import Meta, Struct, ValidationError, convert, structs

from unstuck import durations
from unstuck.errors import PolicyError
from unstuck.model.action import TELLING, Action, Step
from unstuck.model.exits import STOP_WORDS
from unstuck.model.verdict import Cause

SLOW = frozenset({Cause.STRAGGLER})
"""The job moves: it may be reported, never ended."""
DEFAULT = "default"
"""The origin of a rule that nobody but unstuck has asked for."""
LONGEST = 7 * 86400.0
_TIMED = {Action.WAIT: 60.0, Action.CHECKPOINT: 30.0, Action.RAISE: 10.0, Action.EXCLUDE: 3600.0}
"""The actions that take a time, and the time they have by default."""


_Seconds = Annotated[float, Meta(gt=0, le=LONGEST)]


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds whatever the cause; in seconds where nothing else is said."""

    restarts: Annotated[int, Meta(gt=0, le=1000)] = 5
    """This many restarts in a row without progress are a storm: the job is stopped."""
    unsure: _Seconds = 60.0
    """A verdict that is only possible must hold this long before it is acted on."""
    lease: _Seconds = 15.0
    """A node that has not heard the hub for this long ends its ranks; only then do the others
    continue without it."""
    settled: _Seconds = 600.0
    """An attempt that ran for this long made progress, whatever its steps say."""


class WebhookFormat(StrEnum):
    """What a web hook is sent."""

    SLACK = "slack"
    CLOUDEVENTS = "cloudevents"


class Notify(Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to notify; the address of a web hook is a secret and is set in the environment."""

    webhook_env: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] = "UNSTUCK_WEBHOOK"
    command: tuple[str, ...] = ()
    """Reads the verdict as JSON from its standard input."""
    webhook_format: WebhookFormat = WebhookFormat.SLACK
    """`slack`: a text, as Slack, Mattermost and others take it. `cloudevents`: the verdict in a
    CloudEvents 1.0 envelope."""
    email: tuple[Annotated[str, Meta(pattern="^[^@\\s,]+@[^@\\s,]+$")], ...] = ()
    """The addresses that get an e-mail."""
    email_from: Annotated[str, Meta(pattern="^[^@\\s,]+@[^@\\s,]+$")] = "unstuck@localhost"
    """The sender."""
    smtp: Annotated[str, Meta(pattern=r"^[^\s:]+:\d{1,5}$")] = "localhost:25"
    """Host and port of the mail server."""


_Table = TypeVar("_Table", Limits, Notify)


class Policy(Struct, frozen=True):
    """What to do about every cause."""

    rules: dict[Cause, tuple[Step, ...]]
    origins: dict[Cause, str] = {}
    """Where a rule comes from: `default`, a file's name, `--on`."""
    limits: Limits = Limits()
    notify: Notify = Notify()

    @property
    def acts(self) -> bool:
        """True if any rule may touch the job."""
        return any(step.action not in TELLING for rule in self.rules.values() for step in rule)

    def has(self, action: Action) -> bool:
        """Tell whether any rule contains an action."""
        return any(step.action is action for rule in self.rules.values() for step in rule)


REPORT_ONLY = (Step(Action.DUMP), Step(Action.REPORT))


def parse_on(text: str) -> tuple[Cause, tuple[Step, ...]]:
    """Read `CAUSE=ACT,ACT:LIMIT`.

    Raises:
        PolicyError: it is not valid.

    Example:
        parse_on("process-crash=report,restart:3")
    """
    name, equals, acts = text.partition("=")
    if not equals:
        raise PolicyError(
            f"--on {text} is not CAUSE=ACTIONS", hint="--on process-crash=report,restart:3"
        )
    cause = parse_cause(name)
    return cause, parse_rule(cause, acts)


def parse_cause(name: str) -> Cause:
    """Read the name of a cause.

    Raises:
        PolicyError: there is none of that name.
    """
    word = name.strip()
    if word in set(Cause):
        return Cause(word)
    raise PolicyError(
        f"there is no cause `{word}`{_meant(word, Cause)}", hint="unstuck policy show"
    )


def parse_rule(cause: Cause, value: object) -> tuple[Step, ...]:
    """Read what to do about a cause: a list of actions, or a text with commas.

    Raises:
        PolicyError: an action is unknown, has a wrong limit, or can never be reached.
    """
    listed = value.split(",") if isinstance(value, str) else value
    items = cast("Sequence[object]", listed) if isinstance(listed, list | tuple) else (None,)
    if not all(isinstance(item, str) for item in items):
        raise PolicyError(f"{cause}: the actions must be a list of words, not {value!r}")
    words = [str(item).strip() for item in items if str(item).strip()]
    if not words:
        raise PolicyError(f"{cause}: no action; `report` at least")
    rule = tuple(_step(cause, word) for word in words)
    _check_order(cause, rule)
    return rule


def _step(cause: Cause, word: str) -> Step:
    name, colon, limit = (part.strip() for part in word.partition(":"))
    if name not in set(Action):
        raise PolicyError(
            f"{cause}: there is no action `{name}`{_meant(name, Action)}",
            hint=f"there are {', '.join(Action)}",
        )
    action = Action(name)
    if colon and not limit:
        raise PolicyError(f"{cause}: `{word}` lacks its limit")
    if action in _TIMED:
        return Step(action, seconds=_seconds(cause, word, limit) if limit else _TIMED[action])
    if action is Action.RESTART:
        return Step(action, times=_times(cause, word, limit) if limit else 3)
    if action is Action.STOP:
        return Step(action, stop=_stop(cause, limit) if limit else "")
    if limit:
        raise PolicyError(f"{cause}: `{name}` takes no limit, but has `{limit}`")
    return Step(action)


def _check_order(cause: Cause, rule: tuple[Step, ...]) -> None:
    """Refuse what could never happen, and what must not."""
    acts = [step.action for step in rule]
    touching = [act for act in acts if act not in TELLING]
    if cause in SLOW and touching:
        raise PolicyError(
            f"{cause}: `{touching[0]}` would end a job that moves; only dump, report and notify"
        )
    for action in set(acts):
        if acts.count(action) > 1 and action is not Action.WAIT:
            raise PolicyError(f"{cause}: `{action}` is given twice")
    if Action.STOP in acts and acts[-1] is not Action.STOP:
        after = acts[acts.index(Action.STOP) + 1]
        raise PolicyError(f"{cause}: `{after}` after `stop` would never be done")


def _seconds(cause: Cause, word: str, text: str) -> float:
    seconds = durations.parse(text)
    if not seconds or seconds > LONGEST:
        raise PolicyError(f"{cause}: `{word}` needs a time such as 30s, 10m or 1h, up to 7d")
    return seconds


def _times(cause: Cause, word: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1000:
        raise PolicyError(f"{cause}: `{word}` needs a number of times, 1 to 1000")
    return int(text)


def _stop(cause: Cause, word: str) -> str:
    if word not in STOP_WORDS:
        raise PolicyError(
            f"{cause}: `stop:{word}` names no exit code{_meant(word, STOP_WORDS)}",
            hint=f"there are {', '.join(STOP_WORDS)}",
        )
    return word


def _meant(word: str, names: Iterable[str]) -> str:
    near = get_close_matches(word, [str(name) for name in names], n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def parse_table(
    base: Policy, table: Mapping[str, Any], origin: str, on: Iterable[str] = ()
) -> Policy:
    """Return `base` with what a `[policy]` table and `--on` options say instead.

    Raises:
        PolicyError: they are not valid.
    """
    rules, origins = dict(base.rules), dict(base.origins)
    try:
        limits = _merge(base.limits, table.get("limits", {}), "limits")
        notify = _merge(base.notify, table.get("notify", {}), "notify")
        for name, value in table.items():
            if name not in ("limits", "notify"):
                cause = parse_cause(name)
                rules[cause], origins[cause] = parse_rule(cause, value), origin
    except PolicyError as error:
        raise PolicyError(f"{origin}: {error.message}", hint=error.hint) from error
    for text in on:
        cause, rule = parse_on(text)
        rules[cause], origins[cause] = rule, "--on"
    return Policy(rules, origins, limits, notify)


def _merge(base: _Table, value: object, name: str) -> _Table:
    """Return the settings of `base` with those of a table instead."""
    known = ", ".join(base.__struct_fields__)
    if not isinstance(value, dict):
        raise PolicyError(f"{name} is not a table", hint=f"write [policy.{name}] on its own line")
    if "://" in repr(cast("object", value)):
        raise PolicyError(
            "the address of a web hook is a secret and does not belong in a file",
            hint="put it into the variable UNSTUCK_WEBHOOK, or name one with webhook_env",
        )
    try:
        return convert({**structs.asdict(base), **value}, type(base))
    except ValidationError as error:
        raise PolicyError(f"{name}: {error}", hint=f"there are {known}") from error
