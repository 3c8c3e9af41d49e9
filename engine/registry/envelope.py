"""Envelopes: the file format of registered tools, prompts and agents (REG-5).

Everything read from a file is validated before it becomes a spec. A tool's envelope has ten fields. All other fields of
a `ToolSpec` are stored in the envelope's `meta` under their own names; unknown keys of `meta` become the spec's `meta`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Annotated, Any, TypeVar

import jsonschema_rs
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from engine.contract.agent import AgentSpec, PolicyOverrides
from engine.contract.prompt import PromptSpec
from engine.contract.spec import DERIVED, Annotations, Cost, PermissionLevel, SafetyClass, Tag, Tier, ToolSpec
from engine.contract.strict_json import JsonError, read_json, write_json
from engine.registry.static import RegistryError, check_tag

T = TypeVar("T")

ID = r"^[A-Za-z][A-Za-z0-9_.-]{0,99}$"
# An agent may belong to one device: `agent://planner@deviceA`.
AGENT_ID = r"^(agent://)?[A-Za-z][A-Za-z0-9_.-]{0,99}(@[A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$"
ADAPTER = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
_DAY_MS = 24 * 60 * 60 * 1000

_Id = Annotated[str, StringConstraints(pattern=ID)]
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
_Text = Annotated[str, StringConstraints(max_length=20_000)]
_Words = Annotated[tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...], Field(max_length=100)]


class _Meta(BaseModel):
    """The envelope's `meta`: the fields of a `ToolSpec` for which the envelope has no field of its own."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: _Name | None = None
    description: _Text = ""
    short_description: Annotated[str, StringConstraints(max_length=500)] = ""
    tier: Tier = "medium"
    category: Annotated[str, StringConstraints(max_length=100)] = "general"
    cost: Cost = "free"
    required_permission: PermissionLevel = "guest"
    requires: _Words = ()
    features: _Words = ()
    annotations: Annotations | None = None
    aliases: Annotated[tuple[_Name, ...], Field(max_length=20)] = ()
    defer_loading: bool = False
    cooldown_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    daily_limit: Annotated[int, Field(ge=0)] = 0
    requires_gate: bool = False
    private_arguments: _Words = ()
    tag: Tag | None = None
    returns: dict[str, Any] | None = None


class ToolEnvelope(BaseModel):
    """A tool as stored on disk.

    Attributes:
        timeout_ms: The deadline over all attempts of one call, in milliseconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec_id: _Id
    version: Annotated[str, StringConstraints(min_length=1, max_length=50)] = "1"
    caps_required: _Words = ()
    params_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    side_effects: _Words = ()
    safety_class: SafetyClass = "LOW"
    timeout_ms: Annotated[int, Field(gt=0, le=_DAY_MS)] = 30_000
    idempotency_key_fields: _Words = ()
    adapter_path: Annotated[str, StringConstraints(pattern=ADAPTER, max_length=300)]
    meta: _Meta = Field(default_factory=_Meta)


_OWN = frozenset({"id", "parameters", "timeout_s", "origin", "meta", "annotations", *ToolEnvelope.model_fields})
_PROMPT, _AGENT = TypeAdapter(PromptSpec), TypeAdapter(AgentSpec)
_ID_ALONE = TypeAdapter(_Id)
_AGENT_ID_ALONE = TypeAdapter(Annotated[str, StringConstraints(pattern=AGENT_ID)])


def read_tool(envelope: Mapping[str, Any]) -> ToolSpec:
    """Read the spec from an envelope.

    Raises:
        RegistryError: A field is invalid. The message names the first invalid field.
    """
    meta = envelope.get("meta")
    for part, kind in (("annotations", Annotations), ("tag", Tag)):
        _refuse_unknown(kind, meta.get(part) if isinstance(meta, Mapping) else None, f"meta.{part}.")
    try:
        read = ToolEnvelope.model_validate(envelope)
    except ValidationError as error:
        raise RegistryError(_explained(error)) from error
    _check_schema(read.params_schema)
    if read.meta.returns is not None:
        _check_schema(read.meta.returns, "meta.returns", of_object=False)
    said = {name: getattr(read.meta, name) for name in _Meta.model_fields if name not in {"name", "annotations"}}
    spec = ToolSpec(
        name=read.meta.name or _as_name(read.spec_id),
        id=read.spec_id,
        version=read.version,
        parameters=read.params_schema,
        safety_class=read.safety_class,
        caps_required=read.caps_required,
        side_effects=read.side_effects,
        timeout_s=read.timeout_ms / 1000,
        idempotency_key_fields=read.idempotency_key_fields,
        adapter_path=read.adapter_path,
        annotations=DERIVED if read.meta.annotations is None else read.meta.annotations,
        meta=dict(read.meta.model_extra or {}),
        **{**said, "description": said["description"] or f"The tool {read.spec_id}."},
    )
    check_tag(spec)
    return spec


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Create the envelope of a spec.

    Raises:
        RegistryError: The `meta` of the spec has a key that is the name of a field, or cannot be represented as JSON.
    """
    meta: dict[str, Any] = dict(spec.meta)
    clash = sorted(meta.keys() & _Meta.model_fields.keys())
    if clash:
        raise RegistryError(
            f"{spec.id}: its meta has the key {', '.join(clash)}, which is a field of the tool. Rename the key."
        )
    for each in fields(ToolSpec):
        value = getattr(spec, each.name)
        default = each.default if each.default is not MISSING else None
        if each.name not in _OWN and value != default:
            meta[each.name] = asdict(value) if isinstance(value, Tag) else value
    if spec.name == _as_name(spec.id):
        meta.pop("name", None)
    meta["annotations"] = asdict(spec.annotations)
    envelope = {
        "spec_id": spec.id,
        "version": spec.version,
        "caps_required": list(spec.caps_required),
        "params_schema": dict(spec.parameters),
        "side_effects": list(spec.side_effects),
        "safety_class": spec.safety_class,
        "timeout_ms": round(spec.timeout_s * 1000),
        "idempotency_key_fields": list(spec.idempotency_key_fields),
        "adapter_path": spec.adapter_path,
        "meta": meta,
    }
    return plain(envelope)


