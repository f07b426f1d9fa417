"""The token of a job: from a file, from the environment, made up, or derived.

Whoever has the token may speak as an agent or as the hub. Only a token that nobody else can know,
a *secret*, lets the hub act on the job.

- A file (`--token-file`, UNSTUCK_TOKEN_FILE) that only its owner may read: on a file system that
  all nodes share, or a mounted Kubernetes secret. The first node that comes makes it.
- UNSTUCK_TOKEN, which the launcher hands to every node.
- One node: a random one.
- Several nodes with nothing of this: derived from what their launch commands share (rendezvous
  endpoint and id, Slurm job, user). That keeps jobs apart and lets everybody watch, but others on
  the machine can derive it too: such a job is watched, and nothing is done to it.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from unstuck.errors import UserError
from unstuck.launch.command import LaunchCommand

HOW_TO_SHARE = (
    "give every node the same --token-file on a file system that they share (it is made if it is"
    " missing), or the same UNSTUCK_TOKEN"
)
_SHORTEST = 16
_MOST_BYTES = 4096


class Token(NamedTuple):
    """What the nodes of a job prove to each other that they have."""

    text: str
    is_secret: bool
    """Nobody else can know it."""


def find_token(command: LaunchCommand, env: Mapping[str, str], file: Path | None = None) -> Token:
    """Return the token of a job.

    Raises:
        UserError: the file cannot be used, or others may read it.
    """
    named = env.get("UNSTUCK_TOKEN_FILE")
    if file is None and named:
        file = Path(named)
    if file is not None:
        return Token(_from_file(file), is_secret=True)
    if text := env.get("UNSTUCK_TOKEN"):
        return Token(text, is_secret=True)
    if not command.several_nodes:
        return Token(secrets.token_hex(16), is_secret=True)
    return Token(_derived(command), is_secret=False)


def _derived(command: LaunchCommand) -> str:
    return sha256(f"unstuck|{command.job}|{os.getuid()}".encode()).hexdigest()


def _from_file(path: Path) -> str:
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
        _make(path)
        return _read(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"the token file {path} cannot be used: {(reason or str(error)).lower()}",
            hint=f"ls -ld {path} {path.parent}",
        ) from error


def _read(path: Path) -> str:
    # Without waiting for somebody to write, should it be a pipe.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - a descriptor
        about = os.fstat(file.fileno())
        # A mounted secret belongs to root, and to the group that its pod runs as.
        ours = about.st_uid == os.geteuid()
        shared = about.st_mode & (0o077 if ours else 0o007)
        if not stat.S_ISREG(about.st_mode) or about.st_uid not in (0, os.geteuid()) or shared:
            raise UserError(
                f"the token file {path} may be read or changed by others",
                hint=f"chmod 600 {path}, and it must be a file of your own",
            )
        text = file.read(_MOST_BYTES).decode().strip()
    if len(text) < _SHORTEST:
        raise UserError(
            f"the token in {path} is shorter than {_SHORTEST} characters",
            hint=f"delete {path}: a new one is made",
        )
    return text


def _make(path: Path) -> None:
    """Make the file, whole or not at all, unless another node is faster."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(secrets.token_hex(32).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
