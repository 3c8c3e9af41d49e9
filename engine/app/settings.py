"""`Settings`: everything a person can configure, with its defaults. `engine.app.config` reads it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from engine.app.module_settings import McpServerSettings, ModuleName, ModuleSettings
from engine.app.section import Section
from engine.contract.spaces import DEFAULT_SPACE
from engine.contract.spec import Band
from engine.policy.approval import EXPIRES_S, ApprovalMode
from engine.policy.gate import OnGateFailure
from sandbox.contract import Destination
from sandbox.egress.rules import canonical_destination, canonical_host

# As browsers send it (RFC 6454): lower case, no path, and the port only where it is not the usual one.
_ORIGIN = re.compile(r"https?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")

Provider = Literal["openai", "anthropic", "google"]
ClientName = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class Endpoint(Section):
    """A model somebody serves. `openai` with a `base_url` is any OpenAI-compatible server; it may need no key."""

    provider: Provider = "openai"
    name: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = Field(default=120.0, gt=0)

    @property
    def configured(self) -> bool:
        return self.name is not None


class ModelSettings(Endpoint):
    """The model the loop talks to. sees: it accepts images, so it also serves as the vision model.

    native_tools: False for one that has no tool calls of its own (TAG-4).
    """

    sees: bool = False
    native_tools: bool = True


class ImageClientSettings(Endpoint):
    """Something that draws (TOOL-13). protocol: `openai`, or `txt2img` of local Stable Diffusion servers.

    sizes: those it takes (`1024x768`), its usual one first; without them those that are known of its kind.
    name: of the model; for `txt2img` a checkpoint, or none for the one that the server has loaded.
    """

    protocol: Literal["openai", "txt2img"] = "openai"
    sizes: tuple[Annotated[str, Field(pattern="^[1-9][0-9]{1,4}x[1-9][0-9]{1,4}$")], ...] = ()

    @property
    def configured(self) -> bool:
        return self.name is not None if self.protocol == "openai" else self.base_url is not None

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.protocol == "txt2img" and self.base_url is None:
            raise ValueError("an image client with the protocol txt2img takes a base_url")
        return self


class BudgetSettings(Section):
    """What one message to the loop may cost (LOOP-2). Counts, tokens in and out together, seconds."""

    turns: int = Field(default=40, ge=1)
    tool_calls: int = Field(default=200, ge=1)
    tokens: int = Field(default=1_000_000, ge=1)
    wall_s: float = Field(default=1800.0, gt=0)


class SkillSettings(Section):
    """retrieve: how many acquired skills a query may bring onto the list of one turn.

    fits: of those, how likely of use one must be, from 0 (offer whatever is nearest) to 1 (SKILL-14).
    learn_requests: keep up to ten requests that a skill was called for with success, so that it is found by the like.

    compared: with how many of the nearest skills a new one is compared, so that none is learned twice (SKILL-8).
    mutants_noticed: the share of small changes of its code that a skill's tests must notice; 0 asks for none (SKILL-6).
    packages: those that skills may declare without a person being asked, by name; "*" for all. ask_always: ask about
    any package and destination, those that are allowed, too.
    signing_key: the key that signs skills, `keys/skills` below the home without it. trusted_keys: public keys whose
    signatures count besides. require_signed: whether skills that nobody signed are kept off; as soon as there is any
    key, when it is not given (SKILL-17).
    """

    retrieve: int = Field(default=8, ge=1)
    fits: float = Field(default=0.15, ge=0, le=1)
    learn_requests: bool = True
    compared: int = Field(default=5, ge=0)
    mutants_noticed: float = Field(default=0.66, ge=0, le=1)
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
    """Where skills may connect to, and nothing else does (BOX-10).

    allow: destinations (`host:port`, no wildcards) that a skill may declare. allow_private: hosts and addresses that
    may be reached although they are not public; a host's name opens private and loopback addresses to it.
    """

    allow: tuple[Annotated[str, AfterValidator(_destination)], ...] = ()
    allow_private: tuple[Annotated[str, AfterValidator(_host)], ...] = ()


class DockerSettings(Section):
    """For `sandbox = "docker"` (BOX-9). runtime: an OCI runtime the engine knows, such as gVisor's `runsc`.

    url: of the engine; where it is not given, as the docker command finds it.
    """

    image: str = "knackbox-box"
    runtime: str = ""
    url: str = ""


class PolicySettings(Section):
    """What may run, and who is asked first.

    band: GREEN runs tools of every safety class, AMBER none of class HIGH, RED only those of LOW; an agent's own band
    can only be tighter. approval: which tools wait for a person: none (`off`), those that say so (`confirmation`), or
    all that are destructive, too. approval_expires_s: seconds in which an answer counts. on_gate_failure: what becomes
    of a call when the eval gate fails or is slow.
    """

    band: Band = "GREEN"
    approval: ApprovalMode = "off"
    approval_expires_s: float = Field(default=EXPIRES_S, gt=0)
    on_gate_failure: OnGateFailure = "allow"


class HttpSettings(Section):
    """`knackbox serve` (FACE-3). allow_remote: listen at more than loopback. hosts: names that a Host header may say,
    besides the address.

    module_name: of this engine, as a module of another. body_bytes, body_s: of a request, and seconds until all of it
    must be there. calls_per_token: at once; connections: in all.

    cors_origins: origins (`https://app.example.com`, no wildcards) whose pages may use the server. docs: show the
    OpenAPI document at /docs, without a token; calls made from there need one.
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


