"""The environment of a skill's box, its preloaded modules, and its connections."""

import importlib.metadata

import pytest

from acquired_skills.jobs.environment import environment_of, not_allowed, preload_for, refused_connections
from sandbox.contract import Connection, Destination


@pytest.mark.spec("BOX-11")
def test_only_a_skill_with_dependencies_has_its_own_environment() -> None:
    assert environment_of(()) == ()
    pytest_here = f"pytest=={importlib.metadata.version('pytest')}"
    pydantic_here = f"pydantic=={importlib.metadata.version('pydantic')}"
    assert environment_of(("six>=1",)) == ("six>=1", pydantic_here, pytest_here)


@pytest.mark.spec("SKILL-1")
def test_packages_of_an_environment_are_not_imported_outside_a_box() -> None:
    assert preload_for(["numpy"], ("numpy",), ("pydantic",)) == ()
    assert preload_for(["json"], (), ("pydantic",)) == ("pydantic",)


def test_allowed_destinations_give_no_message() -> None:
    here = Destination("a.example", 443)
    assert not_allowed([], frozenset()) == ""
    assert not_allowed([here], frozenset({here})) == ""


def test_refused_connections_are_listed_once_and_private_ones_with_the_setting() -> None:
    fine = Connection("a.example:443", allowed=True, reason="closed")
    unlisted = Connection("b.example:443", allowed=False, reason="not listed")
    private = Connection("c.example:443", allowed=False, reason="c.example is at 10.0.0.1, and it is a private address")
    assert refused_connections([fine]) == ""
    assert (
        refused_connections([fine, unlisted, unlisted]) == "Connections that were refused: b.example:443 (not listed)."
    )
    assert refused_connections([private]).endswith("`allow_private` under `[egress]` in config.toml.")
    many = [Connection(f"d{i}.example:1", allowed=False, reason="not listed") for i in range(50)]
    assert "and 40 more" in refused_connections(many)
