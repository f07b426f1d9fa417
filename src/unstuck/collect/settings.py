"""The timeouts that the ranks of a run have, kept in its directory for `unstuck timeouts`."""

import contextlib
from pathlib import Path

import msgspec

from unstuck.errors import SettingsError
from unstuck.model.knob import SETTINGS_SCHEMA, JobSettings, SettingsFile

NAME = "timeouts.json"


def write(run: Path, settings: JobSettings) -> None:
    """Write them down, whole or not at all.

    A run directory that is full or gone is no reason to stop judging.
    """
    temporary = run / f".{NAME}.new"
    with contextlib.suppress(OSError):
        content = msgspec.json.encode(SettingsFile(settings))
        temporary.write_bytes(msgspec.json.format(content, indent=2) + b"\n")
        temporary.replace(run / NAME)


def read(run: Path) -> JobSettings | None:
    """Read them back; None where no rank has told any.

    Raises:
        SettingsError: the file is damaged, or of another version.
    """
    path = run / NAME
    try:
        found = msgspec.json.decode(path.read_bytes(), type=SettingsFile)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(f"{path} cannot be read: {error}", hint=f"ls -l {path}") from error
    if found.schema != SETTINGS_SCHEMA:
        raise SettingsError(f"{path} follows {found.schema}; this unstuck knows {SETTINGS_SCHEMA}")
    return found.settings
