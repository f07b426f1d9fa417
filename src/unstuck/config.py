"""The file `unstuck.toml`: settings of a project that would be too long for a command line."""

import tomllib
from pathlib import Path
from typing import Any, cast

from unstuck.errors import ConfigError
from unstuck.files import whole_file

NAME = "unstuck.toml"


def find(asked: Path | None = None, folder: Path | None = None) -> Path | None:
    """Return the file to read: the one asked for, else `unstuck.toml` in this folder, if any."""
    path = asked or (folder or Path.cwd()) / NAME
    return path if asked or path.is_file() else None


_MOST_BYTES = 16 << 20


def table(path: Path | None, name: str) -> dict[str, Any]:
    """Return one table of the file; empty if there is no file or no such table.

    Raises:
        ConfigError: the file cannot be read, or `name` is not a table in it.

    Example:
        table(find(), "policy")
    """
    if path is None:
        return {}
    found = _read(path).get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {name} is not a table", hint=f"write [{name}] on its own line")
    return cast("dict[str, Any]", found)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(whole_file(path, _MOST_BYTES).decode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read {path}: {reason}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
