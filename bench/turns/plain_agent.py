"""A simple scripted agent: it decides from the offered tools and the results in the conversation, without memory."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.turns.composition import composition
from bench.turns.repair import repair
from bench.turns.tasks import BRING_BACK, BY_NAME, FORGET, TASKS, Task
from bench.turns.world import ORDERS, RATES
from examples.demo.moves import Say, Use

QUARANTINED = "is quarantined"
_ADMITTED = re.compile(r"`\w+` version \d+ is admitted")
_EXISTS = re.compile(r"The proposal is identical to version \d+")
_READS = {"customer_total": ORDERS, "convert_amount": RATES}  # the two steps of `owed_in`


@dataclass(frozen=True, slots=True)
class Done:
    """A call made for this request, and its result."""

    tool: str
    arguments: Mapping[str, Any]
    result: str


def decide(body: Mapping[str, Any]) -> Say | Use:
    """Return the next move, given the body of a chat request with its messages and tools."""
    offered = frozenset(tool["function"]["name"] for tool in body.get("tools", ()))
    messages = body["messages"]
    request = next(str(one["content"]) for one in messages if one["role"] == "user")
    done = _done(messages)
    for template, action in ((FORGET, "delete"), (BRING_BACK, "restore")):
        start, end = template.split("{name}")
        if request.startswith(start) and request.endswith(end):
            name = request[len(start) : -len(end)]
            return Say(done[-1].result) if done else Use("manage_skills", {"action": action, "name": name})
    for task in TASKS:
        arguments = task.understood(request)
        if arguments is not None:
            if task.name == "owed_in":
                return _two_steps(offered, done, arguments)
            return _one_step(task, arguments, offered, done)
    return Say("I do not understand the request.")


def _one_step(task: Task, arguments: Mapping[str, Any], offered: frozenset[str], done: Sequence[Done]) -> Say | Use:
    """Use the skill for the task. Create it first if it is not offered, and repair it if it is quarantined."""
    if not done:
        return Use(task.name, arguments) if task.name in offered else _propose(task, 0)
    last = done[-1]
    if last.tool == "create_skill":
        return _after_proposing(task, arguments, offered, done)
    if last.tool == "file_system":
        message = next((one.result for one in done if QUARANTINED in one.result), "")
        return Use("create_skill", repair(task, last.arguments["path"], last.result, message))
    if QUARANTINED in last.result and task.repaired:
        return Use("file_system", {"action": "read", "path": arguments[task.file]})
    return Say(last.result)


def _after_proposing(
    task: Task, arguments: Mapping[str, Any], offered: frozenset[str], done: Sequence[Done]
) -> Say | Use:
    """Use an admitted or already existing skill. After a refusal, propose the next draft."""
    message = done[-1].result
    if _ADMITTED.search(message):
        return Use(task.name, arguments) if task.name in offered else Say("Learned, but it is not offered to me.")
    if _EXISTS.search(message) and not any(one.tool == task.name for one in done):
        return Use(task.name, arguments)
    tries = sum(one.tool == "create_skill" for one in done)
    return _propose(task, tries) if tries < len(task.drafts) else Say(f"I could not learn it: {message}")


def _two_steps(offered: frozenset[str], done: Sequence[Done], arguments: Mapping[str, Any]) -> Say | Use:
    """Use the composed skill if it is offered. Else use the two skills, and then compose them."""
    if "owed_in" in offered and not done:
        return Use("owed_in", arguments)
    if done and done[0].tool == "owed_in" and _number(done[0].result) is not None:
        return Say(done[0].result)
    of_step = {name: [one for one in done if _concerns(one, name)] for name in _READS}
    total = {"path": arguments["orders"], "customer": arguments["customer"]}
    first = _one_step(BY_NAME["customer_total"], total, offered, of_step["customer_total"])
    if isinstance(first, Use):
        return first
    amount = _number(of_step["customer_total"][-1].result)
    if amount is None:
        return first
    converted = {"path": arguments["rates"], "amount": amount, "currency": arguments["currency"]}
    second = _one_step(BY_NAME["convert_amount"], converted, offered, of_step["convert_amount"])
    answer = None if isinstance(second, Use) else _number(of_step["convert_amount"][-1].result)
    if answer is None:
        return second
    return _compose(offered, done, composition(arguments, amount, answer)) or second


def _compose(offered: frozenset[str], done: Sequence[Done], proposal: Mapping[str, Any]) -> Use | None:
    """Propose the two calls as one skill. If the skill exists but is disabled, enable it."""
    made = [one for one in done if one.tool == "compose_skill"]
    if not made:
        wanted = "owed_in" not in offered and "compose_skill" in offered
        return Use("compose_skill", proposal) if wanted else None
    enabled = any(one.tool == "manage_skills" for one in done)
    if _EXISTS.search(made[-1].result) and not enabled:
        return Use("manage_skills", {"action": "enable", "name": proposal["name"]})
    return None


def _concerns(one: Done, name: str) -> bool:
    """Return whether the call was made for this step."""
    about = {"create_skill": "name", "file_system": "path"}.get(one.tool)
    return one.tool == name or (about is not None and one.arguments[about] in (name, _READS[name]))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _propose(task: Task, which: int) -> Use:
    draft = task.drafts[which]
    return Use(
        "create_skill",
        {
            "name": task.name,
            "description": task.description,
            "code": draft.code,
            "tests": draft.tests,
            "examples": [re.sub(r"\{(\w+)\}", r"some \1", text) for text in task.says],
        },
    )


def _done(messages: Sequence[Mapping[str, Any]]) -> list[Done]:
    """Return the calls of the conversation so far, in order, with their results."""
    calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    done: list[Done] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls[call["id"]] = (function["name"], json.loads(function["arguments"]))
        if message["role"] == "tool":
            name, arguments = calls[message["tool_call_id"]]
            done.append(Done(name, arguments, str(message["content"])))
    return done
