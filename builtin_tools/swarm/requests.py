"""Turns the tasks that an agent delegates into child runs, with at most the rights and the budget of the agent."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.contract.allowed import Allowed, Selection
from engine.contract.child_runs import ChildLoop, ChildRun, RunLimits
from engine.contract.failure import ConfigError, refusal
from engine.contract.turn import Turn
from engine.dispatch.refusals import wrong_arguments
from engine.stores.child_runs import ChildRunStore

DELEGATING = "delegate_to_swarm"  # the tool that runs at the greatest depth do not have
LEAST_TOKENS = 1_000  # of one child run
_ID = 12  # hexadecimal digits of a swarm's id


@dataclass(frozen=True, slots=True)
class DelegatedTask:
    """One task to delegate.

    Attributes:
        agent: A registered agent; "" for the agent that delegates.
        tools: Names and globs of tools; None for all that the agent may call.
        tokens, turns, wall_s: Limits; 0 for the usual ones.
    """

    text: str
    agent: str = ""
    tools: Sequence[str] | None = None
    tokens: int = 0
    turns: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TreePlace:
    """Where new child runs belong.

    Attributes:
        parent: The run that starts them; "" outside of runs.
        root: The first run of the tree.
        depth: Their depth.
        most_depth: The greatest depth.
    """

    swarm: str
    parent: str
    root: str
    depth: int
    most_depth: int


def swarm_id(turn: Turn, key: str) -> str:
    """Return the id of the swarm that this run, or outside of runs this agent, starts with a key."""
    scope = ["run", turn.run] if turn.run else ["agent", turn.user, turn.agent]
    return hashlib.sha256(json.dumps([*scope, key]).encode()).hexdigest()[:_ID]


def key_of(tasks: Sequence[DelegatedTask]) -> str:
    """Return a key that depends only on the tasks, for a call without a key."""
    given = [[task.text, task.agent, None if task.tools is None else list(task.tools)] for task in tasks]
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()


def place_of(swarm: str, turn: Turn, children: ChildRunStore, most_depth: int) -> TreePlace:
    """Return where the child runs that a turn starts belong. This function blocks."""
    if not turn.run:
        return TreePlace(swarm, "", swarm, 1, most_depth)
    parent = children.one(turn.run)
    if parent is None:
        return TreePlace(swarm, turn.run, turn.run, 1, most_depth)
    return TreePlace(swarm, parent.id, parent.root, parent.depth + 1, most_depth)


async def children_of(
    turn: Turn, tasks: Sequence[DelegatedTask], place: TreePlace, left: RunLimits, loop: ChildLoop
) -> list[ChildRun]:
    """Return the child runs for tasks, not yet stored.

    Args:
        turn: The turn that delegates.
        tasks: The tasks.
        place: Where the child runs belong.
        left: What is left of the budget of the run that delegates.
        loop: Knows the agents.

    Raises:
        ToolFailure: An agent does not exist, the tree is too deep, or too few tokens are left.
    """
    if place.depth > place.most_depth:
        raise refusal(
            f"This run is at depth {place.depth - 1} of its tree, and {place.most_depth} is the greatest "
            "([packs.swarm] depth). Do the tasks yourself.",
            "too_deep",
        )
    granted = granted_tokens(tasks, left.tokens)
    children = []
    for position, (task, tokens) in enumerate(zip(tasks, granted, strict=True), 1):
        child_id = f"{place.swarm}-{position}"
        try:
            rights = await loop.agent_turn(task.agent, base_turn(turn)) if task.agent else base_turn(turn)
        except ConfigError as error:
            raise wrong_arguments(f"Task {position}: {error}") from error
        limits = RunLimits(
            min(task.turns or left.turns, left.turns),
            left.tool_calls,
            tokens,
            min(task.wall_s or left.wall_s, left.wall_s),
        )
        rights = narrowed(replace(rights, workspace=child_id), task.tools, may_delegate=place.depth < place.most_depth)
        children.append(
            ChildRun(
                child_id,
                place.swarm,
                position,
                place.parent,
                place.root,
                place.depth,
                turn.user,
                turn.agent,
                task.text,
                rights,
                limits,
            )
        )
    return children


def base_turn(turn: Turn) -> Turn:
    """Return the rights of a turn, without what belongs to its run."""
    return replace(turn, query=None, features=frozenset(), share=None, most_caps=turn.caps)


def narrowed(turn: Turn, tools: Sequence[str] | None, *, may_delegate: bool) -> Turn:
    """Return a turn with only some of its tools."""
    allowed = turn.allowed
    if tools is not None:
        own = Allowed.of(tools)
        allowed = own if allowed is None else allowed.within(own)
    if not may_delegate:
        without = (Selection(any_names=frozenset({DELEGATING})),)
        allowed = Allowed(included=(Allowed.of(["*"]) if allowed is None else allowed,), excluded=without)
    return replace(turn, allowed=allowed)


def granted_tokens(tasks: Sequence[DelegatedTask], left: int) -> list[int]:
    """Divide tokens among tasks: what they ask for, and half of the rest in equal parts for those that ask for nothing.

    Raises:
        ToolFailure: There are too few.
    """
    asked = sum(task.tokens for task in tasks)
    others = sum(1 for task in tasks if not task.tokens)
    usual = (left - asked) // (2 * others) if others else 0
    if asked > left or (others and usual < LEAST_TOKENS):
        raise refusal(
            f"{left} tokens of this run's budget are left, which is too few for {len(tasks)} tasks. Delegate fewer "
            "tasks, or give them fewer `max_tokens`.",
            "budget",
        )
    return [task.tokens or usual for task in tasks]
