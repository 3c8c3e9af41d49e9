"""`ToolSpec`: everything the engine, a policy or a model needs to know about a tool before it is called.

It includes what other frameworks call a tool's metadata.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Tier = Literal["low", "medium", "high"]
Cost = Literal["free", "cheap", "expensive"]
SafetyClass = Literal["LOW", "MEDIUM", "HIGH"]
PermissionLevel = Literal["guest", "user", "admin", "owner"]
Band = Literal["GREEN", "AMBER", "RED"]


class Origin(StrEnum):
    """Where a tool comes from. The active list is sorted by it: static, then acquired, then composed."""

    STATIC = "static"
    ACQUIRED = "acquired"
    COMPOSED = "composed"


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a call may do to the world. Every annotation defaults to False."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    requires_confirmation: bool = False


DERIVED = Annotations()  # stands for "not given, derive them from the category"; compared by identity
# Key in `ToolSpec.meta`: the tool's module declares it read-only. Only retries depend on this: calls may be repeated.
DECLARED_READ_ONLY = "declared_read_only"
# Key in `ToolSpec.meta`: the tool only shows what the agent itself knows or can do, such as its lessons or its tools.
META_TOOL = "meta_tool"
# Key in `ToolSpec.meta`: the tool asks for approval itself, when it knows what exactly needs it. Only for static tools.
ASKS_FOR_APPROVAL = "asks_for_approval"
# Key in `ToolSpec.meta`: the tool runs programs, which can call all tools of the turn if the sandbox has bridges.
RUNS_PROGRAMS = "runs_programs"
_WORD = re.compile(r"[^a-z]+")
_DESTRUCTIVE = frozenset({"write", "delete", "terminal"})
_CODE_CHANGES = frozenset({"code", "changes"})  # the category `code_changes`, of tools that edit source files


def annotations_for(category: str) -> Annotations:
    """Derive annotations from a category: ``"search"`` is read-only, ``"code_changes"`` is destructive.

    The tool's name is ignored, because authors choose names to suit models.
    """
    words = frozenset(_WORD.split(category.lower()))
    destructive = not words.isdisjoint(_DESTRUCTIVE) or words >= _CODE_CHANGES
    return Annotations(
        read_only="search" in words and not destructive,
        destructive=destructive,
        requires_confirmation="terminal" in words,
    )


@dataclass(frozen=True, slots=True)
class Tag:
    """Lets a model call a tool with a line of its answer, ``PREFIX: arguments`` (TAG-1).

    Attributes:
        arg_pattern: A pattern for the text after the prefix, in RE2 syntax.
        arg_groups: The names of the arguments that the groups of `arg_pattern` match, in order.
        prompt_example: A complete line, shown to the model.
        strip_from_display: Whether the line is hidden from people.
    """

    tag_prefix: str
    arg_pattern: str = "(.+)"
    arg_groups: tuple[str, ...] = ("raw_arg",)
    prompt_example: str = ""
    strip_from_display: bool = True


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The specification of a tool.

    Attributes:
        parameters: JSON Schema (2020-12) of the arguments object.
        annotations: Derived from the category (`annotations_for`) unless given.
        requires: Required configuration (``"image_client"``); without it the tool is not offered.
        features: Required features of the model client (``"vision"``).
        side_effects: The possible effects of a call (``"filesystem_write"``). The result lists the actual ones.
        timeout_s: Deadline over all attempts of one call, in seconds.
        tag: How models without native tool calls can call it with a line of text.
        required_permission: The user's minimum permission.
        caps_required: Capabilities that the agent must hold.
        cooldown_seconds, daily_limit: Minimum interval between two calls by the same user, and calls per user and UTC
            day; 0 for no limit.
        requires_gate: Whether the evaluation gate must admit a call before the tool runs.
        private_arguments: Names of arguments whose values must not be recorded. Logs contain only their lengths.
        id: A stable id, kept when the tool is renamed. Defaults to the name.
        adapter_path: The location of its code, as ``package.module:attribute``, for tools registered by an operator.
        returns: JSON Schema (2020-12) of `ToolResult.output`, or None if unspecified.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    version: str = "1"
    short_description: str = ""
    origin: Origin = Origin.STATIC
    tier: Tier = "medium"
    category: str = "general"
    cost: Cost = "free"
    safety_class: SafetyClass = "LOW"
    required_permission: PermissionLevel = "guest"
    caps_required: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    side_effects: tuple[str, ...] = ()
    annotations: Annotations = DERIVED
    aliases: tuple[str, ...] = ()
    defer_loading: bool = False
    timeout_s: float = 30.0
    idempotency_key_fields: tuple[str, ...] = ()
    cooldown_seconds: float = 0.0
    daily_limit: int = 0
    requires_gate: bool = False
    private_arguments: tuple[str, ...] = ()
    tag: Tag | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    adapter_path: str = ""
    returns: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Fill in the defaults that depend on other fields."""
        if not self.id:
            object.__setattr__(self, "id", self.name)
        if self.annotations is DERIVED:
            object.__setattr__(self, "annotations", annotations_for(self.category))

    @property
    def summary(self) -> str:
        """The short description, or the first sentence of the long one."""
        if self.short_description:
            return self.short_description
        first = self.description.strip().split("\n", 1)[0]
        return first.split(". ", 1)[0].rstrip(".")

    @property
    def replay_safe(self) -> bool:
        """Whether a call may be repeated even if the first attempt may have taken effect."""
        if self.annotations.read_only or self.annotations.idempotent or self.idempotency_key_fields:
            return True
        return self.meta.get(DECLARED_READ_ONLY) is True
