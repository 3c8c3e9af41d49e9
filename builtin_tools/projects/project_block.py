"""`ProjectBlock`: adds the summary of a project to the instructions of a turn (LOOP-8)."""

import asyncio

from builtin_tools.projects.store import ProjectStore, UnknownProject
from builtin_tools.projects.summary import MOST_CHARACTERS, summary
from engine.contract.prompt_block import Placement
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn


class ProjectBlock:
    """A prompt block with the project that a turn belongs to, or else the user's active project.

    An agent that may not call `manage_projects` does not see projects.
    """

    name = "project"
    placement: Placement = "instructions"
    most_characters = MOST_CHARACTERS

    def __init__(self, store: ProjectStore, tool: ToolSpec) -> None:
        """Create the block.

        Args:
            store: The projects.
            tool: The specification of `manage_projects`.
        """
        self._store = store
        self._tool = tool

    async def text(self, turn: Turn, message: str) -> str:
        """Return the summary of the project; "" if there is none, or if the agent may not see it."""
        del message
        if turn.allowed is not None and not turn.allowed.permits(self._tool):
            return ""
        return await asyncio.to_thread(self._summary, turn)

    def _summary(self, turn: Turn) -> str:
        if not turn.project:
            active = self._store.active(turn.user)
            return "" if active is None else summary(active)
        try:
            return summary(self._store.find(turn.user, turn.project))
        except UnknownProject:  # it was deleted
            return ""
