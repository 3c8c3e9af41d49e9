"""`delegate_to_swarm`: delegates tasks to runs of the loop that work at the same time."""

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from builtin_tools.swarm.requests import DelegatedTask
from builtin_tools.swarm.service import Noted, SwarmService
from engine.contract.child_runs import ChildRun
from engine.contract.context import CallContext, Produced
from engine.contract.result import GRANTED_TOKENS
from engine.contract.spec import Annotations
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.workspace_folder import folder_of
from engine.registry.decorate import tool

MOST_TASKS = 200
MOST_TEXT = 20_000
LONGEST_S = 3_600.0
_SHOWN = 4_000  # characters of an answer among others

Action = Literal["start", "status", "await", "results", "cancel"]
Wait = Literal["none", "all", "first"] | Annotated[int, Field(ge=1, le=MOST_TASKS)]
TaskText = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]


@with_config(ConfigDict(extra="forbid"))
class SwarmTask(TypedDict):
    """One task.

    Attributes:
        task: What to do. It must be understandable without this conversation.
        agent: The id of a registered agent that does it. By default, one like you.
        tools: Names or globs of the tools that it needs. By default, all of yours.
        max_tokens: How many of your tokens it may use.
        max_turns: How many turns it may take.
        max_seconds: How long it may take.
    """

    task: TaskText
    agent: NotRequired[str]
    tools: NotRequired[list[str]]
    max_tokens: NotRequired[Annotated[int, Field(ge=1)]]
    max_turns: NotRequired[Annotated[int, Field(ge=1)]]
    max_seconds: NotRequired[Annotated[float, Field(gt=0)]]


class SwarmMember(TypedDict):
    """The run that works on one task.

    Attributes:
        state: queued, started or ended.
        finish: Why it ended, such as answer, tokens, cancelled or model_error; "" if it has not.
        answer: Its answer, or what it had achieved; of a run that has not ended, its latest words.
    """

    id: str
    task: str
    state: str
    finish: str
    answer: str
    tokens: int


class SwarmOutput(TypedDict):
    """Tasks that were delegated together.

    Attributes:
        files: Files of the tasks that were copied to your workspace.
    """

    swarm: str
    ended: int
    failed: int
    tasks: list[SwarmMember]
    files: list[str]


@tool(
    category="swarm",
    requires=("model",),
    annotations=Annotations(idempotent=True),  # a repeated call finds the runs that the first one started
    side_effects=("swarm_start",),
    required_permission="user",
    private_arguments=("tasks",),
    cost="expensive",
    timeout_s=LONGEST_S + 60.0,
    short_description="Let several copies of you work on independent tasks at the same time.",
)
async def delegate_to_swarm(
    ctx: CallContext,
    action: Action = "start",
    *,
    tasks: Annotated[list[TaskText | SwarmTask], Field(max_length=MOST_TASKS)] = [],  # noqa: B006 -- never changed
    wait: Wait = "all",
    timeout_seconds: Annotated[float, Field(ge=0, le=LONGEST_S)] = 600.0,
    swarm: str = "",
    task: Annotated[int, Field(ge=0)] = 0,
    workspace: Literal["empty", "copy"] = "empty",
    files: bool = False,
    key: Annotated[str, Field(max_length=200)] = "",
) -> Produced[SwarmOutput | list[SwarmOutput]]:
    """Delegate independent tasks to other runs, which work on them at the same time, each on its own.

    Use it if a request has several parts that do not depend on one another, such as reading ten documents or trying
    three approaches. Each run has at most your tools, a part of the budget that you have left, and a workspace of its
    own. It does not know this conversation, so write into each task everything that is needed. Do small or dependent
    steps yourself.

    start: starts a run for each of the `tasks`, and waits as `wait` says. The same call never starts a task twice; to
    do the same tasks once more, use another `key`. status: how far a swarm is, or without `swarm`, your latest swarms.
    await: waits, then returns the answers. results: the answers so far, of unfinished tasks the latest words; with
    `task`, the full answer of one. cancel: stops a swarm, or one `task` of it.

    Args:
        action: What to do.
        tasks: The tasks, as texts or as objects with an agent, tools and limits.
        wait: `none` returns at once, `first` when one task has ended, a number when so many have, `all` when all have.
        timeout_seconds: The longest wait. Afterwards the tasks continue, and you can `await` them again.
        swarm: The id of a swarm, from the result of `start`. Required except for start and status.
        task: The number of one task, from 1; 0 for all.
        workspace: Whether each run begins with an empty workspace, or with a copy of yours.
        files: Copy the files of the tasks that have ended to the folder `swarm` of your workspace.
        key: Distinguishes this call from an earlier one with the same tasks.
    """
    service = ctx.need(SwarmService)
    if action == "start":
        return await _start(ctx, _tasks(tasks), wait, timeout_seconds, workspace=workspace, key=key, files=files)
    if action == "status" and not swarm:
        found = [swarm_output(children) for children in await service.recent(ctx.turn)]
        return Produced(found, "\n".join(_headline(each) for each in found) or "You have delegated nothing yet.")
    if not swarm:
        raise wrong_arguments("`swarm` is missing. The action `status` without it lists your swarms.")
    children = _chosen(await service.swarm(ctx.turn, swarm), task)
    if action == "cancel":
        await service.cancel(children)
        text = f"Cancelled {', '.join(child.id for child in children if not child.ended) or 'nothing: all have ended'}."
        return Produced(swarm_output(children), text, (f"cancelled:swarm {swarm}",))
    if action in ("await", "results"):
        async with service.awaited(swarm):
            if action == "await":
                await service.wait(swarm, _count(wait, len(children)), timeout_seconds, _progress(ctx))
            children = _chosen(await service.swarm(ctx.turn, swarm), task)
            new = await service.settle(children, ctx.turn)
        run = ctx.turn.run
        back = sum(max(child.limits.tokens - child.tokens, 0) for child in new if run and child.parent == run)
        if back:
            ctx.audit[GRANTED_TOKENS] = -back
        return await _results(ctx, service, children, files=files, shown=0 if task else _SHOWN)
    output = swarm_output(children)
    return Produced(output, "\n".join([_headline(output), *(_line(each) for each in output["tasks"])]))


