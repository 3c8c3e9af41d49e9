"""`Engine`: one object, made from the configuration, that lists and calls tools."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engine.agent.clients.pacing import ModelPacing
from engine.app.compose import Components, compose
from engine.app.config import load_settings
from engine.app.engine_host import EngineHost
from engine.app.home import Home
from engine.app.people import People
from engine.app.services import Services
from engine.app.settings import Settings
from engine.app.turns import Turns, TurnTools, turn_of
from engine.contract.allowed import Allowed
from engine.contract.background import BackgroundService
from engine.contract.context import CallContext, Clock, no_progress
from engine.contract.events import CallEvent
from engine.contract.prompt_block import PromptBlocks
from engine.contract.repeatable_calls import RepeatableCalls
from engine.contract.result import ToolCall, ToolContext, ToolResult
from engine.contract.run_summary import RunSummary
from engine.contract.source import ToolSource
from engine.contract.spec import PermissionLevel, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.bind import BoundTool, bind_tools
from engine.dispatch.in_flight import BeforeRun
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.stream import stream
from engine.dispatch.tagged import Answered, answer_tags
from engine.policy.rate_limits import refused_by_limits
from engine.registry.registries import Registries
from engine.registry.registry import Registry
from engine.registry.updates import TOOLS_GENERATION
from engine.remote.modules import Modules
from engine.stores.call_views import AuditView, FailuresView
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.run_inbox import NewMessage
from engine.stores.run_journal import RunJournal
from engine.turn.active_list import ActiveList
from engine.turn.discovery import Discovery
from engine.turn.paging import PAGE, ToolPage, tool_page, tool_pages
from engine.turn.prompt_blocks import prompt_blocks
from engine.turn.run_observers import notify
from engine.turn.tool_fit import RatedTools
from sandbox.contract import Sandbox

T = TypeVar("T")


class Engine:
    """Lists and calls tools. Open one with `Engine.open`, and use it from one event loop."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._turns = Turns(
            components.services.settings,
            components.features,
            components.allow_lists,
            components.agents,
            components.services.redactor,
        )
        components.registry.execute_through(self._execute)
        components.services.child_loop.bind(self)
        components.provides[EngineHost] = EngineHost(self)

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
            home: The engine's data folder. Default: ``$KNACKBOX_HOME``, else the user data folder of the platform.
            settings: Replaces ``<home>/config.toml`` and the environment.
            sources: Tool sources in addition to those of the installed packs.
            sandbox: Replaces the configured sandbox. It stays open when the engine closes.
            packs: Whether installed packs are opened.
            clock: Replaces the system clock.
            environ: Replaces the environment variables of the process.
            people: The gate and the approver that decide whether a call may run, and the filler that shows forms.

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
                environ=variables,
            )
            engine = cls(components)
            for started in components.started:
                await started(engine.need)
            yield engine

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
    def failures(self) -> FailuresView:
        """The recorded calls that failed."""
        return self._components.journal.failures

    @property
    def calls(self) -> AuditView:
        """All recorded calls."""
        return self._components.journal.audit

    @property
    def events(self) -> EventLog:
        """The event log."""
        return self._components.events

    @property
    def runs(self) -> RunJournal:
        """The journal of the loop's runs."""
        return self._components.runs

    @property
    def model_pacing(self) -> ModelPacing:
        """Keeps the limits of the chat model's server for all runs."""
        return self._components.model_pacing

    @property
    def modules(self) -> Modules:
        """The remote modules: HTTP modules and MCP servers."""
        return self._components.modules

    @property
    def registry(self) -> Registry:
        """The registry of all tools. Use it to register a tool in this process, or to disable, enable or delete one."""
        return self._components.registry

    @property
    def registries(self) -> Registries:
        """The tools, prompts and agents that are registered for every process of the home."""
        return self._components.registries

    async def turn_of(self, agent: str, turn: Turn | None = None) -> Turn:
        """Return the turn of a registered agent.

        The limits of a registered agent also apply in a `Turn(agent=...)`. The difference is that this method rejects
        the names of agents that are not registered.

        Args:
            agent: The agent's id.
            turn: The turn to narrow.

        Raises:
            RegistryError: The agent does not exist, or is disabled.
        """
        return turn_of(await self._components.registries.agent(agent), turn)

    def is_registered(self, agent: str) -> bool:
        """Return whether an agent of this id is registered, even if it is disabled."""
        agents = self._components.agents
        return agent in agents.known or agent in agents.refused

    @property
    def background_services(self) -> tuple[BackgroundService, ...]:
        """What packs do while the engine serves. `engine.app.background` runs them."""
        return self._components.background

    @property
    def features(self) -> frozenset[str]:
        """The features of the configured model clients, such as ``"vision"``."""
        return self._components.features

    def need(self, kind: type[T]) -> T:
        """Return the service of this class, as `CallContext.need` does.

        Raises:
            MissingService: No pack provides the service.
        """
        return self._components.need(kind)

    async def prompt_blocks(self, context: Turn | None, message: str) -> PromptBlocks:
        """Return the texts that packs add to the prompt for a message, such as what is known about the user.

        Args:
            context: The turn.
            message: The user's message.
        """
        turn = await self._turns.create(context)
        return await prompt_blocks(self._components.blocks, turn, message)

    async def run_ended(self, context: Turn | None, summary: RunSummary) -> None:
        """Give packs the summary of a run, so that they can learn from it."""
        if self._components.observers:
            await notify(self._components.observers, await self._turns.create(context), summary)

    async def tell_run(self, run: str, message: NewMessage) -> int:
        """Send a message to a run of this home, whichever process works on it, and return the message's number.

        The model sees the message at the beginning of the run's next turn, exactly once, also if the run is
        interrupted and resumed. A run that ends without an answer, such as a cancelled one, may end before that.

        Args:
            run: The id of the run.
            message: The message. With `NewMessage.stop`, the run ends instead of beginning another turn.

        Raises:
            UnknownRun: There is no such run.
            RunHasEnded: The run has ended, so the message was not added.
        """
        return await asyncio.to_thread(self.runs.tell, run, message)

    def tools_generation(self) -> int:
        """Return a number that changes whenever any process changes the tools of this home. The call is fast."""
        return self._components.services.records.generation(TOOLS_GENERATION)

    async def list_tools(self, context: Turn | None = None, query: str | None = None) -> ActiveList:
        """Return the tools of a turn, and what was omitted and why. Failures of a source are not raised.

        Args:
            context: The turn.
            query: Replaces the query of the turn. With a query, only the acquired skills that retrieval finds are
                listed; without one, all of them.
        """
        turn = await self._turns.create(context, query=query)
        return await self._components.assembly.active_list(self._components.registry.sources, turn)

    async def tool_page(self, context: Turn | None = None, after: str = "", limit: int = PAGE) -> ToolPage:
        """Return one page of `list_tools`: the next acquired skills by name, and on the first page all other tools.

        Args:
            context: The turn.
            after: `ToolPage.next` of the previous page; "" for the first page.
            limit: The maximum number of skills on the page.
        """
        turn = await self._turns.create(context)
        return await tool_page(self._components.assembly, self._components.registry.sources, turn, after, limit)

    async def tool_pages(self, context: Turn | None = None) -> AsyncIterator[ActiveList]:
        """Yield the pages of `list_tools`, for callers that do not need all acquired skills in memory."""
        turn = await self._turns.create(context)
        async for listed in tool_pages(self._components.assembly, self._components.registry.sources, turn):
            yield listed

    async def describe_tool(self, name: str, turn: Turn | None = None) -> ToolSpec:
        """Return the spec of a tool that the turn may call, even if the tool is deferred.

        Raises:
            ToolFailure: There is no tool of this name that the turn may call. The message suggests similar names.
        """
        return await self.need(Discovery).describe(name, await self._turns.create(turn))

    async def rate_tools(self, query: str, turn: Turn | None = None, limit: int = 10) -> RatedTools:
        """Return how well those tools of a turn fit a request that match it best, whether or not they fit."""
        return await self.need(Discovery).rate(query, await self._turns.create(turn), limit)

    async def audit(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return the recorded calls, newest first, including those that have just ended."""
        await self._components.trail.flush()
        return await asyncio.to_thread(self.calls.recent, limit)

    async def get_active_tool_definitions(
        self, context: Turn | None = None, query: str | None = None
    ) -> list[ToolSpec]:
        """Return the specs of the tools in `list_tools`. Equal inputs produce equal lists, in the same order."""
        return [tool.spec for tool in (await self.list_tools(context, query)).tools]

    async def get_available_tools(self, context: Turn | None = None) -> dict[str, BoundTool]:
        """Return an async function for each tool of a turn, by name, that calls the tool and returns a `ToolResult`."""
        return dict((await self._tools_of(context)).tools)

    def resolve_allow_list(
        self, name: str, *, local_mode: bool | None = None, exclude_embedding_tools: bool = False
    ) -> Allowed:
        """Return the tools that an allow-list currently permits, for `Turn.allowed`.

        Args:
            name: The list.
            local_mode: Whether tools that send data to external services are excluded. None uses the configured value.
            exclude_embedding_tools: Whether to omit the tools that the list adds when embeddings may be used.

        Raises:
            ConfigError: There is no such list.
        """
        return self._turns.allow_list(name, local_mode=local_mode, embedding_ok=not exclude_embedding_tools)

    def resolve_categories(self, categories: Iterable[str]) -> frozenset[str]:
        """Return the names of the tools, except skills, in any of these categories. ``*`` selects all."""
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
        """Return the tools that an agent with this allow-list may use: their specs, and functions that call
        them.

        Args:
            allow_list_id: The name of the list.
            local_mode: See `resolve_allow_list`.
            exclude_embedding_tools: See `resolve_allow_list`.
            include_deferred_tools: Whether deferred tools, which are otherwise only found by discovery, are listed.
            log_tool_annotations: Whether the annotations of called tools are logged.
            turn: The turn to restrict. Its own `allowed` still applies.

        Raises:
            ConfigError: There is no such list.
        """
        allowed = self.resolve_allow_list(
            allow_list_id, local_mode=local_mode, exclude_embedding_tools=exclude_embedding_tools
        )
        wanted = turn or Turn()
        return await self._tools_of(
            replace(
                wanted,
                allowed=allowed if wanted.allowed is None else wanted.allowed.within(allowed),
                include_deferred_tools=wanted.include_deferred_tools and include_deferred_tools,
                log_tool_annotations=wanted.log_tool_annotations and log_tool_annotations,
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
        """Return only the three tools that find, describe and call other tools (DISC-2).

        The arguments and exceptions are the same as for `get_tools_for_agent`.
        """
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
        """Return the tools that a user may use. The modules are checked before the permission (ACCESS-2).

        Args:
            user_permission: The user's permission.
            allowed_modules: The modules of the persona; None for all.
            user: The user's name.
        """
        modules = None if allowed_modules is None else frozenset(allowed_modules)
        return await self._tools_of(Turn(user=user, permission=user_permission, modules=modules))

    async def _tools_of(self, wanted: Turn | None) -> TurnTools:
        turn = await self._turns.create(wanted)
        listed = await self._components.assembly.active_list(self._components.registry.sources, turn)
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
        before_run: BeforeRun | None = None,
    ) -> ToolResult:
        """Call one tool by name. Failures of the tool are returned, not raised.

        If the awaiting task is cancelled, the call is cancelled and its box is killed.

        Args:
            name: The tool.
            arguments: Its arguments.
            turn: The turn that the call belongs to.
            call_id: An id for `cancel`; generated if empty.
            progress: Called with ``(message, fraction)`` while the tool runs.
            patient: Whether to retry, within the deadline, when no box is free. If False, the call fails at once, and
                `failure.retry_after` says when to try again.
            context: The message that led to the call, for the tool and the eval gate. The call is made on behalf of the
                message's user.
            before_run: Awaited with the tool's spec when the call has been admitted and is about to run, such as to
                record it. If it fails, the call does not run.
        """
        created = await self._turns.create(turn, user="" if context is None else context.user)
        call = ToolCall(name, arguments, call_id, context)
        return await self._components.pipeline.call(
            call, created, progress=progress, patient=patient, before_run=before_run
        )

    async def can_repeat(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether an interrupted call may be made again with the same id, although it has effects."""
        repeatable: RepeatableCalls | None = self._components.provides.get(RepeatableCalls)
        return repeatable is not None and await repeatable.can_repeat(call_id, name, arguments)

    async def _execute(self, name: str, arguments: Mapping[str, Any], ctx: Any) -> ToolResult:
        """Run a call of `Registry.execute` through the pipeline.

        Raises:
            ToolRateLimited: A rate limit refused the call.
        """
        if isinstance(ctx, CallContext):
            result = await self.need(InnerCalls).call(ctx, ToolCall(name, arguments, "execute"))
        elif isinstance(ctx, ToolContext):
            result = await self.call(name, arguments, context=ctx)
        elif ctx is None or isinstance(ctx, Turn):
            result = await self.call(name, arguments, ctx)
        else:
            raise TypeError(f"ctx must be a Turn, a ToolContext or a CallContext, not {type(ctx).__name__}")
        limited = refused_by_limits(result)
        if limited is not None:
            raise limited
        return result

    def cancel(self, call_id: str) -> bool:
        """Cancel a running call. Its caller receives a result whose audit says that the call ended as ``killed``.

        Returns:
            False if no call with this id is running.
        """
        return self._components.pipeline.cancel(call_id)

    def stream(
        self, name: str, arguments: Mapping[str, Any], turn: Turn | None = None, *, call_id: str = ""
    ) -> AsyncGenerator[CallEvent]:
        """Call one tool, and yield its `Progress` and `OutputPiece` events while it runs, and its `ToolResult` last.

        A slow reader does not delay the tool: the reader receives a `Missed` in place of the oldest events. Closing the
        iterator cancels the call. A `break` alone does not close the iterator until it is garbage-collected, so use
        `contextlib.aclosing`.
        """
        return stream(lambda events: self.call(name, arguments, turn, call_id=call_id, progress=events))

    async def answer_tags(self, text: str, turn: Turn | None = None, context: ToolContext | None = None) -> Answered:
        """Run the tagged calls in a model's answer (TAG-2), and return their results and the text without them.

        Args:
            text: The answer.
            turn: The turn of the calls.
            context: The message that the model answered, for the tools and the eval gate. The calls are made on
                behalf of the message's user and count against that user's limits.

        Raises:
            TagError: Two tools of the turn have the same prefix.
        """
        created = await self._turns.create(turn, user="" if context is None else context.user)
        listed = await self._components.assembly.active_list(self._components.registry.sources, created)
        return await answer_tags(
            text, [tool.spec for tool in listed.tools], self._components.pipeline, created, context
        )
