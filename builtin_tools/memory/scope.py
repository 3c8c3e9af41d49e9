"""`MemoryScope`: the memories that a turn may read and write. Only this module derives owners and spaces from a turn.

A space is ``personal:<name>`` or ``shared:<name>``. The owner of a personal space is the turn's user; the owner of a
shared space is the space itself. No space name can give access to another user's memories, because owners of personal
spaces are never derived from names of spaces.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from builtin_tools.memory.view import SHARED, MemoryView
from engine.contract.failure import FailureClass, refusal
from engine.contract.spaces import Globs, sees
from engine.contract.turn import Turn
from engine.dispatch.refusals import wrong_arguments

PERSONAL = "personal:"
GENERAL = "personal:general"  # the space of entries that are stored without naming a space
_USER = "user:"
_SPACE = re.compile(r"(?:personal|shared):[\w.-]{1,64}")


def owner_of_user(user: str) -> str:
    """Return the owner id of a user's personal spaces."""
    return _USER + user


def user_of(owner: str) -> str:
    """Return the user with this owner id; "" if the owner is a shared space."""
    return owner.removeprefix(_USER) if owner.startswith(_USER) else ""


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """The memories that one turn may read and write.

    Attributes:
        globs: The spaces that the agent may use; None for all.
    """

    user: str
    agent: str
    globs: Globs | None = None

    @classmethod
    def of(cls, turn: Turn) -> "MemoryScope":
        """Return the scope of a turn."""
        return cls(turn.user, turn.agent, turn.memory_spaces)

    @property
    def personal_owner(self) -> str:
        return owner_of_user(self.user)

    def owner(self, space: str) -> str:
        """Return the owner of a space that the turn may use.

        Raises:
            ToolFailure: The name is invalid (DIAGNOSTIC), or the agent may not use the space (FATAL).
        """
        if not _SPACE.fullmatch(space):
            raise wrong_arguments(
                f"{space[:100]!r} is not a memory space. Use personal:<name> or shared:<name>, with letters, digits, "
                f"`.`, `_` and `-`, for example {GENERAL}."
            )
        if not sees(self.globs, space):
            raise refusal(
                f"This agent may not use the memory space {space!r}. Nothing was changed.", "denied", FailureClass.FATAL
            )
        return self.personal_owner if space.startswith(PERSONAL) else space

    def default_space(self) -> str:
        """Return the space for entries stored without naming one: `GENERAL`, or the only space that the agent may
        use.
        """
        if not sees(self.globs, GENERAL) and self.globs is not None and len(self.globs) == 1:
            (only,) = self.globs
            return only if _SPACE.fullmatch(only) else GENERAL
        return GENERAL

    def readable(self, memory: MemoryView, spaces: Sequence[str] | None = None) -> Mapping[str, tuple[str, ...]]:
        """Return the non-empty spaces that the turn may read, by owner.

        Args:
            memory: Reads the memory.
            spaces: Names or globs such as ``shared:*``; None for all.
        """
        mine = {self.personal_owner: memory.spaces(self.personal_owner)}
        every = {**mine, **{space: [space] for space in memory.shared()}}
        found = {
            owner: tuple(name for name in names if sees(self.globs, name) and _chosen(name, spaces))
            for owner, names in every.items()
        }
        return {owner: names for owner, names in found.items() if names}


def is_shared(space: str) -> bool:
    return space.startswith(SHARED)


def _chosen(space: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or any(fnmatchcase(space, glob) for glob in wanted)
