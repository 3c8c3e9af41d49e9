"""`Effects`: the combined effects and requirements of the tools that a composed skill calls."""

from collections.abc import Iterable
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from engine.contract.spec import PermissionLevel, SafetyClass, ToolSpec

_PERMISSIONS: tuple[PermissionLevel, ...] = ("guest", "user", "admin", "owner")
_SAFETY: tuple[SafetyClass, ...] = ("LOW", "MEDIUM", "HIGH")
_Word = Annotated[str, Field(min_length=1, max_length=100)]
_Words = Annotated[tuple[_Word, ...], Field(max_length=100)]
T = TypeVar("T", bound=str)


class Effects(BaseModel):
    """The combined effects of a composed skill's steps, as they were when the skill was admitted.

    In a call, each step is checked against the effects that its tool has at that time.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    required_permission: PermissionLevel = "user"
    safety_class: SafetyClass = "LOW"
    caps_required: _Words = ()
    requires: _Words = ()
    side_effects: _Words = ()
    destructive: bool = True
    read_only: bool = False


def effects_of(specs: Iterable[ToolSpec]) -> Effects:
    """Return the effects of a tool that calls the tools with these specifications.

    A permission level or safety class that is unknown counts as the highest.
    """
    called = list(specs)
    return Effects(
        required_permission=max(
            (_known(_PERMISSIONS, each.required_permission) for each in called), default="guest", key=_PERMISSIONS.index
        ),
        safety_class=max((_known(_SAFETY, each.safety_class) for each in called), default="LOW", key=_SAFETY.index),
        caps_required=_all(each.caps_required for each in called),
        requires=_all(each.requires for each in called),
        side_effects=_all(each.side_effects for each in called),
        destructive=any(each.annotations.destructive for each in called),
        read_only=all(each.annotations.read_only for each in called),
    )


def _known(levels: tuple[T, ...], level: T) -> T:
    return level if level in levels else levels[-1]


def _all(words: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({word for each in words for word in each}))