async def _start(
    ctx: CallContext,
    tasks: Sequence[DelegatedTask],
    wait: Wait,
    timeout_s: float,
    *,
    workspace: Literal["empty", "copy"],
    key: str,
    files: bool,
) -> Produced[SwarmOutput | list[SwarmOutput]]:
    service = ctx.need(SwarmService)
    copied = folder_of(ctx) if workspace == "copy" else None
    if not ctx.turn.run:
        key = key or ctx.call_id  # outside of a run, only a retry is the same call
    swarm, new = await service.start(ctx.turn, tasks, key=key, copied=copied)
    async with service.awaited(swarm):
        await service.wait(swarm, _count(wait, len(tasks)), timeout_s, _progress(ctx))
        children = await service.swarm(ctx.turn, swarm)
        await service.settle(children, ctx.turn)
    if ctx.turn.run:
        ctx.audit[GRANTED_TOKENS] = sum(child.tokens if child.ended else child.limits.tokens for child in children)
    produced = await _results(ctx, service, children, files=files, shown=_SHOWN)
    known = "" if new else "These tasks have been delegated before. To do them again, use another key.\n"
    return Produced(produced.value, f"{known}{produced.message}", (f"started:swarm {swarm}",) if new else ())


async def _results(
    ctx: CallContext, service: SwarmService, children: Sequence[ChildRun], *, files: bool, shown: int
) -> Produced[SwarmOutput | list[SwarmOutput]]:
    """Return the answers of child runs, and the latest words of those that have not ended."""
    said = {child.id: await service.last_words(child) for child in children if not child.ended}
    paths = await service.collect([each for each in children if each.ended], folder_of(ctx)) if files else []
    output = swarm_output(children, said, paths)
    lines = [_headline(output), *(_line(each, shown) for each in output["tasks"])]
    lines += [f"Copied to your workspace: {', '.join(paths)}"] if paths else []
    return Produced(output, "\n".join(lines), tuple(f"created:{path}" for path in paths))


def swarm_output(
    children: Sequence[ChildRun], said: dict[str, str] | None = None, files: Sequence[str] = ()
) -> SwarmOutput:
    """Return child runs of one swarm as a JSON object."""
    members: list[SwarmMember] = [
        {
            "id": child.id,
            "task": child.message[:200],
            "state": child.state.value,
            "finish": child.finish,
            "answer": child.answer if child.ended else (said or {}).get(child.id, ""),
            "tokens": child.tokens,
        }
        for child in children
    ]
    return {
        "swarm": children[0].swarm,
        "ended": sum(child.ended for child in children),
        "failed": sum(child.ended and not child.succeeded for child in children),
        "tasks": members,
        "files": list(files),
    }


def _tasks(given: Sequence[str | SwarmTask]) -> list[DelegatedTask]:
    if not given:
        raise wrong_arguments("`tasks` is missing.")
    return [DelegatedTask(each) if isinstance(each, str) else _task(each) for each in given]


def _task(given: SwarmTask) -> DelegatedTask:
    return DelegatedTask(
        given["task"],
        given.get("agent", ""),
        given.get("tools"),
        given.get("max_tokens", 0),
        given.get("max_turns", 0),
        given.get("max_seconds", 0.0),
    )


def _chosen(children: list[ChildRun], task: int) -> list[ChildRun]:
    if task > len(children):
        raise wrong_arguments(f"The swarm has {len(children)} tasks, so there is no task {task}.")
    return [children[task - 1]] if task else children


def _count(wait: Wait, tasks: int) -> int:
    if isinstance(wait, int):
        return wait
    return {"none": 0, "first": 1, "all": tasks}[wait]


def _progress(ctx: CallContext) -> Noted:
    def noted(ended: int, tasks: int) -> None:
        ctx.progress(f"{ended} of {tasks} tasks have ended", ended / tasks)

    return noted


def _headline(output: SwarmOutput) -> str:
    failed = f", {output['failed']} of them without an answer" if output["failed"] else ""
    return f"Swarm {output['swarm']}: {output['ended']} of {len(output['tasks'])} tasks have ended{failed}."


def _line(member: SwarmMember, shown: int = 0) -> str:
    number = member["id"].rpartition("-")[2]
    state = member["finish"] or member["state"]
    answer = member["answer"]
    if shown and len(answer) > shown:
        answer = f"{answer[:shown]}… (shortened; `results` with task={number} shows all)"
    return f"[{number}] {state}: {answer}".rstrip(": ")
