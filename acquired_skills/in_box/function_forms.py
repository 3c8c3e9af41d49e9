"""Supports generators and coroutine functions as skills (SKILL-12). Runs in the box.

`EagerFunction` turns the result of any function into a plain value: it awaits coroutines and lists the items of
iterators. `with_form` does the opposite for tests, which use the function in the form in which it was written.
"""

import collections.abc
import functools
import inspect
import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal, get_args, get_origin

Form = Literal["function", "iterator", "generator", "coroutine", "async_generator"]
MOST_ITEMS = 10_000
LISTED = f"The items of an iterator, at most {MOST_ITEMS:,}."
_ITERATING = (
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
)


class TooManyItems(Exception):
    """An iterator has more items than a call can return."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"`{name}` yields more than {MOST_ITEMS:,} items, but a call returns them all as a list. Add a parameter "
            "such as `limit`."
        )


def form_of(function: Callable[..., Any]) -> Form:
    """Return the form of a function, such as a generator, according to its definition alone.

    This does not detect the form `iterator`, because only a returned value shows it.
    """
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "async_generator"
    return "generator" if inspect.isgeneratorfunction(function) else "function"


class EagerFunction:
    """Wraps a function so that it returns plain values instead of coroutines and iterators.

    Attributes:
        listed: Whether the last value was the list of an iterator's items.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", "the skill")
        self.listed = False
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        self.listed = False
        value = self._function(*arguments, **named)
        if inspect.iscoroutine(value):
            value = _run(value)
        if inspect.isasyncgen(value):
            return _run(self._collected(value))
        if isinstance(value, collections.abc.Iterator) and not isinstance(value, io.IOBase):
            self.listed = True
            return list(self._bounded(value))
        return value

    def _bounded(self, items: Iterator[Any]) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == MOST_ITEMS:
                raise TooManyItems(self._name)
            yield item

    async def _collected(self, items: AsyncIterator[Any]) -> list[Any]:
        found: list[Any] = []
        async for item in items:
            if len(found) == MOST_ITEMS:
                raise TooManyItems(self._name)
            found.append(item)
        return found


def with_form(call: Callable[..., Any], form: Form) -> Callable[..., Any]:
    """Return a function of this form, such as a generator, with the results of `call`."""

    def function(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        value = call(*arguments, **named)
        return iter(value) if form == "iterator" and isinstance(value, list) else value

    def generator(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        yield from call(*arguments, **named)

    async def coroutine(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        return call(*arguments, **named)

    async def async_generator(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        for item in call(*arguments, **named):
            yield item

    forms: dict[Form, Callable[..., Any]] = {
        "generator": generator,
        "coroutine": coroutine,
        "async_generator": async_generator,
    }
    return forms.get(form, function)


def list_hint(hint: Any) -> Any:
    """Convert the type hint of an iterator to that of a list of its items. Return any other hint unchanged."""
    origin = get_origin(hint) or hint
    if any(origin is each for each in _ITERATING):
        return list[get_args(hint)[0]] if get_args(hint) else list  # type: ignore[misc]
    return hint


def run_coroutine_test(function: Callable[..., Any], arguments: dict[str, Any]) -> bool:
    """Run a test if it is a coroutine function. Return False for any other test."""
    if not inspect.iscoroutinefunction(function):
        return False
    _run(function(**arguments))
    return True


def _run(coroutine: Any) -> Any:
    """Run a coroutine to completion. Use another thread if this one already runs an event loop."""
    import asyncio  # noqa: PLC0415 -- takes 40 ms, and few skills need it

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 -- likewise

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
