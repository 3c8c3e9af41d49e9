"""`ProfileBlock`: adds the user's profile to the instructions of every turn (MEM-8)."""

import asyncio

from builtin_tools.memory.profile import PROFILE, Profile, shown
from builtin_tools.memory.scope import MemoryScope
from engine.contract.prompt_block import Placement
from engine.contract.spaces import sees
from engine.contract.turn import Turn

MOST_CHARACTERS = 2_000
_HEADING = "What is known about the user:"


class ProfileBlock:
    """A prompt block with the user's profile. Its text changes only when the profile changes."""

    name = "profile"
    placement: Placement = "instructions"
    most_characters = MOST_CHARACTERS + len(_HEADING) + 1

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    async def text(self, turn: Turn, message: str) -> str:
        """Return the profile of the turn's user; "" if it is empty, or if the agent may not see it."""
        del message
        scope = MemoryScope.of(turn)
        if not sees(scope.globs, PROFILE):
            return ""
        items = await asyncio.to_thread(self._profile.items, scope.personal_owner)
        lines = shown(items, MOST_CHARACTERS)
        return f"{_HEADING}\n{lines}" if lines else ""
