"""`Engine`: one object made from the configuration, which lists and calls tools."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engine.app.compose import Components, compose
from engine.app.config import load_settings
from engine.app.home import Home
from engine.app.people import People
from engine.app.services import Services
from engine.app.settings import Settings
from engine.app.turns import Turns
from engine.contract.allowed import Allowed
from engine.contract.context import CallContext, Clock, no_progress
from engine.contract.events import CallEvent
from engine.contract.result import ToolCall, ToolContext, ToolResult
from engine.contract.source import ToolSource
from engine.contract.spec import PermissionLevel, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BoundTool, bind_tools
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.stream import stream
from engine.dispatch.tagged import Answered, answer_tags, turn_asked
from engine.policy.rate_limits import refused_by_limits
from engine.registry.registries import Registries
from engine.registry.registry import Registry
from engine.registry.updates import TOOLS_GENERATION
from engine.remote.modules import Modules
from engine.stores.call_log import CallLog
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.failure_log import FailureLog
from engine.turn.active_list import ActiveList
from engine.turn.agent_turn import turn_of
from engine.turn.discovery import Discovery
from engine.turn.paging import PAGE, ToolPage, tool_page, tool_pages
from engine.turn.resolver import TurnTools, turn_of_agent, turn_of_user
from sandbox.contract import Sandbox

T = TypeVar("T")


class Engine:
    """Lists and calls tools. Make one with `Engine.open`, and use it from one event loop."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._turns = Turns(
            components.services.settings, components.features, components.allow_lists, components.agents
        )
        components.registry.execute_through(self._execute)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        home: Path | str | None = None,
        *,
        settings: Settings | None = None,
        sources: Sequence[ToolSource] = (),
        sandbox: Sandbox | None = None,
        packs: bool = True,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        people: People | None = None,
    ) -> AsyncIterator["Engine"]:
        """Open an engine: ``async with Engine.open(home=...) as engine``.

        Args:
            home: The folder of its data. Default: ``$KNACKBOX_HOME``, else the user data folder of the platform.
            settings: Replaces ``<home>/config.toml`` and the environment.
            sources: Tool sources in addition to those of the installed packs.
            sandbox: Replaces the configured sandbox. It stays open when the engine closes.
            packs: Whether installed packs are opened.
            clock: Replaces the system clock.
            environ: Replaces the environment variables of the process.
            people: The eval gate and the approver that decide before a call runs.

        Raises:
            ConfigError: The configuration is invalid, or a component cannot be opened.
        """
        variables = os.environ if environ is None else environ
        place = Home.locate(home, variables)
        chosen = settings if settings is not None else load_settings(place, variables)
        async with AsyncExitStack() as stack:
            components = await compose(
                place,
                chosen,
                clock or SystemClock(),
                stack,
                sources=sources,
                sandbox=sandbox,
                packs=packs,
                people=people,
            )
            yield cls(components)

    @property
    def sandbox(self) -> Sandbox:
        return self._components.services.sandbox

    @property
    def services(self) -> Services:
        """The services that packs receive: home, settings, sandbox, stores and clock."""
        return self._components.services

    @property
    def settings(self) -> Settings:
        return self._components.services.settings

    @property
    def failures(self) -> FailureLog:
        return self._components.failures

    @property
    def calls(self) -> CallLog:
        """The log of all calls."""
        return self._components.calls

    @property
    def events(self) -> EventLog:
        """The event log."""
        return self._components.events

    @property
    def modules(self) -> Modules:
        """The remote modules: HTTP modules and MCP servers."""
        return self._components.modules

    @property
    def registry(self) -> Registry:
        """The registry of all tools: register one in this process, disable, enable or delete one."""
        return self._components.registry

    @property
    def registries(self) -> Registries:
        """The tools, prompts and agents that are registered for every process of the home."""
        return self._components.registries

    async def turn_of(self, agent: str, turn: Turn | None = None) -> Turn:
        """The turn of a registered agent. Raises RegistryError when there is none of this id, or it is disabled.

        `Turn(agent=...)` is bounded by the same; it takes a name that nobody registered for a name alone.
        """
        return turn_of(await self._components.registries.agent(agent), turn)

    @property
    def features(self) -> frozenset[str]:
        """What the configured model clients can do, such as ``"vision"``."""
        return self._components.features

    def need(self, kind: type[T]) -> T:
        """The service of this class that a pack provides, as tools find it on `ctx`. Raises MissingService."""
        return self._components.need(kind)

    def tools_generation(self) -> int:
        """A number that changes whenever the set of tools does, by any process on this home. Takes microseconds."""
        return self._components.services.records.generation(TOOLS_GENERATION)

    async def list_tools(self, context: Turn | None = None, query: str | None = None) -> ActiveList:
        """The tools of a turn, and what was left out and why. Never raises for what a source does.

        context: what is known of the turn. query: the latest message, instead of the turn's own; with one, only those
            acquired skills are listed that retrieval finds for it, without one all of them.
        """
        turn = await self._turns.bounded(context if query is None else replace(context or Turn(), query=query))
        return await self._components.assembly.active_list(self._components.registry.sources, turn)

    async def tool_page(self, context: Turn | None = None, after: str = "", limit: int = PAGE) -> ToolPage:
        """A page of `list_tools`: the first has everything but acquired skills, each the next of these by name.

        after: `next` of the page before. limit: skills on the page, at most.
        """
        turn = await self._turns.bounded(context)
        return await tool_page(self._components.assembly, self._components.registry.sources, turn, after, limit)

    async def tool_pages(self, context: Turn | None = None) -> AsyncIterator[ActiveList]:
        """Yield the pages of `list_tools`, for callers that do not need all acquired skills in memory."""
        turn = await self._turns.bounded(context)
        async for listed in tool_pages(self._components.assembly, self._components.registry.sources, turn):
            yield listed

    async def describe_tool(self, name: str, turn: Turn | None = None) -> ToolSpec:
        """The tool of this name that may be called in the turn, a deferred one, too. Raises ToolFailure, naming the
        nearest, when there is none."""
        return await self.need(Discovery).describe(name, await self._turns.bounded(turn))

    async def audit(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return the recorded calls, newest first, including those that have just ended."""
        await self._components.trail.flush()
        return await asyncio.to_thread(self.calls.recent, limit)

    async def get_active_tool_definitions(
        self, context: Turn | None = None, query: str | None = None
    ) -> list[ToolSpec]:
        """The specs of `list_tools`, in an order that is the same for the same inputs."""
        return [tool.spec for tool in (await self.list_tools(context, query)).tools]

    async def get_available_tools(self, context: Turn | None = None) -> dict[str, BoundTool]:
        """Name -> ``await f(**arguments) -> ToolResult`` for the tools of a turn, each bound to the live context."""
        return dict((await self._tools_of(context or Turn())).tools)

    def resolve_allow_list(
        self, name: str, *, local_mode: bool | None = None, exclude_embedding_tools: bool = False
    ) -> Allowed:
        """What an allow-list permits now, for `Turn.allowed`. Raises ConfigError when there is none of this name.

        local_mode: for what is not to be sent to services elsewhere; None: as configured.
        """
        return self._turns.allow_list(name, local_mode=local_mode, embedding_ok=not exclude_embedding_tools)

    def resolve_categories(self, categories: Iterable[str]) -> frozenset[str]:
        """Names of the static tools that are in any of these categories now. ``*``: in all."""
        return self._components.allow_lists.resolve_categories(categories)

    async def get_tools_for_agent(
        self,
        allow_list_id: str,
        *,
        local_mode: bool | None = None,
        exclude_embedding_tools: bool = False,
        include_deferred_tools: bool = True,
        log_tool_annotations: bool = True,
        turn: Turn | None = None,
    ) -> TurnTools:
        """What an agent of this allow-list may use: specs for its model, and callables bound to its turn.

        exclude_embedding_tools: leave out what the list adds when embeddings may be used. turn: what else is known; its
            own `allowed` holds as well. Raises ConfigError when there is no such list.
        """
        allowed = self.resolve_allow_list(
            allow_list_id, local_mode=local_mode, exclude_embedding_tools=exclude_embedding_tools
        )
        return await self._tools_of(
            turn_of_agent(
                allowed,
                turn,
                include_deferred_tools=include_deferred_tools,
                log_tool_annotations=log_tool_annotations,
            )
        )

    async def get_discovery_tools_for_agent(
        self,
        allow_list_id: str,
        *,
        local_mode: bool | None = None,
        exclude_embedding_tools: bool = False,
        log_tool_annotations: bool = True,
        turn: Turn | None = None,
    ) -> TurnTools:
        """As `get_tools_for_agent`, by the three tools that find, describe and execute the others (DISC-2)."""
        return await self.get_tools_for_agent(
            allow_list_id,
            local_mode=local_mode,
            exclude_embedding_tools=exclude_embedding_tools,
            log_tool_annotations=log_tool_annotations,
            turn=replace(turn or Turn(), use_tool_search_flow=True),
        )

    async def get_tools_for_user(
        self, user_permission: PermissionLevel, allowed_modules: Iterable[str] | None = None, *, user: str = "local"
    ) -> TurnTools:
        """What a user may use: first the modules of the persona (None: all), then the permission (ACCESS-2)."""
        return await self._tools_of(turn_of_user(user_permission, allowed_modules, user))

    async def _tools_of(self, wanted: Turn) -> TurnTools:
        turn = await self._turns.bounded(wanted)
        listed = await self.list_tools(turn)
        return TurnTools(turn, listed, bind_tools(listed.tools, self._components.pipeline, turn))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        turn: Turn | None = None,
        *,
        call_id: str = "",
        progress: Callable[..., None] = no_progress,
        patient: bool = True,
        context: ToolContext | None = None,
    ) -> ToolResult:
        """Call one tool by name. Never raises for what it did; a cancellation cancels the call, and its box is killed.

        progress: told what the tool reports while it runs: ``progress(message, fraction)``.
        patient: False: a call that finds no free box fails at once, and `failure.retry_after` says when to come back.
            Otherwise it is repeated at that time, within its deadline.
        context: of the message behind the call, for the tool and the eval gate. The user it names makes the call.
        """
        call = ToolCall(name, arguments, call_id, context)
        bounded = await self._turns.bounded(turn if context is None else turn_asked(turn or Turn(), context))
        return await self._components.pipeline.call(call, bounded, progress=progress, patient=patient)

    async def _execute(self, name: str, arguments: Mapping[str, Any], ctx: Any) -> ToolResult:
        """`Registry.execute`. Raises ToolRateLimited."""
        if isinstance(ctx, CallContext):
            result = await self.need(InnerCalls).call(ctx, ToolCall(name, arguments, "execute"))
        elif isinstance(ctx, ToolContext):
            result = await self.call(name, arguments, context=ctx)
        elif ctx is None or isinstance(ctx, Turn):
            result = await self.call(name, arguments, ctx)
        else:
            raise TypeError(f"ctx is a Turn, a ToolContext or a CallContext, not {type(ctx).__name__}")
        limited = refused_by_limits(result)
        if limited is not None:
            raise limited
        return result

    def cancel(self, call_id: str) -> bool:
        """Cancel one call in flight; whoever awaits it gets a result whose end is ``killed``. False when none is."""
        return self._components.pipeline.cancel(call_id)

    def stream(
        self, name: str, arguments: Mapping[str, Any], turn: Turn | None = None, *, call_id: str = ""
    ) -> AsyncGenerator[CallEvent]:
        """Call one tool and follow it: `Progress` and `Output` while it runs, and last its `ToolResult`.

        A follower that is slow never holds the tool up: it gets a `Missed` in place of the oldest events. Closing the
        iterator cancels the call; after a `break`, that is when it is closed (`contextlib.aclosing`) or collected.
        """
        return stream(lambda events: self.call(name, arguments, turn, call_id=call_id, progress=events))

    async def answer_tags(self, text: str, turn: Turn | None = None, context: ToolContext | None = None) -> Answered:
        """Call what the lines of a model's answer ask for by their tags (TAG-2), and give the rest to show.

        context: of the message that the model answered, for the tools and the eval gate. The user it names makes the
            calls, so limits count that user. Raises TagError when two tools of the turn claim one prefix.
        """
        chosen = await self._turns.bounded(turn_asked(turn or Turn(), context))
        tools = await self.get_active_tool_definitions(chosen)
        return await answer_tags(text, tools, self._components.pipeline, chosen, context)
