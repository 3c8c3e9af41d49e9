"""The scripted model of the benchmark: it knows only what is in the prompt of the current request.

It reads the pages of a task one by one. To answer a question it looks into the prompt, then searches with `recall`, and
then reads the handles that the search has found.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from examples.demo.moves import Say, Use

PAGES = 4  # of each task
LOST = "I cannot find it."
_TASK = re.compile(r"^Task (\d+): ", re.MULTILINE)
_PAGE = re.compile(r"^Page (\d+) of task (\d+)\.")
_QUESTION = re.compile(r"^Question: what is the code of the (\w+ \w+)\?")
_HANDLE = re.compile(r"result://\w+")


def decide(body: Mapping[str, Any]) -> Say | Use:
    """Return the next move, given the body of a chat request."""
    messages = body["messages"]
    last = _text(messages[-1])
    page = _PAGE.match(last) if messages[-1]["role"] == "tool" else None
    if page is not None:
        number, task = int(page.group(1)), int(page.group(2))
        if number < PAGES:
            return Use("bench_page", {"task": task, "page": number + 1})
        return Say(f"Task {task} is done.")
    question = next((found for each in reversed(messages) if (found := _QUESTION.match(_text(each)))), None)
    task_wanted = _TASK.match(last)
    if task_wanted is not None:
        return Use("bench_page", {"task": int(task_wanted.group(1)), "page": 1})
    return _answer(messages, question.group(1)) if question is not None else Say("What shall I do?")


def _answer(messages: list[Mapping[str, Any]], what: str) -> Say | Use:
    """Answer from the prompt, or look further: first a search, then the handles that it has found."""
    known = re.compile(rf"The code of the {what} is (\w+)\.")
    asked_at = max(at for at, each in enumerate(messages) if _QUESTION.match(_text(each)))
    before = "\n".join(_text(each) for each in messages[:asked_at] if each["role"] != "assistant")
    since = [_text(each) for each in messages[asked_at + 1 :] if each["role"] == "tool"]
    for where, text in (("prompt", before), ("recall", since[0] if since else ""), ("handle", "\n".join(since[1:]))):
        found = known.search(text)
        if found is not None:
            return Say(f"{found.group(1)} ({where})")
    if not since:
        return Use("recall", {"query": f"code of the {what}"})
    handles = list(dict.fromkeys(_HANDLE.findall(since[0])))
    return Use("recall", {"handle": handles[len(since) - 1]}) if len(since) <= len(handles) else Say(LOST)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def tokens_of(body: Mapping[str, Any]) -> int:
    """Return the tokens of a request as the model's server counts them, by another rule than the engine's estimate."""
    return len(json.dumps([body.get("tools", []), body["messages"]], ensure_ascii=False)) * 10 // 37


def shared_tokens(body: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> int:
    """Return the tokens of a request that a provider's cache would have from the request before it."""
    if earlier is None or body.get("tools") != earlier.get("tools"):
        return 0
    same = 0
    for ours, theirs in zip(body["messages"], earlier["messages"], strict=False):
        if ours != theirs:
            break
        same += 1
    return tokens_of({"tools": body.get("tools", []), "messages": body["messages"][:same]}) if same else 0
