"""Private copies of tensors: what torch then writes too late, it writes where nobody looks."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Find the tensors in an argument, also in lists and lists of lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_of(item)


def copy_of(value: Any) -> Any:
    """Copy the tensors of an argument; what is no tensor stays."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(copy_of(item) for item in value)
    return value


def private(
    arguments: dict[str, Any], outputs: Collection[str]
) -> tuple[dict[str, Any], Callable[[], None]]:
    """Return the arguments with copies in place of tensors, and what brings the results back."""
    copied = {name: copy_of(value) for name, value in arguments.items()}
    pairs = [
        pair
        for name in outputs
        for pair in zip(tensors_of(arguments.get(name)), tensors_of(copied.get(name)), strict=True)
    ]

    def deliver() -> None:
        with torch.no_grad():
            for original, copy in pairs:
                original.copy_(copy)

    return copied, deliver
