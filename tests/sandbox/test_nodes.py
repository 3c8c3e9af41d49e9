"""The values in JSON text are counted before it is decoded, so that decoding cannot block the engine."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.contract import End, Job, SandboxError
from sandbox.forkserver.running import _decoded
from sandbox.namespace.backend import NamespaceSandbox
from sandbox.nodes import MAX_NODES, too_many_nodes

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\', max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=30,
)


def structure(value: Any) -> int:
    """Count each list, each object, and each of their elements after the first."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(map(structure, inner))


@given(VALUES)
def test_characters_inside_strings_do_not_count(value: Any) -> None:
    text, count = json.dumps(value).encode(), structure(value)
    assert not too_many_nodes(text, count)
    assert count == 0 or too_many_nodes(text, count - 1)


@pytest.mark.spec("CALL-14")
@pytest.mark.parametrize(
    "code", ["[[] for _ in range(1_040_000)]", "list(range(400_000))", "{str(n): {} for n in range(300_000)}"]
)
async def test_a_value_of_too_many_elements_is_refused_in_the_box(code: str) -> None:
    async with NamespaceSandbox() as box:
        outcome = await box.run(Job(code=code))
        assert outcome.end is End.ERROR
        assert outcome.error is not None
        assert f"more than {MAX_NODES:,} lists, objects and elements. Write it to a file" in outcome.error.message
        assert (await box.run(Job(code="','.join(map(str, range(300_000)))"))).ok  # a text is one value
        assert (await box.run(Job(code="list(range(99_000))"))).value == list(range(99_000))


@pytest.mark.spec("CALL-14")
def test_an_answer_with_too_many_values_is_never_decoded() -> None:
    with pytest.raises(SandboxError, match="too many JSON values"):
        _decoded(json.dumps({"value": [[] for _ in range(1_000_000)]}).encode())
    assert _decoded(b'{"value": [1, 2]}') == {"value": [1, 2]}
