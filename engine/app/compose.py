"""Builds the components of an engine from a home and settings. Only this module imports every package of the engine."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.agent.clients.pacing import ModelPacing
from engine.agent.journal.run_contents import RunContents
from engine.app.child_loop import LoopOfChildren
from engine.app.databases import open_databases
from engine.app.home import Home
from engine.app.log_redaction import redacted_logs
from engine.app.models import completion_of, images_of, vision_of
from engine.app.modules import open_modules
from engine.app.packs import OpenedPacks, open_packs
from engine.app.people import People
from engine.app.registries import open_registries
from engine.app.sandboxes import Refusing, SandboxWatch, open_sandbox, sandbox_settings
from engine.app.search_parts import SearchParts
from engine.app.secrets import open_secrets
from engine.app.services import Services
from engine.app.settings import Settings
from engine.app.undo import opened_recorder
from engine.contract.background import BackgroundService
from engine.contract.context import Clock, MissingService
from engine.contract.guard import Guard
from engine.contract.moved_content import MovedContent
from engine.contract.pack import Need
from engine.contract.ports import Ports
from engine.contract.prompt_block import PromptBlock
from engine.contract.run_summary import RunObserver
from engine.contract.source import ToolSource
from engine.contract.tool_requests import ToolRequests
from engine.dispatch.audit import AuditTrail
from engine.dispatch.bind import ContextBinder
from engine.dispatch.call_secrets import CallSecrets
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.keyed import KeyedCalls
from engine.dispatch.parts import Parts
from engine.dispatch.pipeline import Pipeline
from engine.dispatch.watched_calls import WatchedCalls
from engine.policy.access import Access
from engine.policy.allow_lists import AllowLists
from engine.policy.approval import ApprovalGuard
from engine.policy.forms import PersonForms
from engine.policy.gate import Gate
from engine.policy.granted_approvals import GrantedApprovals
from engine.policy.person_waits import PersonWaits
from engine.policy.rate_limits import RateLimits
from engine.policy.risk import AnnotationLog
from engine.recovery.breaker import Breakers
from engine.recovery.budget import RetryBudget
from engine.recovery.fallback import FallbackChains, shipped_chains
from engine.recovery.repeats import Repeats
from engine.recovery.retry import Retrier
from engine.registry.file_agents import FileAgents
from engine.registry.registries import Registries
from engine.registry.registry import Registry
from engine.registry.updates import RegistryUpdates
from engine.remote.modules import Modules
from engine.stores.call_journal import CallJournal
from engine.stores.call_views import AuditView
from engine.stores.engine_lock import EngineLock
from engine.stores.event_log import EventLog
from engine.stores.key_ledger import KeyLedger
from engine.stores.run_journal import RunJournal
from engine.stores.workspace import FolderWorkspace
from engine.turn.assembly import Assembly
from engine.turn.availability import BRIDGE
from engine.turn.discovery import Discovery
from engine.turn.discovery_tools import DiscoverySource
from engine.turn.look_up import LookUp
from engine.turn.request_learning import RequestLearning
from sandbox.agent_sandbox import has_bridges
from sandbox.contract import Sandbox, SandboxError
from sandbox.secrets.secret import Secret

T = TypeVar("T")

SANDBOX = "sandbox"  # a requirement that tools may name in `requires`
IMAGE_CLIENT = "image_client"  # likewise
MODEL = "model"  # likewise: the chat model
VISION = "vision"  # a feature of a turn


@dataclass(frozen=True, slots=True)
class Components:
    """The components of an open engine.

    Attributes:
        provides: Services of the packs, by class.
        features: What the configured model clients support.
        assembly: Builds the tool list of a turn.
        blocks: The texts that packs add to the prompts of turns.
        observers: Receive a summary of each run of the loop.
        background: What packs do while the engine serves.
        started: Called when the engine can be used.
        runs: The journal of the loop's runs.
        model_pacing: Keeps the limits of the chat model's server for all runs.
    """

    services: Services
    registry: Registry
    registries: Registries
    agents: FileAgents
    trail: AuditTrail
    pipeline: Pipeline
    journal: CallJournal
    events: EventLog
    chains: FallbackChains
    modules: Modules
    allow_lists: AllowLists
    provides: dict[type, Any]
    features: frozenset[str]
    assembly: Assembly
    blocks: tuple[PromptBlock, ...]
    observers: tuple[RunObserver, ...]
    background: tuple[BackgroundService, ...]
    started: tuple[Callable[[Need], Awaitable[None]], ...]
    runs: RunJournal
    model_pacing: ModelPacing

    def need(self, kind: type[T]) -> T:
        """Return the service of this class.

        Raises:
            MissingService: No pack provides the service.
        """
        try:
            found: T = self.provides[kind]
        except KeyError:
            raise MissingService(f"{kind.__name__} is not available in this configuration.") from None
        return found


async def compose(
    home: Home,
    settings: Settings,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    sources: Sequence[ToolSource] = (),
    sandbox: Sandbox | None = None,
    packs: bool = True,
    people: People | None = None,
    environ: Mapping[str, str] | None = None,
) -> Components:
    """Open all components and register their clean-up with `stack`.

    Args:
        home: The folder with the data of the engine.
        settings: The configuration.
        clock: The source of time.
        stack: Closes the components in reverse order.
        sources: Tool sources in addition to those of the packs.
        sandbox: Replaces the configured sandbox. The caller closes it.
        packs: Whether installed packs are opened.
        people: The gate and the approver that decide whether a call may run, and the filler that shows forms.
        environ: The environment variables from which secrets may come.

    Raises:
        ConfigError: A component cannot be opened as configured.
    """
    await asyncio.to_thread(home.create)
    secrets = await asyncio.to_thread(open_secrets, home, settings.secrets, environ or {})
    stack.enter_context(redacted_logs(secrets.redactor))
    databases = await open_databases(home, settings, clock, stack, secrets.redactor)
    records, lasting = databases.records, databases.lasting
    search = SearchParts(home.vectors, records)
    stack.callback(search.close)
    kept = settings.retention
    journal = await asyncio.to_thread(lambda: CallJournal(records, kept=kept.calls))
    events = await asyncio.to_thread(
        lambda: EventLog(lasting, clock, kept=kept.events, subscriber_days=kept.subscriber_days)
    )
    box = sandbox if sandbox is not None else await configured_sandbox(home, settings, stack, secrets.found)
    updates = await asyncio.to_thread(
        RegistryUpdates, events, lasting, records, clock, space_id=settings.registry.space_id
    )
    opened = OpenedPacks()
    registries = await open_registries(home, settings, box, updates, clock=clock, find=opened.find)
    opened.registry = Registry([registries.tools], switches=registries.tools, updates=updates)
    services = Services(
        home,
        settings,
        box,
        records,
        clock,
        search.vectors,
        search.embedder,
        opened.static_names,
        updates,
        databases.children,
        LoopOfChildren(databases.runs),
        databases.programs,
        completion_of(settings),
        secrets.redactor,
    )
    opened.join([*sources, DiscoverySource()])
    if packs:
        await open_packs(opened, services, stack)
    modules = open_modules(services)
    stack.push_async_callback(modules.aclose)
    opened.join([modules])  # joined last, because local tools take precedence over remote ones
    registry = opened.registry
    vision, images = vision_of(settings), images_of(settings)
    workspace = await asyncio.to_thread(FolderWorkspace, settings.workspace or home.workspace)
    chains = FallbackChains(home.fallback_chains, registry.static_specs, otherwise=shipped_chains())
    lists = allow_lists_of(home, settings, registry)
    watch = SandboxWatch(box, clock)
    stack.push_async_callback(watch.aclose)
    await watch.begin()
    lasting_requirements = opened.meets | requirements_met(
        images=bool(images), model=settings.model.configured, bridge=has_bridges(box)
    )
    assembly = Assembly(
        lasting_requirements | ({SANDBOX} if watch.usable else set()),
        disabled=lambda: registries.tools.disabled,
        look_again=None if watch.final else later_requirements(watch, lasting_requirements),
    )
    discovery = Discovery(
        lambda: registry.sources,
        assembly,
        search.embedder,
        opened.provides.get(ToolRequests),
        fits=settings.skills.fits,
    )
    people, waits, granted = people or People(), PersonWaits(), GrantedApprovals()
    approval = approval_guard(settings, people, waits, granted)
    provides: dict[type, Any] = {
        **opened.provides,
        **({CallSecrets: secrets.calls} if secrets.calls is not None else {}),
        Discovery: discovery,
        ApprovalGuard: approval,
        PersonForms: PersonForms(people.filler),
    }
    ports = ports_with_model(opened.ports, services)
    binder = ContextBinder(box, workspace, clock, vision, images, provides, ports, home.child_workspaces)
    budget = RetryBudget()
    limits = await asyncio.to_thread(RateLimits, records, clock)
    trail = AuditTrail(journal, events)
    stack.push_async_callback(trail.aclose)
    agents = FileAgents(registries.agents)
    first: tuple[Guard, ...] = (Repeats(clock), Breakers(clock), limits, budget, trail)
    parts = Parts(
        registry,
        binder,
        clock,
        chains=chains,
        offered=LookUp(assembly, lambda: registry.sources),
        access_guards=(agents, AnnotationLog(), registries.tools, Access()),
        guards=[
            *first,
            *asking_guards(settings, people, approval),
            *learning_guards(opened.provides.get(ToolRequests), discovery, lasting_requirements),
        ],
        keyed=KeyedCalls(await asyncio.to_thread(KeyLedger, records, databases.lock, clock)),
        watched=watched_calls(home, settings, databases.lock, clock, stack),
        recorder=trail,
        retrier=Retrier(budget=budget),
        secrets=secrets.calls,
    )
    pipeline = Pipeline(parts)
    provides |= {
        InnerCalls: InnerCalls(registry.find, pipeline, waits, granted),
        AuditView: journal.audit,
        MovedContent: RunContents(databases.runs),
    }
    stack.push_async_callback(pipeline.aclose)
    stack.push_async_callback(services.child_loop.aclose)  # closed first, so that no run records cancelled calls
    return Components(
        services=services,
        registry=registry,
        registries=registries,
        agents=agents,
        trail=trail,
        pipeline=pipeline,
        journal=journal,
        events=events,
        chains=chains,
        modules=modules,
        allow_lists=lists,
        provides=provides,
        features=frozenset({VISION} if vision is not None else ()),
        assembly=assembly,
        blocks=opened.blocks,
        observers=opened.observers,
        background=opened.background,
        started=opened.started,
        runs=databases.runs,
        model_pacing=ModelPacing(settings.model.concurrent),
    )


def allow_lists_of(home: Home, settings: Settings, registry: Registry) -> AllowLists:
    """Return the allow-lists of the home."""
    access = settings.access
    return AllowLists(home.allow_lists, registry.static_specs, strict=access.strict, required=access.allow_list)


def ports_with_model(ports: Ports, services: Services) -> Ports:
    """Return the ports of the packs, with the configured chat model unless a pack implements a model client."""
    model = services.llm_client
    return ports if model is None else ports.or_else(Ports(llm_client=lambda _: model))


def requirements_met(*, images: bool, model: bool, bridge: bool) -> frozenset[str]:
    """Return the requirements that the configuration meets, by the names that tools use in `requires`."""
    return frozenset(name for name, there in {IMAGE_CLIENT: images, MODEL: model, BRIDGE: bridge}.items() if there)


def later_requirements(watch: SandboxWatch, others: frozenset[str]) -> Callable[[], Awaitable[frozenset[str]] | None]:
    """Return a function for `Assembly` that checks the sandbox again, or returns None if no check is due.

    Args:
        watch: Checks the sandbox.
        others: The other requirements that are met.
    """

    async def after(looking: Awaitable[bool]) -> frozenset[str]:
        return others | {SANDBOX} if await looking else others

    def look_again() -> Awaitable[frozenset[str]] | None:
        looking = watch.look_again()
        return None if looking is None else after(looking)

    return look_again


def approval_guard(settings: Settings, people: People, waits: PersonWaits, granted: GrantedApprovals) -> ApprovalGuard:
    """Return the guard that asks for approval as configured."""
    policy = settings.policy
    return ApprovalGuard(
        people.approver, policy.approval, expires_s=policy.approval_expires_s, waits=waits, granted=granted
    )


def asking_guards(settings: Settings, people: People, approval: ApprovalGuard) -> list[Guard]:
    """Return the guards that ask the gate and the approver. The approver is last, so an approved call runs at once."""
    asking: list[Guard] = []
    if people.gate is not None:
        asking.append(Gate(people.gate, on_gate_failure=settings.policy.on_gate_failure))
    if settings.policy.approval != "off":
        asking.append(approval)
    return asking


def learning_guards(
    requests: ToolRequests | None, discovery: Discovery, configured: frozenset[str]
) -> list[RequestLearning]:
    """Return the guard that records the requests of successful calls, unless no pack stores them."""
    return [] if requests is None else [RequestLearning(requests, discovery, configured)]


def watched_calls(
    home: Home, settings: Settings, lock: EngineLock, clock: Clock, stack: AsyncExitStack
) -> WatchedCalls | None:
    """Return what records the changes of calls, unless this is disabled. Its store is opened when it is needed."""
    if not settings.undo.enabled:
        return None
    watched = WatchedCalls(lambda: opened_recorder(home, settings, lock, clock))
    stack.push_async_callback(watched.aclose)
    return watched


async def configured_sandbox(
    home: Home, settings: Settings, stack: AsyncExitStack, secrets: Sequence[Secret] = ()
) -> Sandbox:
    """Return the configured sandbox. If it cannot be opened, return one that refuses every job and says why."""
    try:
        box = await open_sandbox(settings.sandbox, sandbox_settings(home, settings, secrets))
    except SandboxError as error:
        return Refusing(error)
    stack.push_async_callback(box.aclose)
    return box
