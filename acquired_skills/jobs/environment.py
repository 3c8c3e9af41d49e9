"""What a skill needs besides its code, and whether it may have it: packages for its box, and a way out of it."""

import importlib.metadata
from collections.abc import Iterable

from sandbox.contract import Connection, Destination
from sandbox.egress.addresses import AddressKind

# What the gate, and calls that convert types, import in the box, where an environment hides the engine's own packages.
HARNESS_PACKAGES = ("pydantic", "pytest")
_MOST_SHOWN = 10
_PRIVATE = " What is not public is the operator's to open: `allow_private` of `[egress]` in config.toml."


def environment_of(dependencies: tuple[str, ...]) -> tuple[str, ...]:
    """The requirements of the environment that a skill is proved in, and then runs in; none for a skill without any.

    The same one for both: what was proved is what runs, nothing is built at the first call, and what a skill imports
    without declaring it does not vanish after the proof.
    """
    if not dependencies:
        return ()
    return (*dependencies, *(f"{name}=={importlib.metadata.version(name)}" for name in HARNESS_PACKAGES))


def not_allowed(destinations: Iterable[Destination], allowed: frozenset[Destination]) -> str:
    """What to change so that these may be connected to; "" when they may."""
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


def told(connections: Iterable[Connection]) -> str:
    """The attempts to connect that were refused, in one line, with what would allow them; "" without any."""
    refused = list(dict.fromkeys(f"{one.destination} ({one.reason})" for one in connections if not one.allowed))
    if not refused:
        return ""
    private = any(text.endswith(f"{kind})") for text in refused for kind in AddressKind)
    more = f" and {len(refused) - _MOST_SHOWN} more" if len(refused) > _MOST_SHOWN else ""
    return f"Connections that were refused: {', '.join(refused[:_MOST_SHOWN])}{more}.{_PRIVATE if private else ''}"
