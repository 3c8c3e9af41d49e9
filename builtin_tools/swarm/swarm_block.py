"""`SwarmBlock`: tells an agent which tasks have ended since the run that delegated them ended."""

import asyncio
from collections import Counter

from engine.contract.prompt_block import Placement
from engine.contract.turn import Turn
from engine.stores.child_runs import ChildRunStore

_MOST_SWARMS = 10


class SwarmBlock:
    """The block of the prompt with the swarms whose answers nobody has read."""

    name = "swarm"
    placement: Placement = "message"
    most_characters = 2_000

    def __init__(self, children: ChildRunStore) -> None:
        self._children = children

    async def text(self, turn: Turn, message: str) -> str:  # noqa: ARG002 -- the signature of `PromptBlock`
        if turn.workspace:  # a child run does not continue the work of the agent whose rights it has
            return ""
        untold = await asyncio.to_thread(self._children.untold, turn.user[:200], turn.agent[:200])
        if not untold:
            return ""
        swarms = Counter(child.swarm for child in untold)
        first = {child.swarm: child.message for child in reversed(untold)}
        lines = [
            f"- swarm {swarm}: {count} tasks, the first is {' '.join(first[swarm].split())[:80]!r}"
            for swarm, count in list(swarms.items())[-_MOST_SWARMS:]
        ]
        said = (
            "Tasks that you delegated earlier have ended. `delegate_to_swarm` with action=results returns the answers."
        )
        return "\n".join([said, *lines])
