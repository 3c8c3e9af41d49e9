"""Large results are converted in a thread, and omitted above a limit."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, model_serializer

from engine.dispatch.render import LARGE_NODES, MAX_NODES, TOO_LARGE, is_large
from engine.registry.decorate import tool
from tests.dispatch.pipeline_fixture import open_pipeline

pytestmark = pytest.mark.spec("CALL-14")


async def test_a_result_above_the_limit_is_omitted_and_reported(tmp_path: Path) -> None:
    @tool()
    async def huge() -> list[int]:
        """Return too much."""
        return [0] * (MAX_NODES + 1)

    async with open_pipeline(tmp_path, [huge]) as h:
        result = await h.call("huge")
        assert (result.success, result.output, result.message) == (True, None, TOO_LARGE)


@pytest.mark.parametrize(("items", "in_the_loop"), [(1, True), (LARGE_NODES + 1, False)])
async def test_a_large_result_is_converted_outside_the_event_loop(
    tmp_path: Path, items: int, *, in_the_loop: bool
) -> None:
    threads = set[int]()

    class Item(BaseModel):
        @model_serializer
        def plain(self) -> int:
            threads.add(threading.get_ident())
            return 1

    @tool()
    async def items_of() -> list[Item]:
        """Return items."""
        return [Item()] * items

    async with open_pipeline(tmp_path, [items_of]) as h:
        assert (await h.call("items_of")).output == [1] * items
    assert threads
    assert (threading.get_ident() in threads) is in_the_loop


@given(
    st.recursive(st.integers() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_the_size_of_a_result_counts_every_element_and_character(value: object) -> None:
    def nodes(each: object) -> int:
        if isinstance(each, dict):
            return len(each) + sum(map(nodes, each.values()))
        return len(each) + sum(map(nodes, each)) if isinstance(each, list) else 0

    if isinstance(value, str | int):
        return
    assert not is_large(value, nodes(value), 1 << 20)
    assert nodes(value) == 0 or is_large(value, nodes(value) - 1, 1 << 20)
    assert not is_large(1)
