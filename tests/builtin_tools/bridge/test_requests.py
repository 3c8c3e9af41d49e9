"""Whatever a program sends over its bridge is a request, or is refused with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.bridge.recorded_programs import wants_tools
from builtin_tools.bridge.requests import BadRequest, CallRequest, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "do": st.sampled_from(["call", "search", "describe", "names", "read", "approve"]) | JSON,
        "id": JSON,
        "name": JSON,
        "arguments": JSON,
        "query": JSON,
        "limit": JSON,
        "handle": JSON,
        "offset": JSON,
        "characters": JSON,
        "clock": JSON,
    },
)


def parsed(payload: bytes) -> Any:
    try:
        return parse(payload)
    except BadRequest:
        return None


@pytest.mark.spec("CODE-2")
@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(payload: bytes) -> None:
    parsed(payload)


@pytest.mark.spec("CODE-2")
@given(FIELDS)
def test_any_fields_are_a_request_or_refused(fields: dict[str, Any]) -> None:
    found = parsed(json.dumps(fields).encode())
    if found is not None:
        number, request, readings = found
        assert number is None or 0 <= number < 1 << 53
        assert all(type(each) is float for each in readings)
        if isinstance(request, CallRequest):
            assert request.name == fields["name"]
            assert request.arguments == fields.get("arguments", {})


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from knackbox import tools", True),
        ("import knackbox as k", True),
        ("import json, knackbox", True),
        ("import { tools } from 'knackbox';", True),
        ("knackbox-call file_system action=list", True),
        ("open('/var/lib/knackbox-test/x')", False),
        ("print('knackbox is a tool')", False),
    ],
)
def test_a_program_gets_a_bridge_if_it_uses_the_client(source: str, wanted: bool) -> None:
    assert wants_tools(None, source) is wanted
    assert wants_tools(True, source)
    assert not wants_tools(False, source)
