"""A tool source whose tools change, stored in a file of the home and announced in the event log, like skills."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.contract.context import CallContext
from engine.contract.source import Tool
from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn
from engine.registry.updates import Happening, RegistryUpdates
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records


class Learned:
    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, f"The learned tool {name}.", origin=Origin.ACQUIRED)

    async def run(self, ctx: CallContext, arguments: object) -> str:
        return f"{self.spec.name} ran"


class Teach:
    """A tool that learns a tool by name, with the same write and the same event as any other process."""

    def __init__(self, home: str) -> None:
        self._home = home
        self.spec = replace(
            ToolSpec("teach", "Learn a tool."),
            parameters={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        )

    async def run(self, ctx: CallContext, arguments: dict[str, str]) -> str:
        learn(self._home, arguments["name"])
        return "learned"


class LearningSource:
    name = "learning"

    def __init__(self, home: str) -> None:
        self._home = home

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        return [Teach(self._home), *(Learned(name) for name in names(self._home))]

    async def find(self, name: str) -> Tool | None:
        return next((tool for tool in await self.tools(Turn()) if tool.spec.name == name), None)


def names(home: str) -> list[str]:
    file = Path(home) / "learned.txt"
    return sorted(file.read_text().split()) if file.exists() else []


def learn(home: str, name: str) -> None:
    change(home, sorted({*names(home), name}), "upsert", name)


def forget(home: str, name: str) -> None:
    change(home, sorted({*names(home)} - {name}), "delete", name)


def change(home: str, kept: list[str], event: Happening, name: str) -> None:
    (Path(home) / "learned.txt").write_text(" ".join(kept))
    records, lasting = Records.open(f"sqlite:///{home}/records.db"), Records.open(f"sqlite:///{home}/events.db")
    try:
        RegistryUpdates(EventLog(lasting, SystemClock()), lasting, records, SystemClock()).publish("tools", event, name)
    finally:
        records.close()
        lasting.close()
