"""Knackbox's engine. ``from engine import Engine`` loads it when asked; importing a room never loads the house."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.app.engine import Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from engine.app.engine import Engine  # noqa: PLC0415 -- importing a room must not load the house

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
