"""Which collectives torch's flight recorder keeps: that depends on its version and settings."""

import re
from collections.abc import Collection, Mapping

_GLOO_SINCE = (2, 11)
"""The first torch whose recorder has gloo's collectives; earlier ones have NCCL's alone."""
_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


def has_gloo(version: str, env: Mapping[str, str]) -> bool:
    """Tell whether this torch records the collectives of gloo.

    Example:
        >>> has_gloo("2.9.1+cu128", {}), has_gloo("2.13.0+cpu", {})
        (False, True)
    """
    return _is_since(version, _GLOO_SINCE) and not _switched_off(env)


def why_missing(version: str, backends: Collection[str], env: Mapping[str, str]) -> str:
    """Say why collectives that were issued are not in the recorder.

    Example:
        >>> why_missing("2.9.1", {"mpi"}, {})
        'torch 2.9.1 does not record mpi collectives: a hang in one would go unnoticed'
    """
    names = " and ".join(sorted(backends)) or "these"
    why = f"torch {version} does not record {names} collectives"
    if name := _switched_off(env):
        why += f" because {name} is 0"
    elif "nccl" in names and not any(name in env for name in _SIZES):
        why += f" (setting {_SIZES[1]}=2000 may change that)"
    return f"{why}: a hang in one would go unnoticed"


def _switched_off(env: Mapping[str, str]) -> str:
    """Name the variable that switches the recorder off; the first that is set decides."""
    name = next((name for name in _SIZES if name in env), "")
    return name if name and env[name].strip() == "0" else ""


def _is_since(version: str, since: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    # A version that cannot be read is one that was built today.
    return found is None or (int(found[1]), int(found[2])) >= since