class BackupSettings(Section):
    """Copies of the records and the event log, taken while an engine is open.

    keep: how many; 0 takes none. every_hours: how old the newest one may become.
    """

    keep: int = Field(default=7, ge=0, le=1000)
    every_hours: float = Field(default=24.0, gt=0)


class RegistrySettings(Section):
    """adapter_prefixes: modules (and all below them) that registered tools may be adapters of; they run in no box.

    space_id: the space that changes of this home's tools, prompts and agents are told for, such as `shared:household`.
    """

    adapter_prefixes: tuple[Annotated[str, AfterValidator(_module)], ...] = ()
    space_id: str = Field(default=DEFAULT_SPACE, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,99}$")


class AccessSettings(Section):
    """Which tools agents are given at all (ACCESS-3).

    allow_list: the widest list any turn gets, whatever it asks for; "" for no bound. strict: a tool that nobody has is
    an error in the own lists, not a warning. local_mode: lists take what they say for it (without what they exclude in
    local mode, nor what they add otherwise); what one names outright stays.
    """

    allow_list: str = ""
    strict: bool = True
    local_mode: bool = False


class EnvironmentSettings(Section):
    """Packages that skills declare (BOX-11). cap_bytes: most to keep on the disk. build_s: seconds to install a set."""

    cap_bytes: int = Field(default=8 << 30, ge=0)
    build_s: float = Field(default=300.0, gt=0)


class KernelSettings(Section):
    """Kernels that keep their state between calls (KERN-6).

    idle_s: after so long without a cell a kernel is ended. per_agent, most: kernels of one agent, and in all.
    memory_bytes: of one kernel and what it starts. warm: ready ones kept waiting, none before the first was asked for.
    preload: modules every kernel has imported already. They are imported outside of the box: name libraries alone.
    """

    idle_s: float = Field(default=1800.0, gt=0)
    per_agent: int = Field(default=4, ge=1)
    most: int = Field(default=16, ge=1)
    memory_bytes: int = Field(default=1 << 30, ge=128 << 20)
    warm: int = Field(default=1, ge=0, le=16)
    preload: tuple[Annotated[str, AfterValidator(_module)], ...] = ()


class RetentionSettings(Section):
    """How many single rows of the past are kept, the newest; what is dropped is counted by day, or in totals.

    calls: of `knackbox audit`. skill_calls: of acquired skills, whose totals by version are of all calls. events: that
    every subscriber has had; one that a subscriber has not fetched or acknowledged is kept for it. subscriber_days:
    without a fetch, after which a subscriber that holds up the events is forgotten.
    """

    calls: int = Field(default=100_000, ge=1)
    skill_calls: int = Field(default=100_000, ge=1)
    events: int = Field(default=100_000, ge=1)
    subscriber_days: float = Field(default=30.0, gt=0)


class Settings(Section):
    """Everything configurable, with its defaults.

    sandbox: name of an entry point of the group `knackbox.sandboxes`, or `unsafe` (see BOX-2).
    workspace: the one folder an agent may touch; `<home>/workspace` when not given.
    vision: a model that sees, when it is not the one of `[model]`. image: a model that draws.
    image_gen_clients: a table for each further one, by its name.
    packs: a free table for each third-party pack, by its entry-point name. mcp_servers: a table for each, by its name.
    """

    sandbox: str = "namespace"
    workspace: Path | None = None
    model: ModelSettings = ModelSettings()
    vision: Endpoint = Endpoint()
    image: ImageClientSettings = ImageClientSettings()
    image_gen_clients: Mapping[ClientName, ImageClientSettings] = Field(default_factory=dict)
    budget: BudgetSettings = BudgetSettings()
    skills: SkillSettings = SkillSettings()
    egress: EgressSettings = EgressSettings()
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

    access: AccessSettings = AccessSettings()
    packs: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _module_names_differ(self) -> Self:
        for name in self.mcp_servers:
            if name in self.modules.module_services:
                raise ValueError(f"two modules are called {name}: one of module_services, one of mcp_servers")
        return self

    @property
    def vision_endpoint(self) -> Endpoint | None:
        """The model to send images to, if any."""
        if self.vision.configured:
            return self.vision
        return self.model if self.model.configured and self.model.sees else None

    @property
    def image_clients(self) -> dict[str, ImageClientSettings]:
        """What draws, by name; the one of `[image]` is called `default` and comes first."""
        unnamed = {"default": self.image} if self.image.configured else {}
        return {**unnamed, **self.image_gen_clients}

    @model_validator(mode="after")
    def _image_clients_are_there(self) -> Self:
        for name, client in self.image_gen_clients.items():
            if not client.configured:
                raise ValueError(f"the image client {name} has no name of a model")
            if name == "default" and self.image.configured:
                raise ValueError("an image client is called default, as the one of [image] is")
        return self
