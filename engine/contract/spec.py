"""`ToolSpec`: everything the engine, a policy or a model may need to know about a tool before it is called.

It is the one noun for that: what other frameworks keep apart as a tool's metadata is the spec, too.
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
    """Where a tool comes from. The active list is ordered by it: static, then acquired, then composed."""

    STATIC = "static"
    ACQUIRED = "acquired"
    COMPOSED = "composed"


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a call may do to the world. Missing knowledge is the cautious answer, so all default to False."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    requires_confirmation: bool = False


DERIVED = Annotations()  # by identity: an author who says nothing lets them follow from the category
# `ToolSpec.meta` key: the tool's module says that it only reads. Its calls may be repeated; nothing else follows.
DECLARED_READ_ONLY = "declared_read_only"
_WORD = re.compile(r"[^a-z]+")
_DESTRUCTIVE = frozenset({"write", "delete", "terminal"})
_CODE_CHANGES = frozenset({"code", "changes"})  # the category `code_changes`: edits of source files


def annotations_for(category: str) -> Annotations:
    """What a tool of this category may do, when nobody said: ``"search"`` reads, ``"code_changes"`` destroys.

    From the words of the category, never from the tool's name: its author picked that for a model to read.
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
    """How a model calls a tool by a line of its answer, ``PREFIX: arguments``, instead of a tool call (TAG-1).

    arg_pattern: what follows the prefix, in RE2's syntax. arg_groups: the argument each of its groups is, in order.
    prompt_example: a whole line, shown to the model. strip_from_display: people do not see the line.
    """

    tag_prefix: str
    arg_pattern: str = "(.+)"
    arg_groups: tuple[str, ...] = ("raw_arg",)
    prompt_example: str = ""
    strip_from_display: bool = True


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool, described.

    parameters: JSON Schema (2020-12) of the arguments object.
    annotations: as given, else what follows from the category (`annotations_for`).
    requires: configuration that must be present (``"image_client"``); without it the tool is not offered.
    features: what the model client must be able to do (``"vision"``).
    side_effects: what a call *may* do (``"filesystem_write"``); what it did is on the result.
    timeout_s: deadline over all attempts of one call, seconds.
    tag: how it is called by a line of text, for models that are not given tools.
    required_permission: of the user. caps_required: what the agent must hold.
    cooldown_seconds, daily_limit: between two calls of a user, and per user and UTC day; 0 means none.
    requires_gate: the eval gate is asked before it runs.
    id: stable, also when the tool gets another name; the name, unless given.
    adapter_path: where its code is, as ``package.module:attribute``, for one that an operator registered.
    returns: JSON Schema (2020-12) of `ToolResult.output`; None where the tool does not say.
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
    tag: Tag | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    adapter_path: str = ""
    returns: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Settle what was left open, once, so that no call has to."""
        if not self.id:
            object.__setattr__(self, "id", self.name)
        if self.annotations is DERIVED:
            object.__setattr__(self, "annotations", annotations_for(self.category))

    @property
    def summary(self) -> str:
        """The short description: as given, or the first sentence of the long one."""
        if self.short_description:
            return self.short_description
        first = self.description.strip().split("\n", 1)[0]
        return first.split(". ", 1)[0].rstrip(".")

    @property
    def replay_safe(self) -> bool:
        """Whether a call may be repeated although the first attempt may have happened."""
        if self.annotations.read_only or self.annotations.idempotent or self.idempotency_key_fields:
            return True
        return self.meta.get(DECLARED_READ_ONLY) is True
