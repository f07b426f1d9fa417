"""The timeouts that the ranks of a run have, kept in its directory for `unstuck timeouts`."""

import contextlib
from pathlib import Path

import msgspec

from unstuck.errors import SettingsError
from unstuck.files import write_whole
from unstuck.model.timeouts import SETTINGS_SCHEMA, JobSettings, SettingsFile

NAME = "timeouts.json"


def write(run: Path, settings: JobSettings) -> None:
    """Write them; a run directory that is full or gone is no reason to stop judging."""
    content = msgspec.json.format(msgspec.json.encode(SettingsFile(settings)), indent=2)
    with contextlib.suppress(OSError):
        write_whole(run / NAME, content + b"\n")


def read(run: Path) -> JobSettings | None:
    """Read them back; None where no rank has reported any.

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