def read_prompt(envelope: Mapping[str, Any]) -> PromptSpec:
    """Read the prompt of an envelope.

    Raises:
        RegistryError: A field is invalid.
    """
    return _read(_PROMPT, _ID_ALONE, PromptSpec, envelope)


def read_agent(envelope: Mapping[str, Any]) -> AgentSpec:
    """Read the agent of an envelope.

    Raises:
        RegistryError: A field is invalid.
    """
    _refuse_unknown(PolicyOverrides, envelope.get("policy_overrides"), "policy_overrides.")
    return _read(_AGENT, _AGENT_ID_ALONE, AgentSpec, envelope)


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value as it is after it has been written as JSON and read again.

    Raises:
        RegistryError: The value has no JSON form.
    """
    try:
        copied: dict[str, Any] = read_json(write_json(value))
    except JsonError as error:
        raise RegistryError(f"{str(value.get('spec_id'))[:100]}: it cannot be written as JSON ({error}).") from error
    return copied


def _read(adapter: TypeAdapter[T], ids: TypeAdapter[str], kind: type[Any], envelope: Mapping[str, Any]) -> T:
    _refuse_unknown(kind, envelope)
    try:
        ids.validate_python(envelope.get("spec_id"))
    except ValidationError as error:
        raise RegistryError(_explained(error, "spec_id")) from error
    try:
        return adapter.validate_python(dict(envelope))
    except ValidationError as error:
        raise RegistryError(_explained(error)) from error


def _refuse_unknown(kind: type[Any], value: Any, place: str = "") -> None:
    """Reject unknown fields. Pydantic ignores them in dataclasses, so a misspelled restriction would have no effect."""
    unknown = (
        sorted(map(str, value.keys() - {each.name for each in fields(kind)})) if isinstance(value, Mapping) else ()
    )
    if unknown:
        raise RegistryError(
            f"{place}{', '.join(unknown)[:200]}: no such field. Known: {', '.join(kind.__match_args__)}"
        )


def _as_name(spec_id: str) -> str:
    """Convert an id to a name that every provider accepts."""
    return spec_id.replace(".", "_")[:64]


def _check_schema(schema: Mapping[str, Any], place: str = "params_schema", *, of_object: bool = True) -> None:
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except ValueError as error:
        raise RegistryError(f"{place}: {str(error).splitlines()[0]}") from error
    if of_object and schema.get("type", "object") != "object":
        raise RegistryError(f"{place}: it must be the schema of an object whose properties are the arguments")


def _explained(error: ValidationError, whole: str = "the entry") -> str:
    """Describe the first error and quote the value that caused it.

    Args:
        whole: What to call the value if the error concerns all of it.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:200] or whole
    given = first["input"]
    shown = f", not {str(given)[:80]!r}" if given is None or isinstance(given, str | int | float) else ""
    more = f" ({error.error_count() - 1} more errors)" if error.error_count() > 1 else ""
    return f"{place}: {first['msg']}{shown}{more}"
