"""Helpers for the tests of the registries."""

import json
from pathlib import Path
from typing import Any

from engine import Engine
from engine.app.settings import Settings
from engine.registry.updates import REGISTRY_UPDATED

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
HERE = "tests.registry.adapters_here"


def settings(*prefixes: str) -> Settings:
    return Settings.model_validate({"registry": {"adapter_prefixes": prefixes or ("tests.registry",)}})


def engine(home: Path, *prefixes: str, packs: bool = False, **more: Any) -> Any:
    """Open an engine on a home. Its adapters may be in the modules `prefixes`; by default in those of the tests."""
    return Engine.open(home, settings=settings(*prefixes), packs=packs, environ={}, **more)


def adder(spec_id: str = "add", **meta: Any) -> dict[str, Any]:
    return {"spec_id": spec_id, "adapter_path": f"{HERE}:add", "params_schema": NUMBERS, "meta": meta}


def on_disk(home: Path, subject: str = "tools") -> dict[str, Any]:
    return dict(json.loads((home / "registries" / f"{subject}.json").read_bytes()))


def published(opened: Engine, subject: str = "tools") -> list[tuple[str, str]]:
    """Return (event, item) of every published change of a subject."""
    events = opened.events.read(limit=100_000)
    return [
        (each.payload["event"], each.payload["item_id"])
        for each in events
        if each.type == REGISTRY_UPDATED and each.payload["subject"] == subject
    ]
