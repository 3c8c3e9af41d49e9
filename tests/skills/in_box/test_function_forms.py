"""Generators and coroutine functions as skills. The functions here are ours, so nothing needs a box."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from acquired_skills.in_box.function_forms import (
    LISTED,
    MOST_ITEMS,
    EagerFunction,
    TooManyItems,
    form_of,
    run_coroutine_test,
    with_form,
)
from acquired_skills.in_box.skill_arguments import describe

pytestmark = pytest.mark.spec("SKILL-3", "SKILL-12")


def doubled(values: list[int]) -> Iterator[int]:
    """Double."""
    for value in values:
        if value < 0:
            raise ValueError(value)
        yield 2 * value


async def total(values: list[int]) -> int:
    """Add."""
    await asyncio.sleep(0)
    return sum(values)


async def each(values: list[int]) -> AsyncIterator[int]:
    """Give."""
    for value in values:
        yield value


def mapped(values: list[int]) -> Any:
    """Negate."""
    return map(int.__neg__, values)


FORMS: list[tuple[Callable[..., Any], str, Any]] = [
    (doubled, "generator", [2, 4]),
    (total, "coroutine", 3),
    (each, "async_generator", [1, 2]),
    (mapped, "function", [-1, -2]),
    (sum, "function", 3),
]


@pytest.mark.parametrize(("function", "form", "value"), FORMS)
def test_a_call_gives_a_plain_value(function: Callable[..., Any], form: str, value: Any) -> None:
    assert form_of(function) == form
    eager = EagerFunction(function)
    assert eager([1, 2]) == value
    assert eager.listed == (function in (doubled, mapped))


@pytest.mark.parametrize(("function", "form", "value"), FORMS)
def test_a_call_gives_a_plain_value_inside_an_event_loop(function: Callable[..., Any], form: str, value: Any) -> None:
    async def call() -> Any:
        return EagerFunction(function)([1, 2])

    assert asyncio.run(call()) == value
    assert form


def test_an_infinite_iterator_is_an_error_that_says_what_to_do() -> None:
    def endless() -> Iterator[int]:
        yield from count()

    async def endless_too() -> AsyncIterator[int]:
        for number in count():
            yield number

    for function in (endless, endless_too, count):
        with pytest.raises(TooManyItems, match=r"more than 10,000 items.*Add a parameter such as `limit`"):
            EagerFunction(function)()
    assert EagerFunction(lambda: iter(range(MOST_ITEMS)))() == list(range(MOST_ITEMS))


def test_a_file_is_not_listed() -> None:
    with open(__file__) as file:
        assert EagerFunction(lambda: file)() is file


def test_tests_call_the_function_in_the_form_in_which_it_was_written() -> None:
    def answer(values: list[int]) -> list[int]:
        return values

    generator = with_form(answer, "generator")([1, 2])
    assert inspect.isgenerator(generator)
    assert next(generator) == 1
    assert next(with_form(answer, "iterator")([1])) == 1
    assert asyncio.run(with_form(answer, "coroutine")([1])) == [1]

    async def collected() -> list[int]:
        return [one async for one in with_form(answer, "async_generator")([1, 2])]

    assert asyncio.run(collected()) == [1, 2]
    assert with_form(answer, "function")([1]) == [1]


def test_a_generator_runs_nothing_before_its_first_item() -> None:
    lazy = with_form(EagerFunction(doubled), "generator")([-1])
    with pytest.raises(ValueError, match="-1"):
        next(lazy)


def test_a_coroutine_test_is_awaited() -> None:
    async def fails(number: int) -> None:
        await asyncio.sleep(0)
        raise AssertionError(number)

    with pytest.raises(AssertionError, match="3"):
        run_coroutine_test(fails, {"number": 3})
    assert not run_coroutine_test(lambda: None, {})


def test_the_schema_of_the_value_is_that_of_the_list() -> None:
    assert describe(doubled)["returns"] == {"type": "array", "items": {"type": "integer"}, "description": LISTED}
    assert describe(each)["returns"]["description"] == LISTED
    assert describe(total)["returns"] == {"type": "integer"}
    assert not any(describe(function)["plain"] for function in (doubled, each, total))
