"""Converts the list that an MCP server sends (`tools/list`) to tools (MOD-6).

A server's hints cannot be verified, and a malicious server could describe anything as harmless. Therefore only hints
that make the engine stricter are believed, unless the operator declares the server trusted.
"""

import re
from typing import Annotated, Any

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.contract.spec import Annotations, PermissionLevel, ToolSpec
from engine.formats.bounded_schema import size_problem
from engine.remote.module import LONGEST_TOOL_NAME, ManifestError, Offer
from engine.remote.schemas import SchemaError, usable_schema
from engine.remote.text import clean, one_line

MOST_TOOLS = 256
LISTING_BYTES = 1 << 20  # size of one server's tool list as JSON; well below the limit of the cache
DESCRIPTION = 4_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Hints(BaseModel):
    """The hints of one tool, named as in the protocol. A hint that the server does not send is None."""

    model_config = ConfigDict(strict=True, extra="ignore")

    read_only: Annotated[bool | None, Field(alias="readOnlyHint")] = None
    destructive: Annotated[bool | None, Field(alias="destructiveHint")] = None
    idempotent: Annotated[bool | None, Field(alias="idempotentHint")] = None

    def annotations(self, *, trusted: bool) -> Annotations:
        """Derive annotations. A tool counts as destructive unless a trusted server says otherwise."""
        if not trusted:
            return Annotations(destructive=True)
        read_only = self.read_only is True
        return Annotations(
            read_only=read_only,
            destructive=not read_only and self.destructive is not False,
            idempotent=self.idempotent is True,
        )


class Listed(BaseModel):
    """One tool as stored in the cache: the parts of `tools/list` that are used."""

    model_config = ConfigDict(strict=True, extra="ignore")

    name: str
    description: str | None = None
    input_schema: Annotated[dict[str, Any], Field(alias="inputSchema")]
    annotations: Hints | None = None
    left_out: Annotated[str, Field(alias="leftOut")] = ""  # why the tool's schema was dropped


class McpToolList(BaseModel):
    """The manifest of an MCP server, created from its answers and stored in the cache."""

    model_config = ConfigDict(strict=True, extra="ignore")

    description: str = ""
    tools: Annotated[list[Listed], Field(max_length=MOST_TOOLS)]


def kept_of(tools: list[Tool]) -> list[dict[str, Any]]:
    """Return those parts of the listed tools that Knackbox uses. Long names and descriptions are shortened."""
    return [_kept(each) for each in tools]


def listing_of(kept: list[dict[str, Any]], instructions: str | None) -> dict[str, Any]:
    """Create the manifest of the listed tools."""
    return {"description": (instructions or "")[: 2 * DESCRIPTION], "tools": kept}


def _kept(tool: Tool) -> dict[str, Any]:
    hints = {"read_only_hint", "destructive_hint", "idempotent_hint"}
    kept: dict[str, Any] = {
        "name": tool.name[: 2 * LONGEST_TOOL_NAME],  # still longer than allowed, so it is rejected later
        "description": (tool.description or "")[: 2 * DESCRIPTION],
        "inputSchema": tool.input_schema,
    }
    if tool.annotations is not None:
        kept["annotations"] = tool.annotations.model_dump(by_alias=True, exclude_none=True, include=hints)
    if problem := size_problem(tool.input_schema):
        kept |= {"inputSchema": {}, "leftOut": f"its parameter schema cannot be used: {problem}"}
    return kept


def read_listing(module: str, manifest: Any, *, timeout_s: float, permission: PermissionLevel, trusted: bool) -> Offer:
    """Read the tools of a server. Unusable tools are skipped.

    Raises:
        ManifestError: The list is invalid.
    """
    try:
        listing = McpToolList.model_validate(manifest)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ManifestError(one_line(f"its list of tools is invalid: {place}: {first['msg']}")) from error
    specs: dict[str, ToolSpec] = {}
    dropped: dict[str, str] = {}
    for tool in sorted(listing.tools, key=lambda each: each.name):
        name = f"{module}.{tool.name}"
        if not _NAME.fullmatch(tool.name) or len(name) > LONGEST_TOOL_NAME:
            dropped[one_line(name, LONGEST_TOOL_NAME)] = "its name is not a valid tool name"
        elif tool.left_out:
            dropped[name] = one_line(tool.left_out)
        elif name in specs:
            dropped[name] = "duplicate name; the first one is used"
        else:
            try:
                schema = usable_schema(tool.input_schema)
            except SchemaError as error:
                dropped[name] = one_line(str(error))
                continue
            specs[name] = ToolSpec(
                name=name,
                description=clean(tool.description or "", DESCRIPTION) or f"A tool of the module {module}.",
                parameters=schema,
                category=module,
                required_permission=permission,
                side_effects=("network",),
                annotations=(tool.annotations or Hints()).annotations(trusted=trusted),
                timeout_s=timeout_s,
                meta={"module": module},
            )
    return Offer(clean(listing.description, 1_000), tuple(specs.values()), dropped)
