"""Join what the ranks have with what command line and script say of where it comes from."""

from msgspec.structs import replace

from unstuck.model.timeouts import JobSettings, Knob, Layer, Origin

_FROM_SCRIPT = (Layer.OPERATION, Layer.SECTION)


def merge(live: JobSettings, static: JobSettings) -> JobSettings:
    """Take what is in effect from the ranks, and from the other what no rank can know.

    Example:
        merge(live.read(snapshot), command.read(argv, env, now))
    """
    located = {knob.name: knob for knob in static.knobs if knob.where}
    located |= _only_maker(live, static)
    knobs = [_located(knob, located.get(knob.name)) for knob in live.knobs]
    has_limit = any(knob.layer is Layer.SCHEDULER for knob in live.knobs)
    outside = (Layer.LAUNCHER,) if has_limit else (Layer.LAUNCHER, Layer.SCHEDULER)
    knobs += [knob for knob in static.knobs if knob.layer in (*_FROM_SCRIPT, *outside)]
    return replace(
        live,
        knobs=tuple(knobs),
        several_nodes=live.several_nodes or static.several_nodes,
        read_by_script=static.read_by_script,
        notes=(*live.notes, *static.notes),
    )


def _only_maker(live: JobSettings, static: JobSettings) -> dict[str, Knob]:
    """Where one call only can have made a group without a timeout, it did."""
    calls = [k for k in static.knobs if k.layer is Layer.GROUP and " at " in k.name]
    silent = [call for call in calls if call.origin is Origin.DEFAULT]
    found: dict[str, Knob] = {}
    for knob in live.knobs:
        if knob.layer is Layer.GROUP and knob.origin is Origin.DEFAULT:
            of_mesh = knob.name.startswith("mesh_")
            makers = [c for c in silent if c.name.startswith("init_device_mesh") == of_mesh]
            if len(makers) == 1 and (of_mesh or knob.name.startswith("group ")):
                found[knob.name] = makers[0]
    return found


def _located(knob: Knob, source: Knob | None) -> Knob:
    if source is None or knob.where:
        return knob
    if source.seconds is not None and knob.seconds is not None and source.seconds != knob.seconds:
        return knob
    set_by_script = source.origin is Origin.SCRIPT
    return replace(knob, where=source.where, origin=Origin.SCRIPT if set_by_script else knob.origin)
