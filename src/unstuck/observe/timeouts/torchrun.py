"""The timeouts of torchrun: its rendezvous, its look at the workers, its end."""

from collections.abc import Mapping, Sequence

from unstuck.model.timeouts import Knob, KnobNote, Layer, NoteKind, Origin
from unstuck.observe.timeouts.launch_options import option, split, torchrun_arguments

_DYNAMIC = {
    "join_timeout": (600, "until enough nodes have joined"),
    "last_call_timeout": (30, "for more nodes once the minimum has joined"),
    "close_timeout": (30, "to close the rendezvous"),
    "heartbeat_timeout": (5, "for one keep-alive to be written"),
    "keep_alive_interval": (5, "between two keep-alives of a node"),
    "read_timeout": (60, "for one call of the launcher's store"),
}
"""What the c10d and etcd-v2 rendezvous read, with torch's defaults."""
_STATIC = {"timeout": (900, "until all nodes have joined")}
"""The static one. torchrun always hands it 900, whatever its own default is."""
_NO_DURATIONS = frozenset(
    {"keep_alive_max_attempt", "is_host", "store_type", "rank", "protocol", "ssl_cert",
     "ssl_cert_key", "ca_cert", "use_libuv"}
)  # fmt: skip
_SOURCE = "torch/distributed/elastic/rendezvous, 2.13"


def read(
    argv: Sequence[str], env: Mapping[str, str]
) -> tuple[tuple[Knob, ...], tuple[KnobNote, ...]]:
    """Return torchrun's timeouts and what of them does nothing; nothing for other launchers."""
    arguments = torchrun_arguments(argv)
    if arguments is None:
        return (), ()
    options, _ = split(arguments)
    nodes = option(options, env, "--nnodes") or "1"
    fewest, _, most = nodes.partition(":")
    alone = "--standalone" in options or (most or fewest) == "1"
    rendezvous = _rendezvous(options, env, alone=alone)
    given = _pairs(option(options, env, "--rdzv-conf") or "")
    knobs = [*_rendezvous_knobs(rendezvous, given, alone=alone), *_own(options, env, alone=alone)]
    notes = [*_unread(rendezvous, given), *_useless(given, elastic=bool(most) and most != fewest)]
    return tuple(knobs), tuple(notes)


def _rendezvous(options: Mapping[str, str], env: Mapping[str, str], *, alone: bool) -> str:
    """Follow torchrun: one node without an address of its own gets c10d, not static."""
    if "--standalone" in options:
        return "c10d"
    chosen = option(options, env, "--rdzv-backend") or "static"
    placed = option(options, env, "--rdzv-endpoint") or option(options, env, "--master-port")
    return "c10d" if chosen == "static" and alone and not placed else chosen


def _pairs(conf: str) -> dict[str, str]:
    found = (part.partition("=") for part in conf.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in found}


def _known(rendezvous: str) -> Mapping[str, tuple[int, str]]:
    return _STATIC if rendezvous == "static" else _DYNAMIC


def _rendezvous_knobs(rendezvous: str, given: Mapping[str, str], *, alone: bool) -> list[Knob]:
    """All of them in a job of several nodes; of one node only those that were given."""
    found: list[Knob] = []
    for name, (default, about) in _known(rendezvous).items():
        value = given.get(name)
        if value is None and alone:
            continue
        seconds = float(value) if value and value.isdecimal() else float(default)
        origin = Origin.DEFAULT if value is None else Origin.COMMAND
        where = "" if value is None else "torchrun --rdzv-conf"
        found.append(
            Knob(f"{rendezvous} {name}", Layer.LAUNCHER, seconds, "", origin, where, about)
        )
    return found


def _own(options: Mapping[str, str], env: Mapping[str, str], *, alone: bool) -> list[Knob]:
    found: list[Knob] = []
    if interval := option(options, env, "--monitor-interval"):
        about = "between two looks at the workers"
        found.append(_given("monitor interval", interval, "torchrun --monitor-interval", about))
    shutdown = option(options, env, "--shutdown-timeout")
    about = "from torchrun's own SIGTERM to SIGKILL for its workers"
    if shutdown:
        found.append(_given("shutdown timeout", shutdown, "torchrun --shutdown-timeout", about))
    elif variable := env.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"):
        where = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
        found.append(_given("shutdown timeout", variable, where, about, Origin.ENVIRONMENT))
    if not alone:
        found.append(
            Knob("exit barrier", Layer.LAUNCHER, 300.0, about="for the other nodes at the end")
        )
    return found


def _given(name: str, value: str, where: str, about: str, origin: Origin = Origin.COMMAND) -> Knob:
    try:
        seconds = float(value)
    except ValueError:
        return Knob(name, Layer.LAUNCHER, None, value, origin, where, about)
    return Knob(name, Layer.LAUNCHER, seconds, "", origin, where, about)


def _unread(rendezvous: str, given: Mapping[str, str]) -> list[KnobNote]:
    """Keys that the chosen rendezvous never looks at: torchrun accepts any key."""
    if rendezvous not in ("static", "c10d"):
        return []
    known = {*_known(rendezvous), *_NO_DURATIONS}
    meant = "timeout" if rendezvous == "static" else "join_timeout"
    return [
        KnobNote(
            NoteKind.IDLE,
            (f"--rdzv-conf {name}={value}",),
            f"the {rendezvous} rendezvous does not read {name}; "
            f"how long it waits for nodes is {meant}",
            _SOURCE,
        )
        for name, value in given.items()
        if name not in known
    ]


def _useless(given: Mapping[str, str], *, elastic: bool) -> list[KnobNote]:
    value = given.get("last_call_timeout")
    if value is None or elastic:
        return []
    text = (
        "a last call is made only when --nnodes is a range such as 2:4; "
        "with a fixed number the start does not wait for it"
    )
    return [KnobNote(NoteKind.IDLE, (f"--rdzv-conf last_call_timeout={value}",), text, _SOURCE)]
