"""Decides on the environment of a skill's box: its packages, its preloaded modules, and its connections."""

import functools
import importlib.metadata
import re
from collections.abc import Iterable
from importlib.util import find_spec

from sandbox.contract import Connection, Destination
from sandbox.egress.addresses import AddressKind

# The packages that admission, and calls that convert types, import in the box. They are added to every environment,
# because an environment hides the engine's own packages.
HARNESS_PACKAGES = ("pydantic", "pytest")
# Modules that are slow to import, common in skills, and safe to share between boxes. Only the first match is preloaded:
# pandas imports numpy anyway, and fewer sets of modules mean fewer templates.
PRELOADABLE = ("pandas", "numpy")
_MOST_SHOWN = 10
_PRIVATE = " Only the operator can allow private addresses, with `allow_private` under `[egress]` in config.toml."


def environment_of(dependencies: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requirements of the environment in which a skill is proved and run; empty if it needs no packages.

    Admission and calls share one environment. So calls run exactly what was proved, the first call does not have to
    build an environment, and a module that the skill imports but does not declare is still there after admission.
    """
    if not dependencies:
        return ()
    return (*dependencies, *(f"{name}=={importlib.metadata.version(name)}" for name in HARNESS_PACKAGES))


def preload_for(
    imports: Iterable[str], environment: tuple[str, ...] = (), always: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the installed modules to preload for code with these top-level imports.

    Args:
        environment: Requirements of the code's own environment. If there are any, nothing is preloaded: a template
            imports modules outside the boxes, and the author of the requirements may have chosen packages that run code
            when they are imported.
        always: Modules to preload even if the code does not import them.
    """
    if environment:
        return ()
    wanted = frozenset(imports)
    return (*always, *next(((name,) for name in PRELOADABLE if name in wanted and _installed(name)), ()))


def imports_of(code: str) -> tuple[str, ...]:
    """Return the top-level modules that a Python program seems to import.

    A guess is enough: the result only selects a template that has these modules loaded.
    """
    return tuple(re.findall(r"^[ \t]*(?:import|from)[ \t]+(\w+)", code, re.MULTILINE))


@functools.cache
def _installed(module: str) -> bool:
    return find_spec(module) is not None


def not_allowed(destinations: Iterable[Destination], allowed: frozenset[Destination]) -> str:
    """Return why these destinations may not be used and what to change, or "" if they may be used."""
    missing = [destination for destination in destinations if destination not in allowed]
    if not missing:
        return ""
    entries = ", ".join(f'"{each}"' for each in sorted(map(str, {*allowed, *missing})))
    known = sorted(map(str, allowed))
    those = ", ".join(known[:_MOST_SHOWN]) if known else "none"
    return (
        f"The code connects to {', '.join(map(str, missing))}, which the operator of this engine has not allowed "
        f"(allowed: {those}). Write the code without these connections, or ask the operator to set "
        f"`allow = [{entries}]` in `[egress]` of config.toml, or KNACKBOX_EGRESS_ALLOW."
    )


def refused_connections(connections: Iterable[Connection]) -> str:
    """Describe refused connection attempts in one line, with a hint on how to allow them; "" if there were none."""
    refused = list(dict.fromkeys(f"{one.destination} ({one.reason})" for one in connections if not one.allowed))
    if not refused:
        return ""
    private = any(text.endswith(f"{kind})") for text in refused for kind in AddressKind)
    more = f" and {len(refused) - _MOST_SHOWN} more" if len(refused) > _MOST_SHOWN else ""
    return f"Connections that were refused: {', '.join(refused[:_MOST_SHOWN])}{more}.{_PRIVATE if private else ''}"
