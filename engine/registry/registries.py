"""`Registries`: the tools, prompts and agents of one home, registered by an operator (REG-5)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.contract.agent import AgentSpec
from engine.contract.context import Clock
from engine.contract.prompt import PromptSpec
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.registry.adapters import Adapters
from engine.registry.envelope import plain, read_agent, read_prompt, read_tool, write_tool
from engine.registry.file_registry import FileRegistry, Problem
from engine.registry.file_tools import FileTools
from engine.registry.snapshots import Snapshots
from engine.registry.static import RegistryError
from engine.registry.updates import RegistryUpdates, Subject

_log = logging.getLogger("knackbox.registry")

Find = Callable[[str], Awaitable[Tool | None]]


class Registries:
    """The three of them. Methods are for one event loop, and see what other processes registered."""

    def __init__(self, folder: Path, updates: RegistryUpdates, clock: Clock, adapters: Adapters, find: Find) -> None:
        """find: the tool of a name over all sources, so that none is registered whose name is taken."""
        self.folder = folder
        self._adapters = adapters
        self._find = find
        tools = FileRegistry("tools", folder, read_tool, updates, clock, claims=_names)
        self.prompts = FileRegistry("prompts", folder, read_prompt, updates, clock)
        self.agents = FileRegistry("agents", folder, read_agent, updates, clock, lost_are_disabled=True)
        self.tools = FileTools(tools, adapters, clock)
        self.snapshots = Snapshots(folder, self.files, clock)

    @property
    def files(self) -> dict[Subject, FileRegistry[Any]]:
        return {"tools": self.tools.registry, "prompts": self.prompts, "agents": self.agents}

    async def open(self) -> None:
        """Reconcile the files with what was told of them, and take the tools over. Raises StoreBusy, OSError."""
        for registry in self.files.values():
            await asyncio.to_thread(registry.reconcile)
        await self.tools.refresh()
        for problem in await self.problems():
            _log.warning("%s", problem)

    async def problems(self) -> list[Problem]:
        """What could not be loaded, and why."""
        views = [await asyncio.to_thread(registry.view) for registry in self.files.values()]
        return [problem for view in views for problem in view.problems]

    async def register_tool(self, tool: ToolSpec | Mapping[str, Any]) -> ToolSpec:
        """Register a tool for every process of the home, or replace the one of its id.

        tool: a spec with an `adapter_path`, or an envelope. Raises RegistryError when it does not fit, its adapter is
        not below an allowed module, or a name of it is taken.
        """
        spec = tool if isinstance(tool, ToolSpec) else read_tool(tool)
        envelope = write_tool(spec)
        self._adapters.check(spec.adapter_path)
        await self.tools.refresh()
        for called in _names(spec):
            other = await self._find(called)
            if other is not None and (other.spec.id != spec.id or not other.spec.adapter_path):
                raise RegistryError(
                    f"{spec.id} cannot be registered: the name {called!r} is claimed by {other.spec.name!r}. "
                    "Rename it or remove the alias."
                )
        registered = await asyncio.to_thread(self.tools.registry.put, spec.id, envelope)
        await self.tools.refresh()
        return registered

    async def register_prompt(self, prompt: PromptSpec | Mapping[str, Any]) -> PromptSpec:
        """Register a prompt, or replace the one of its id. Raises RegistryError."""
        spec = prompt if isinstance(prompt, PromptSpec) else read_prompt(prompt)
        return await asyncio.to_thread(self.prompts.put, spec.spec_id, plain(asdict(spec)))

    async def register_agent(self, agent: AgentSpec | Mapping[str, Any]) -> AgentSpec:
        """Register an agent, or replace the one of its id. Raises RegistryError."""
        spec = agent if isinstance(agent, AgentSpec) else read_agent(agent)
        return await asyncio.to_thread(self.agents.put, spec.spec_id, plain(asdict(spec)))

    async def prompt(self, spec_id: str) -> PromptSpec:
        """Raises RegistryError when there is none of this id, or it is disabled."""
        return await asyncio.to_thread(_enabled, self.prompts, spec_id)

    async def agent(self, spec_id: str) -> AgentSpec:
        """Raises RegistryError when there is none of this id, or it is disabled."""
        return await asyncio.to_thread(_enabled, self.agents, spec_id)

    async def health(self) -> dict[str, str]:
        """Every registered tool by id, resolved: "" where its adapter can be used, else why not."""
        await self.tools.refresh()
        specs = (await asyncio.to_thread(self.tools.registry.view)).items
        return {spec_id: await asyncio.to_thread(self._broken, spec) for spec_id, spec in specs.items()}

    async def reload_adapters(self) -> dict[str, str]:
        """Take over edited adapters, by module: "" where the new source is in use, else why the old one stays."""
        return await self._adapters.reload_edited()

    def _broken(self, spec: ToolSpec) -> str:
        try:
            self._adapters.resolve(spec)
        except RegistryError as error:
            return str(error)
        return ""


def _names(spec: ToolSpec) -> tuple[str, ...]:
    return (spec.name, *spec.aliases)


def _enabled(registry: FileRegistry[Any], spec_id: str) -> Any:
    view = registry.view()
    kind = registry.subject.removesuffix("s")
    if spec_id in view.disabled:
        raise RegistryError(f"The {kind} {spec_id} is disabled since {view.disabled[spec_id]}. Enable it first.")
    if spec_id not in view.items:
        why = next((problem.reason for problem in view.problems if problem.item_id == spec_id), "")
        known = ", ".join(list(view.items)[:20]) or "none"
        raise RegistryError(f"There is no {kind} {spec_id[:80]!r}{f' ({why})' if why else ''}. Known: {known}.")
    return view.items[spec_id]
