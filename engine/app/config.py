"""`Settings`: what a person configured. From `<home>/config.toml`, then `KNACKBOX_*`, then explicit overrides.

An environment variable names a field by its path: `KNACKBOX_MODEL_BASE_URL` is `base_url` of `[model]`; a list is given
with commas (`KNACKBOX_EGRESS_ALLOW=a.example:443,b.example:443`), and an empty variable is an empty list. A field
nobody knows or a value that does not fit is a `ConfigError` of one line, which names the place, the field and the
remedy.
"""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from engine.app.home import HOME_VARIABLE, Home
from engine.contract.failure import ConfigError
from sandbox.contract import Destination
from sandbox.egress.rules import canonical_destination, canonical_host

PREFIX = "KNACKBOX_"
Provider = Literal["openai", "anthropic", "google"]


class Section(BaseModel):
    """A table of the configuration: frozen, and closed to fields nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


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


class BudgetSettings(Section):
    """What one message to the loop may cost (LOOP-2). Counts, tokens in and out together, seconds."""

    turns: int = Field(default=40, ge=1)
    tool_calls: int = Field(default=200, ge=1)
    tokens: int = Field(default=1_000_000, ge=1)
    wall_s: float = Field(default=1800.0, gt=0)


class SkillSettings(Section):
    """retrieve: how many acquired skills a query may bring onto the list of one turn."""

    retrieve: int = Field(default=8, ge=1)


def _destination(text: str) -> str:
    return str(canonical_destination(Destination.parse(text.strip())))


def _host(text: str) -> str:
    return canonical_host(text.strip())


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

    band: Literal["GREEN", "AMBER", "RED"] = "GREEN"
    approval: Literal["off", "confirmation", "destructive"] = "off"
    approval_expires_s: float = Field(default=300.0, gt=0)
    on_gate_failure: Literal["allow", "deny"] = "allow"


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


class Settings(Section):
    """Everything configurable, with its defaults.

    sandbox: name of an entry point of the group `knackbox.sandboxes`, or `unsafe` (see BOX-2).
    workspace: the one folder an agent may touch; `<home>/workspace` when not given.
    vision: a model that sees, when it is not the one of `[model]`. image: a model that draws.
    packs: a free table for each third-party pack, by its entry-point name.
    """

    sandbox: str = "namespace"
    workspace: Path | None = None
    model: ModelSettings = ModelSettings()
    vision: Endpoint = Endpoint()
    image: Endpoint = Endpoint()
    budget: BudgetSettings = BudgetSettings()
    skills: SkillSettings = SkillSettings()
    egress: EgressSettings = EgressSettings()
    environments: EnvironmentSettings = EnvironmentSettings()
    docker: DockerSettings = DockerSettings()
    kernels: KernelSettings = KernelSettings()
    policy: PolicySettings = PolicySettings()
    packs: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)

    @property
    def vision_endpoint(self) -> Endpoint | None:
        """The model to send images to, if any."""
        if self.vision.configured:
            return self.vision
        return self.model if self.model.configured and self.model.sees else None

    @property
    def image_endpoint(self) -> Endpoint | None:
        """The model that draws, if any."""
        return self.image if self.image.configured else None


def load_settings(home: Home, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read and merge all three places. Raises ConfigError.

    overrides: fields by dotted path (``{"model.name": "x"}``); None values are ignored.
    """
    layers = [
        (str(home.config), list(flatten(read_toml(home.config)))),
        ("environment", list(from_environment(environ))),
        ("command line", [(tuple(k.split(".")), v) for k, v in (overrides or {}).items() if v is not None]),
    ]
    merged: dict[str, Any] = {}
    origin: dict[tuple[str, ...], str] = {}
    for place, values in layers:
        for path, value in values:
            put(merged, path, value, place)
            origin[path] = place
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(explain(error, origin, str(home.config))) from error


def read_toml(path: Path) -> dict[str, Any]:
    """The file as a dict, empty when there is none. Raises ConfigError with line and column on a syntax error."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}. Correct the line, or move the file away.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from error


def flatten(table: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Leaves of nested tables as (path, value). A table below `packs` stays whole: its fields are the pack's."""
    for key, value in table.items():
        path = (*prefix, key)
        if isinstance(value, Mapping) and (len(path) == 1 or path[0] == "packs") and len(path) <= 2:  # noqa: PLR2004 -- packs.<name>
            yield from flatten(value, path)
        else:
            yield path, value


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str | list[str]]]:
    """The `KNACKBOX_*` variables as (path, value). Raises ConfigError for one that names no field."""
    known = {PREFIX + "_".join(path).upper(): path for path in field_paths()}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == HOME_VARIABLE:
            continue
        if variable not in known:
            raise ConfigError(f"environment: {variable} names no setting. {nearest(variable, known)}")
        path = known[variable]
        yield path, [part for part in value.split(",") if part.strip()] if is_list(path) else value


def is_list(path: tuple[str, ...]) -> bool:
    """Whether the field takes a list."""
    section: type[BaseModel] = Settings
    for name in path[:-1]:
        inner = section.model_fields[name].annotation
        section = inner if isinstance(inner, type) and issubclass(inner, Section) else section
    return get_origin(section.model_fields[path[-1]].annotation) is tuple


def field_paths() -> list[tuple[str, ...]]:
    """Every field a variable can name: ``("sandbox",)``, ``("model", "name")``…"""
    paths: list[tuple[str, ...]] = []
    for name, info in Settings.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            paths += [(name, inner) for inner in kind.model_fields]
        elif name != "packs":
            paths.append((name,))
    return paths


def put(target: dict[str, Any], path: tuple[str, ...], value: object, place: str) -> None:
    for key in path[:-1]:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{place}: {'.'.join(path)} cannot be set, because {key} is not a table. Remove {key}.")
        target = inner
    target[path[-1]] = value


def explain(error: ValidationError, origin: Mapping[tuple[str, ...], str], default: str) -> str:
    """One line for the first thing that is wrong: where, which field, what was given, what is expected."""
    first = error.errors(include_url=False)[0]
    path = tuple(str(part) for part in first["loc"])
    # Above the field for one that is missing, below it for an item of a list.
    places = [place for known, place in origin.items() if known[: len(path)] == path[: len(known)]]
    place = places[0] if places else default
    field = ".".join(path)
    more = f" ({error.error_count() - 1} more wrong)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        siblings = [".".join(known) for known in field_paths()] + ["packs"]
        return f"{place}: {field} is not a setting. {nearest(field, siblings)}{more}"
    if first["type"] == "value_error":
        return f"{place}: {field}: {first['ctx']['error']}. Correct or remove it.{more}"
    given = "" if "api_key" in field else f", not {str(first['input'])[:80]!r}"
    return f"{place}: {field}: {first['msg']}{given}. Correct or remove it.{more}"


def nearest(given: str, known: Iterable[str]) -> str:
    """A remedy for a name nobody knows."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else f"Remove it. Known: {', '.join(names)}."
