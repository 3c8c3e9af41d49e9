"""`Registries`: the tools, prompts and agents of one home, registered by an operator (REG-5)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from engine.contract.agent import AgentSpec
from engine.contract.context import Clock
from engine.contract.prompt import PromptSpec
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.registry.adapters import Adapters
from engine.registry.daemon_thread import in_daemon_thread
from engine.registry.envelope import plain, read_agent, read_prompt, read_tool, write_tool
from engine.registry.file_registry import FileRegistry, LoadProblem
from engine.registry.file_tools import FileTools
from engine.registry.snapshots import Snapshots
from engine.registry.static import RegistryError, UnknownEntry
from engine.registry.updates import RegistryUpdates, Subject

_log = logging.getLogger("knackbox.registry")
_GLOB = frozenset("*?[")  # characters that make a name a pattern, as in `Allowed.of`

Find = Callable[[str], Awaitable[Tool | None]]


class Registries:
    """The registries of one home, including changes that other processes make. Use the object in one event loop."""

    def __init__(self, folder: Path, updates: RegistryUpdates, clock: Clock, adapters: Adapters, find: Find) -> None:
        """Create the registries.

        Args:
            folder: The folder with their files.
            updates: Publishes the changes.
            clock: The source of time.
            adapters: Resolves the code of registered tools.
            find: Function that finds a tool by name in all sources. It is used to refuse names that are taken.
        """
        self.folder = folder
        self._adapters = adapters
        self._find = find
        tools = FileRegistry("tools", folder, read_tool, updates, clock, claims=_claims)
        self.prompts = FileRegistry("prompts", folder, read_prompt, updates, clock)
        self.agents = FileRegistry("agents", folder, read_agent, updates, clock, lost_are_disabled=True)
        self.tools = FileTools(tools, adapters, clock)
        self.snapshots = Snapshots(folder, self.files, clock)

    @property
    def files(self) -> dict[Subject, FileRegistry[Any]]:
        return {"tools": self.tools.registry, "prompts": self.prompts, "agents": self.agents}

    async def open(self) -> None:
        """Reconcile the files with the published changes, and load the tools.

        Raises:
            StoreBusy: Another process kept a file locked for too long.
            OSError: A file cannot be read or written.
        """
        for registry in self.files.values():
            await asyncio.to_thread(registry.reconcile)
        await self.tools.refresh()
        left_out = [f"{each.file.name}: {each.item_id}" for each in await self.problems() if each.item_id]
        if left_out:
            _log.warning("%s: skipped. `knackbox registry list` shows why.", ", ".join(left_out)[:500])

    async def problems(self) -> list[LoadProblem]:
        """Return the entries and files that could not be loaded, and why."""
        views = [await asyncio.to_thread(registry.view) for registry in self.files.values()]
        return [problem for view in views for problem in view.problems]

    async def register_tool(self, tool: ToolSpec | Mapping[str, Any]) -> ToolSpec:
        """Register a tool for all processes of the home, or replace the one with its id.

        Args:
            tool: A spec with an `adapter_path`, or an envelope.

        Raises:
            RegistryError: The tool is invalid, its adapter is not in an allowed module, or a name is taken.
        """
        await self.tools.refresh()
        item_id, envelope = await self._envelope("tools", tool)
        registered = await asyncio.to_thread(self.tools.registry.put, item_id, envelope)
        await self.tools.refresh()
        return registered

    async def register_prompt(self, prompt: PromptSpec | Mapping[str, Any]) -> PromptSpec:
        """Register a prompt, or replace the one with its id.

        Raises:
            RegistryError: The prompt is invalid.
        """
        return await asyncio.to_thread(self.prompts.put, *await self._envelope("prompts", prompt))

    async def register_agent(self, agent: AgentSpec | Mapping[str, Any]) -> AgentSpec:
        """Register an agent, or replace the one with its id.

        If the agent refers to a prompt or tool that does not exist, a warning is logged, because the prompt or tool may
        be registered later.

        Raises:
            RegistryError: The agent is invalid.
        """
        registered = await asyncio.to_thread(self.agents.put, *await self._envelope("agents", agent))
        await self._warn_of_unknown([registered])
        return registered

    async def register_all(self, entries: Sequence[tuple[Subject, Mapping[str, Any]]]) -> list[str]:
        """Register envelopes of several kinds, or replace those with the same ids, and return the ids in order.

        All envelopes are validated before any is written, and the file of each registry is replaced atomically.

        Raises:
            RegistryError: An entry is invalid. The message names it. Nothing was registered.
        """
        await self.tools.refresh()
        ids: list[str] = []
        wanted: dict[Subject, dict[str, dict[str, Any]]] = {"tools": {}, "prompts": {}, "agents": {}}
        for number, (subject, entry) in enumerate(entries, 1):
            where = f"entry {number} ({str(entry.get('spec_id'))[:100]}): " if len(entries) > 1 else ""
            try:
                item_id, envelope = await self._envelope(subject, entry)
            except RegistryError as error:
                raise RegistryError(f"{where}{str(error).rstrip('.')}. Nothing was registered.") from error
            if item_id in wanted[subject]:
                raise RegistryError(f"{where}duplicate id. Nothing was registered.")
            wanted[subject][item_id] = envelope
            ids.append(item_id)
        # Tools are written first, because only they can still fail (if a name is taken in the file). If they do,
        # nothing has been written.
        for subject, envelopes in wanted.items():
            if envelopes:
                await asyncio.to_thread(self.files[subject].put_all, envelopes)
        await self.tools.refresh()
        await self._warn_of_unknown([read_agent(each) for each in wanted["agents"].values()])
        return ids

    async def _envelope(self, subject: Subject, given: Any) -> tuple[str, dict[str, Any]]:
        """Return the id and the validated envelope of an item, which is given as a spec or an envelope.

        Raises:
            RegistryError: The item is invalid, or a name is taken.
        """
        if subject == "prompts":
            prompt = given if isinstance(given, PromptSpec) else read_prompt(given)
            return prompt.spec_id, plain(asdict(prompt))
        if subject == "agents":
            agent = given if isinstance(given, AgentSpec) else read_agent(given)
            return agent.spec_id, plain(asdict(agent))
        spec = given if isinstance(given, ToolSpec) else read_tool(given)
        envelope = write_tool(spec)
        self._adapters.check(spec.adapter_path)
        for called in _names(spec):
            other = await self._find(called)
            if other is not None and (other.spec.id != spec.id or not other.spec.adapter_path):
                raise RegistryError(
                    f"{spec.id} cannot be registered: the name {called!r} is claimed by {other.spec.name!r}. "
                    "Rename it or remove the alias."
                )
        return spec.id, envelope

    async def _warn_of_unknown(self, agents: Sequence[AgentSpec]) -> None:
        prompts = (await asyncio.to_thread(self.prompts.view)).items
        tools = (await asyncio.to_thread(self.tools.registry.view)).items  # by id
        for agent in agents:
            if agent.default_prompt_id and agent.default_prompt_id not in prompts:
                _log.warning("%s: there is no prompt %s yet.", agent.spec_id, agent.default_prompt_id[:100])
            for name in agent.allowed_tools or ():
                if _GLOB & set(name):
                    continue
                found = await self._find(name)
                if (found is None or found.spec.name != name) and name not in tools:
                    _log.warning("%s: there is no tool with the id or name %s yet.", agent.spec_id, name[:100])

    async def prompt(self, spec_id: str) -> PromptSpec:
        """Return a prompt.

        Raises:
            RegistryError: The prompt does not exist, or is disabled.
        """
        return await asyncio.to_thread(_enabled, self.prompts, spec_id)

    async def agent(self, spec_id: str) -> AgentSpec:
        """Return an agent.

        Raises:
            RegistryError: The agent does not exist, or is disabled.
        """
        return await asyncio.to_thread(_enabled, self.agents, spec_id)

    async def instructions(self, agent: str) -> str:
        """Return the text of an agent's default prompt, without filling in its variables, or "" if there is no prompt.

        Raises:
            RegistryError: The agent or the prompt does not exist or is disabled.
        """
        prompt_id = (await self.agent(agent)).default_prompt_id
        return (await self.prompt(prompt_id)).render({}) if prompt_id else ""

    async def health(self) -> dict[str, str]:
        """Try to resolve the adapter of every registered tool.

        Returns:
            The ids of the tools, each with the reason why its adapter cannot be used, or "" if it can be used.
        """
        await self.tools.refresh()
        specs = (await asyncio.to_thread(self.tools.registry.view)).items
        return {spec_id: await in_daemon_thread(partial(self._broken, spec)) for spec_id, spec in specs.items()}

    async def reload_adapters(self) -> dict[str, str]:
        """Reload edited adapters.

        Returns:
            The names of the edited modules, each with the reason why the old version stays in use, or "" if it was
            replaced.
        """
        return await self._adapters.reload_edited()

    def _broken(self, spec: ToolSpec) -> str:
        try:
            self._adapters.resolve(spec)
        except RegistryError as error:
            return str(error)
        return ""


def _names(spec: ToolSpec) -> tuple[str, ...]:
    return (spec.name, *spec.aliases)


def _claims(spec: ToolSpec) -> tuple[str, ...]:
    """Return what no other tool may have: the tool's name, aliases and tag prefix. The prefix ends with a colon."""
    return (*_names(spec), *([f"{spec.tag.tag_prefix}:"] if spec.tag is not None else ()))


def _enabled(registry: FileRegistry[Any], spec_id: str) -> Any:
    view = registry.view()
    kind = registry.subject.removesuffix("s")
    if spec_id in view.disabled:
        raise RegistryError(f"The {kind} {spec_id} has been disabled since {view.disabled[spec_id]}. Enable it first.")
    if spec_id not in view.items:
        why = next((problem.reason for problem in view.problems if problem.item_id == spec_id), "")
        known = ", ".join(list(view.items)[:20]) or "none"
        raise UnknownEntry(f"There is no {kind} {spec_id[:80]!r}{f' ({why})' if why else ''}. Known: {known}.")
    return view.items[spec_id]
