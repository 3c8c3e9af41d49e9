"""A plain agent: reads the tools it is offered and the results it gets, and does the obvious. It remembers nothing."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.turns.composition import composed
from bench.turns.jobs import BRING_BACK, BY_NAME, FORGET, JOBS, Job
from bench.turns.repair import repaired
from bench.turns.world import ORDERS, RATES
from engine.interfaces.demo.moves import Say, Use

QUARANTINED = "is quarantined"
_ADMITTED = re.compile(r"`\w+` version \d+ is admitted")
_THERE = re.compile(r"This is version \d+ already")
_READS = {"customer_total": ORDERS, "convert_amount": RATES}  # the two steps of `owed_in`


@dataclass(frozen=True, slots=True)
class Done:
    """A call made for this request, and what came back."""

    tool: str
    arguments: Mapping[str, Any]
    result: str


def decide(asked: Mapping[str, Any]) -> Say | Use:
    """The next move, from the body of a chat request alone: its messages and its tools."""
    offered = frozenset(tool["function"]["name"] for tool in asked.get("tools", ()))
    messages = asked["messages"]
    request = next(str(one["content"]) for one in messages if one["role"] == "user")
    done = _done(messages)
    for template, action in ((FORGET, "delete"), (BRING_BACK, "restore")):
        start, end = template.split("{name}")
        if request.startswith(start) and request.endswith(end):
            name = request[len(start) : -len(end)]
            return Say(done[-1].result) if done else Use("manage_skills", {"action": action, "name": name})
    for job in JOBS:
        arguments = job.understood(request)
        if arguments is not None:
            return _both(offered, done, arguments) if job.name == "owed_in" else _one(job, arguments, offered, done)
    return Say("I do not know what is meant.")


def _one(job: Job, arguments: Mapping[str, Any], offered: frozenset[str], done: Sequence[Done]) -> Say | Use:
    """Use the skill for the job; learn it first where it is not on the list, mend it where it is told to."""
    if not done:
        return Use(job.name, arguments) if job.name in offered else _propose(job, 0)
    last = done[-1]
    if last.tool == "create_skill":
        return _after_proposing(job, arguments, offered, done)
    if last.tool == "file_system":
        told = next((one.result for one in done if QUARANTINED in one.result), "")
        return Use("create_skill", repaired(job, last.arguments["path"], last.result, told))
    if QUARANTINED in last.result and job.repaired:
        return Use("file_system", {"action": "read", "path": arguments[job.file]})
    return Say(last.result)


def _after_proposing(
    job: Job, arguments: Mapping[str, Any], offered: frozenset[str], done: Sequence[Done]
) -> Say | Use:
    """Use what was admitted; of what was refused propose the next draft, or call the one that is there already."""
    told = done[-1].result
    if _ADMITTED.search(told):
        return Use(job.name, arguments) if job.name in offered else Say("Learned, but it is not offered to me.")
    if _THERE.search(told) and not any(one.tool == job.name for one in done):
        return Use(job.name, arguments)
    tries = sum(one.tool == "create_skill" for one in done)
    return _propose(job, tries) if tries < len(job.drafts) else Say(f"I could not learn it: {told}")


def _both(offered: frozenset[str], done: Sequence[Done], asked: Mapping[str, Any]) -> Say | Use:
    """One composed skill where there is one; else two skills after each other, and then the two made one."""
    if "owed_in" in offered and not done:
        return Use("owed_in", asked)
    if done and done[0].tool == "owed_in" and _number(done[0].result) is not None:
        return Say(done[0].result)
    of_step = {name: [one for one in done if _concerns(one, name)] for name in _READS}
    total = {"path": asked["orders"], "customer": asked["customer"]}
    first = _one(BY_NAME["customer_total"], total, offered, of_step["customer_total"])
    if isinstance(first, Use):
        return first
    amount = _number(of_step["customer_total"][-1].result)
    if amount is None:
        return first
    converted = {"path": asked["rates"], "amount": amount, "currency": asked["currency"]}
    second = _one(BY_NAME["convert_amount"], converted, offered, of_step["convert_amount"])
    answer = None if isinstance(second, Use) else _number(of_step["convert_amount"][-1].result)
    if answer is None:
        return second
    return _make_one(offered, done, composed(asked, amount, answer)) or second


def _make_one(offered: frozenset[str], done: Sequence[Done], proposal: Mapping[str, Any]) -> Use | None:
    """What was just done in two calls, proposed as one; what is there already and was switched off, switched on."""
    made = [one for one in done if one.tool == "compose_skill"]
    if not made:
        wanted = "owed_in" not in offered and "compose_skill" in offered
        return Use("compose_skill", proposal) if wanted else None
    switched = any(one.tool == "manage_skills" for one in done)
    if _THERE.search(made[-1].result) and not switched:
        return Use("manage_skills", {"action": "enable", "name": proposal["name"]})
    return None


def _concerns(one: Done, name: str) -> bool:
    """Whether a call was made for this step."""
    about = {"create_skill": "name", "file_system": "path"}.get(one.tool)
    return one.tool == name or (about is not None and one.arguments[about] in (name, _READS[name]))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _propose(job: Job, which: int) -> Use:
    draft = job.drafts[which]
    return Use(
        "create_skill",
        {
            "name": job.name,
            "description": job.description,
            "code": draft.code,
            "tests": draft.tests,
            "examples": [re.sub(r"\{(\w+)\}", r"some \1", text) for text in job.says],
        },
    )


def _done(messages: Sequence[Mapping[str, Any]]) -> list[Done]:
    """The calls of the conversation so far, with their results, in order."""
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
