"""Knackbox's engine.

``from engine import Engine`` imports the whole engine; importing one of its packages does not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.app.engine import Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from engine.app.engine import Engine  # noqa: PLC0415 -- importing a package must not import all of the engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
