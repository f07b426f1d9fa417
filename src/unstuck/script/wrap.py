"""Sections around functions and iterators: the decorator, and `unstuck.watched`."""

import functools
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from datetime import timedelta
from typing import Any, Generic, TypeVar

from unstuck.script.section import OnTimeout, Section, section

T = TypeVar("T")


class Watched(Generic[T]):
    """An iterable whose every next item has a time limit; made by `watched`."""

    def __init__(self, inner: Iterable[T], one: Section) -> None:
        self._inner = inner
        self._section = one

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type] - its own error if it has none

    def __iter__(self) -> Iterator[T]:
        iterator = iter(self._inner)
        while True:
            with self._section.again():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    async def __aiter__(self) -> AsyncIterator[T]:
        iterator = aiter(self._inner)  # type: ignore[arg-type] - its own error if it is none
        while True:
            with self._section.again():
                try:
                    item = await anext(iterator)
                except StopAsyncIteration:
                    return
            yield item


def watched(
    iterable: Iterable[T],
    timeout: float | timedelta | None = None,
    *,
    name: str | None = None,
    on_timeout: OnTimeout | None = None,
) -> Watched[T]:
    """Give every next item of a loader a time limit; what the loop does with it has none.

    May be iterated again and again, as a DataLoader; has its length; `async for` as well.

    Example:
        >>> import unstuck
        >>> [batch for batch in unstuck.watched([1, 2], timeout=30)]
        [1, 2]
    """
    found: Any = iterable
    if not isinstance(found, (Iterable, AsyncIterable)):
        raise TypeError(f"iterable must be something to iterate over, not {iterable!r}")
    return Watched(iterable, section(name or _name_of(iterable), timeout, on_timeout))


def _name_of(iterable: object) -> str:
    return f"next of {type(iterable).__name__}"


def decorate(one: Section, function: Any) -> Any:
    """Wrap a function, coroutine function or generator function into sections like this one."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def produce(*args: Any, **kwargs: Any) -> Any:
            inner = function(*args, **kwargs)
            try:
                async for item in Watched(inner, one):
                    yield item
            finally:
                await inner.aclose()

        return produce
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Any:
            return (yield from _steps(function(*args, **kwargs), one))

        return generate
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            with one.again():
                return await function(*args, **kwargs)

        return run
    if not callable(function):
        raise TypeError(f"section {one.name!r} can decorate a function, not {function!r}")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with one.again():
            return function(*args, **kwargs)

    return call


def _steps(inner: Generator[Any, Any, Any], one: Section) -> Generator[Any, Any, Any]:
    """Run a generator step by step, each in a section, with all that is sent or thrown into it."""
    resume: Callable[[], Any] = functools.partial(next, inner)
    while True:
        with one.again():
            try:
                item = resume()
            except StopIteration as end:
                return end.value
        try:
            sent = yield item
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:  # handed on to the generator, as `yield from` does
            resume = functools.partial(inner.throw, error)
        else:
            resume = functools.partial(inner.send, sent)
