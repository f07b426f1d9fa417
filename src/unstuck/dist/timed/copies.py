"""Private copies of tensors: what torch writes too late then goes where nobody looks."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Find the tensors in an argument, including those in lists and lists of lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_of(item)


def private(
    arguments: dict[str, Any], outputs: Collection[str]
) -> tuple[dict[str, Any], Callable[[], None]]:
    """Return the arguments with all tensors copied, and what copies the results back."""
    copied = {name: _copy(value) for name, value in arguments.items()}
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


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(_copy(item) for item in value)
    return value
