"""The environment and the connections of a skill's box: what it gets, and what is refused."""

import importlib.metadata
from collections.abc import Iterable

from sandbox.contract import Connection, Destination
from sandbox.egress.addresses import AddressKind

# Imported in the box by admission and by calls that convert types. An environment hides the engine's own packages.
HARNESS_PACKAGES = ("pydantic", "pytest")
_MOST_SHOWN = 10
_PRIVATE = " Only the operator can open private addresses: `allow_private` of `[egress]` in config.toml."


def environment_of(dependencies: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requirements of the environment that a skill is proved and run in; none without dependencies.

    Proof and calls share one environment: what was proved is what runs, the first call builds nothing, and a module
    that the skill imports without declaring it does not disappear after the proof.
    """
    if not dependencies:
        return ()
    return (*dependencies, *(f"{name}=={importlib.metadata.version(name)}" for name in HARNESS_PACKAGES))


def not_allowed(destinations: Iterable[Destination], allowed: frozenset[Destination]) -> str:
    """Return why these destinations may not be used, and what to change; "" if they may."""
    missing = [destination for destination in destinations if destination not in allowed]
    if not missing:
        return ""
    entries = ", ".join(f'"{each}"' for each in sorted(map(str, {*allowed, *missing})))
    known = sorted(map(str, allowed))
    those = ", ".join(known[:_MOST_SHOWN]) if known else "none"
    return (
        f"It connects to {', '.join(map(str, missing))}, which the operator of this engine has not allowed (allowed: "
        f"{those}). The operator can: in config.toml, `[egress]` with `allow = [{entries}]`, or KNACKBOX_EGRESS_ALLOW. "
        "Otherwise do without."
    )


def refused_connections(connections: Iterable[Connection]) -> str:
    """Describe refused connection attempts in one line, and how to allow them; "" without any."""
    refused = list(dict.fromkeys(f"{one.destination} ({one.reason})" for one in connections if not one.allowed))
    if not refused:
        return ""
    private = any(text.endswith(f"{kind})") for text in refused for kind in AddressKind)
    more = f" and {len(refused) - _MOST_SHOWN} more" if len(refused) > _MOST_SHOWN else ""
    return f"Connections that were refused: {', '.join(refused[:_MOST_SHOWN])}{more}.{_PRIVATE if private else ''}"
