"""What a skill needs besides its code."""

import importlib.metadata

import pytest

from acquired_skills.jobs.environment import environment_of, not_allowed, preload_for, refused_connections
from sandbox.contract import Connection, Destination


@pytest.mark.spec("BOX-11")
def test_a_skill_is_proved_in_an_environment_of_its_own_only_when_it_depends_on_something() -> None:
    assert environment_of(()) == ()
    pytest_here = f"pytest=={importlib.metadata.version('pytest')}"
    pydantic_here = f"pydantic=={importlib.metadata.version('pydantic')}"
    assert environment_of(("six>=1",)) == ("six>=1", pydantic_here, pytest_here)


@pytest.mark.spec("SKILL-1")
def test_nothing_of_an_environment_is_imported_outside_of_a_box() -> None:
    assert preload_for(["numpy"], ("numpy",), ("pydantic",)) == ()
    assert preload_for(["json"], (), ("pydantic",)) == ("pydantic",)


def test_what_is_allowed_needs_no_words() -> None:
    here = Destination("a.example", 443)
    assert not_allowed([], frozenset()) == ""
    assert not_allowed([here], frozenset({here})) == ""


def test_refused_connections_are_told_once_each_and_private_ones_with_the_setting() -> None:
    fine = Connection("a.example:443", allowed=True, reason="closed")
    unlisted = Connection("b.example:443", allowed=False, reason="not listed")
    private = Connection("c.example:443", allowed=False, reason="c.example is at 10.0.0.1, and it is a private address")
    assert refused_connections([fine]) == ""
    assert (
        refused_connections([fine, unlisted, unlisted]) == "Connections that were refused: b.example:443 (not listed)."
    )
    assert refused_connections([private]).endswith("`allow_private` of `[egress]` in config.toml.")
    many = [Connection(f"d{i}.example:1", allowed=False, reason="not listed") for i in range(50)]
    assert "and 40 more" in refused_connections(many)
