"""Every manifest of a module or server is either rejected or gives tools that can be offered."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.remote.manifest import DESCRIPTION, MOST_TOOLS, read_manifest
from engine.remote.mcp_tools import read_listing
from engine.remote.module import LONGEST_TOOL_NAME, ManifestError, Offer, split_name
from engine.remote.text import clean

LEVELS = {"guest", "user", "admin", "owner"}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(["m.a", "m.b", "m.c.d", "other.a", "execute", "m.", ".a", "m.a b", "m.\n", ""]) | st.text(
    max_size=12
).map("m.{}".format)
parameters = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=8)},
        optional={
            "type": st.sampled_from(["string", "integer", "array", "strng", ""]) | scalars,
            "description": st.text(max_size=20) | scalars,
            "required": st.booleans() | scalars,
            "enum": st.lists(scalars, max_size=3) | scalars,
        },
    ),
    max_size=4,
)
tools = st.fixed_dictionaries(
    {"name": names},
    optional={
        "description": st.text(max_size=6000) | scalars,
        "parameters": parameters | values,
        "required_permission": st.sampled_from(sorted(LEVELS)) | values,
    },
)
manifests = st.fixed_dictionaries(
    {"module_name": st.sampled_from(["m", "other"]), "tools": st.lists(tools | values, max_size=5) | values},
    optional={"description": st.text() | scalars},
)


def offered(read: Callable[[], Offer]) -> Offer | None:
    """Return what was read; None if it was rejected with a one-line message."""
    try:
        return read()
    except ManifestError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert len(refusal) < 1000
    return None


def holds(offer: Offer) -> None:
    """Check the properties of every offer of the module `m`."""
    called = [spec.name for spec in offer.specs]
    assert len(set(called)) == len(called) <= MOST_TOOLS
    assert called == sorted(called)
    for spec in offer.specs:
        assert spec.name.startswith("m.")
        assert len(spec.name) <= LONGEST_TOOL_NAME
        assert split_name(spec.name)[0] == "m"
        assert 0 < len(spec.description) <= DESCRIPTION
        assert spec.description == clean(spec.description, DESCRIPTION)
        assert spec.parameters["type"] == "object"
        jsonschema_rs.validator_for(dict(spec.parameters)).is_valid({})
        json.dumps(spec.parameters)
        assert spec.required_permission in LEVELS
        assert spec.annotations == Annotations(destructive=True)


@pytest.mark.spec("MOD-1")
@given(manifests | values)
def test_any_manifest_is_either_rejected_or_gives_valid_tools(manifest: Any) -> None:
    offer = offered(lambda: read_manifest("m", manifest, timeout_s=30))
    if offer is None:
        return
    holds(offer)
    given_names = {tool["name"]: tool for tool in manifest["tools"]}
    assert {spec.name for spec in offer.specs} | set(offer.dropped) == set(given_names)
    for spec in offer.specs:
        said = given_names[spec.name].get("required_permission", "guest")
        assert spec.required_permission == (said if isinstance(said, str) and said in LEVELS else "owner")


@pytest.mark.spec("MOD-6")
@given(
    st.fixed_dictionaries(
        {
            "tools": st.lists(
                st.fixed_dictionaries(
                    {"name": st.text(max_size=10) | st.sampled_from(["a", "b", "c.d"]), "inputSchema": values},
                    optional={
                        "description": st.text() | scalars,
                        "annotations": st.dictionaries(
                            st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint"]), st.booleans()
                        ),
                    },
                ),
                max_size=4,
            )
        }
    )
    | values
)
def test_any_server_list_is_either_rejected_or_gives_tools_that_hints_cannot_make_harmless(listing: Any) -> None:
    offer = offered(lambda: read_listing("m", listing, timeout_s=30, permission="user", trusted=False))
    if offer is not None:
        holds(offer)
        assert all(spec.required_permission == "user" for spec in offer.specs)


@pytest.mark.spec("MOD-1")
@given(st.text(max_size=30))
def test_a_name_is_split_at_its_first_dot_or_rejected(name: str) -> None:
    module, _, tool = name.partition(".")
    if module and tool:
        assert split_name(name) == (module, tool)
        return
    with pytest.raises(ToolFailure) as refused:
        split_name(name)
    assert str(refused.value) == f"Invalid tool name format: {name}. Expected 'module.tool_name'."
