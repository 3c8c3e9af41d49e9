"""Reads the manifest of an HTTP module (MOD-1), and converts it to tools.

A manifest that names a different module is rejected as a whole, because nothing in it can be trusted. A tool with an
unusable schema is skipped.
"""

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.contract.spec import DECLARED_READ_ONLY, Annotations, PermissionLevel, ToolSpec
from engine.remote.module import LONGEST_TOOL_NAME, ManifestError, Offer
from engine.remote.schemas import SchemaError, usable_schema
from engine.remote.text import clean, one_line

MOST_TOOLS = 256
MOST_PARAMETERS = 64
MOST_CHOICES = 256
DESCRIPTION = 4_000  # characters of a tool's description; longer ones are cut
SHORT = 1_000  # characters of the description of a module or a parameter
_TOOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

_LEVELS: dict[str, PermissionLevel] = {"guest": "guest", "user": "user", "admin": "admin", "owner": "owner"}

# MCP's names of the hints, also accepted from HTTP modules that are modelled on MCP servers.
_MCP_HINTS = {"read_only": "readOnlyHint", "destructive": "destructiveHint", "idempotent": "idempotentHint"}

Scalar = str | int | float | bool | None


class _ManifestModel(BaseModel):
    """The base class of all parts of a manifest. Unknown fields are ignored, because newer modules may have more."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Parameter(_ManifestModel):
    """An argument of a tool, described in the manifest's short form. Arguments are required by default."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_TOOL_NAME)]
    type: Annotated[str, Field(max_length=40)] = "string"
    description: str = ""
    required: bool = True
    enum: Annotated[list[Scalar], Field(min_length=1, max_length=MOST_CHOICES)] | None = None

    def schema_of(self) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self.type}
        if self.description:
            made["description"] = clean(self.description, SHORT)
        if self.enum is not None:
            made["enum"] = self.enum
        return made


class ManifestTool(_ManifestModel):
    """A tool in a manifest. An unknown permission counts as the highest one (ACCESS-1)."""

    name: Annotated[str, Field(min_length=3, max_length=LONGEST_TOOL_NAME)]
    description: str = ""
    parameters: Annotated[list[Parameter], Field(max_length=MOST_PARAMETERS)] | dict[str, Any] = Field(
        default_factory=list
    )
    required_permission: PermissionLevel = "guest"
    read_only: Any = None
    annotations: Any = None

    def says(self, hint: str) -> bool | None:
        """Return the value of a hint, or None if it is missing or invalid."""
        given = self.annotations if isinstance(self.annotations, dict) else {}
        own = self.read_only if hint == "read_only" else None
        for value in (given.get(hint), own, given.get(_MCP_HINTS.get(hint, ""))):
            if isinstance(value, bool):
                return value
        return None

    @field_validator("required_permission", mode="before")
    @classmethod
    def _known(cls, value: Any) -> PermissionLevel:
        return _LEVELS.get(value, "owner") if isinstance(value, str) else "owner"


class Manifest(_ManifestModel):
    """The response to `GET /manifest`."""

    module_name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = None
    tools: Annotated[list[ManifestTool], Field(max_length=MOST_TOOLS)]


def read_manifest(module: str, answer: Any, *, timeout_s: float, trusted: bool = False) -> Offer:
    """Read the manifest of a module.

    Args:
        module: The name of the module in the configuration.
        answer: The manifest.
        timeout_s: The deadline of one call of a tool of the module, in seconds.
        trusted: Whether to believe hints that a tool is read-only, idempotent or not destructive.

    Raises:
        ManifestError: The manifest is invalid.
    """
    try:
        manifest = Manifest.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the body"
        raise ManifestError(one_line(f"the manifest is invalid: {place}: {first['msg']}")) from error
    if manifest.module_name != module:
        said = one_line(manifest.module_name, 64)
        raise ManifestError(f"it calls itself {said!r}; it is configured as {module!r}")
    _refuse_wrong_names(module, [tool.name for tool in manifest.tools])
    specs: list[ToolSpec] = []
    dropped: dict[str, str] = {}
    for tool in sorted(manifest.tools, key=lambda each: each.name):
        try:
            specs.append(_spec(module, tool, timeout_s, trusted=trusted))
        except SchemaError as error:
            dropped[tool.name] = one_line(str(error))
    return Offer(clean(manifest.description or "", SHORT), tuple(specs), dropped)


def _refuse_wrong_names(module: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        owner, _, own = name.partition(".")
        shown = one_line(name, LONGEST_TOOL_NAME)
        if owner != module or not _TOOL.fullmatch(own):
            raise ManifestError(f"it offers {shown!r}, which is not a tool name of the module {module!r}")
        if name in seen:
            raise ManifestError(f"it offers {shown!r} twice")
        seen.add(name)


def _annotations(tool: ManifestTool, *, trusted: bool) -> Annotations:
    """Derive the annotations of a tool. If its module is not trusted, the tool counts as destructive."""
    confirm = tool.says("requires_confirmation") is True
    if not trusted:
        return Annotations(destructive=True, requires_confirmation=confirm)
    destructive = tool.says("destructive")
    read_only = tool.says("read_only") is True and destructive is not True
    return Annotations(
        read_only=read_only,
        destructive=not read_only if destructive is None else destructive,
        idempotent=tool.says("idempotent") is True,
        requires_confirmation=confirm,
    )


def _spec(module: str, tool: ManifestTool, timeout_s: float, *, trusted: bool) -> ToolSpec:
    declared = tool.says("read_only") is True and tool.says("destructive") is not True
    return ToolSpec(
        name=tool.name,
        description=clean(tool.description, DESCRIPTION) or f"A tool of the module {module}.",
        parameters=usable_schema(_schema(tool)),
        category=module,
        required_permission=tool.required_permission,
        side_effects=("network",),
        annotations=_annotations(tool, trusted=trusted),
        timeout_s=timeout_s,
        meta={"module": module, **({DECLARED_READ_ONLY: True} if declared else {})},
    )


def _schema(tool: ManifestTool) -> dict[str, Any]:
    if isinstance(tool.parameters, dict):
        return tool.parameters
    names = [each.name for each in tool.parameters]
    if len(set(names)) < len(names):
        raise SchemaError("two of its parameters have the same name")
    return {
        "type": "object",
        "properties": {each.name: each.schema_of() for each in tool.parameters},
        "required": [each.name for each in tool.parameters if each.required],
        "additionalProperties": False,
    }
