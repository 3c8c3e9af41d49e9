"""Calls every built-in tool, most of them twice, in a fresh process, and prints how long each call blocked the event loop.

It measures the processor time of the loop's thread in one callback, which hardly depends on the load of the machine.
"""

import asyncio
import base64
import json
import sys
import time
from asyncio import events
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from engine import Engine
from tests.builtin_tools.http_server import Seen, reply, serving
from tests.builtin_tools.pdf_samples import coloured
from tests.builtin_tools.vowels import CODE, TESTS
from tests.builtin_tools.weather.open_meteo_server import OpenMeteoAnswers
from tests.builtin_tools.web.corpus.loopback import reaching
from tests.builtin_tools.web.corpus.server import serving_corpus
from tests.builtin_tools.web.corpus.web import CorpusWeb

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PIPELINE = {
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "steps": [{"name": "count", "call": "vowels", "inputs": {"text": {"from": "/arguments/name"}}}],
    "output": {"count": {"from": "/count"}},
}
CASES = [
    {"arguments": {"name": "banana"}, "expect": {"count": 3}},
    {"arguments": {"name": "x"}, "expect": {"count": 0}},
]
LARGE_VALUES = (
    "[[] for _ in range(1040000)]",  # refused in the box
    "[[] for _ in range(49000)]",
    "{str(n): n for n in range(45000)}",
    "list(range(99000))",
    "'a,' * 2000000",
    "['\\x00' * 20] * 30000",
)
# About the largest code that a skill may have. One test is not enough for it, so it is refused, but only at the end.
LONG_CODE = "\n\n".join(
    f"def part_{n}(value: int) -> int:\n    return value + {n} if value % {n + 2} == 0 else -value * {n}"
    for n in range(500)
)
LONG_CODE += (
    '\n\ndef long(value: int) -> int:\n    """Add up.\n\n    Args:\n        value: A number.\n    """\n    return '
    f"sum(part(value) for part in ({', '.join(f'part_{n}' for n in range(500))}))\n"
)
LONG_TESTS = "from long import long\n\ndef test_long():\n    assert long(0) == 124_750\n"
LONG = {
    "name": "long",
    "description": "Adds up many numbers that depend on one number.",
    "code": LONG_CODE,
    "tests": LONG_TESTS,
}
WIDE = "\n".join("word " * 20 for _ in range(9_000))

Calls = list[tuple[str, dict[str, Any], bool]]
CALLS: Calls = [
    ("replan", {"reason": "a", "new_plan": "b"}, True),
    ("abort_attempt", {"reason": "a", "learned": "b"}, True),
    *(("execute", {"language": "python", "code": code}, number > 0) for number, code in enumerate(LARGE_VALUES)),
    ("execute", {"language": "python", "code": f"len({WIDE!r})"}, True),
    ("execute", {"language": "python", "code": "print('x' * 4_000_000)"}, True),
    ("execute", {"language": "python", "code": "x = 1; print('x' * 100_000); x", "stateful": True}, True),
    ("kernels", {"action": "variables"}, True),
    ("kernels", {"action": "export"}, True),
    ("kernels", {"action": "list"}, True),
    ("file_system", {"action": "write", "path": "big.txt", "content": WIDE}, True),
    ("file_system", {"action": "read", "path": "big.txt"}, True),
    ("file_system", {"action": "search", "pattern": "word"}, True),
    ("file_system", {"action": "list"}, True),
    ("file_system", {"action": "find", "pattern": "*.txt"}, True),
    ("scratchpad", {"action": "set", "key": "a", "value": "b" * 1000}, True),
    ("scratchpad", {"action": "list"}, True),
    ("system_utility", {"action": "diagnostics"}, True),
    ("system_utility", {"action": "health"}, True),
    ("system_utility", {"action": "location", "place": "Oslo"}, True),
    ("system_utility", {"action": "weather", "place": "Oslo", "days": 16}, True),
    ("create_skill", {"name": "vowels", "description": "Counts vowels.", "code": CODE, "tests": TESTS}, True),
    ("create_skill", LONG, False),
    ("vowels", {"text": "banana" * 10_000}, True),
    (
        "compose_skill",
        {"name": "vowels_of_name", "description": "Counts vowels of a name.", "pipeline": PIPELINE, "cases": CASES},
        True,
    ),
    ("vowels_of_name", {"name": "banana"}, True),
    ("manage_skills", {"action": "list"}, True),
    ("manage_skills", {"action": "stats"}, True),
    ("knowledge_base", {"action": "insert_fact", "text": "Ada lives in Oslo. " * 20}, True),
    ("knowledge_base", {"action": "ingest_document", "source": "big.txt"}, True),
    ("knowledge_base", {"action": "list_docs"}, True),
    ("recall", {"query": "Where does Ada live?"}, True),
    ("learn_skill", {"mistake": "Read the file as text.", "fix": "Read the file as bytes."}, True),
    ("list_lessons", {}, True),
    ("update_profile", {"key": "city", "value": "Oslo"}, True),
    ("dream_mode", {}, True),
    ("dream_mode", {"action": "apply"}, True),
    (
        "manage_tasks",
        {"action": "create", "name": "report", "schedule": "every weekday at 9", "message": "Report."},
        True,
    ),
    ("manage_tasks", {"action": "list"}, True),
    (
        "manage_projects",
        {
            "action": "create",
            "name": "site",
            "goal": "A site. " * 20,
            "state": "active",
            "tasks": [{"title": f"Write page {number}."} for number in range(100)],
        },
        False,  # the second project of this name is refused
    ),
    ("manage_projects", {"action": "show"}, True),
    ("manage_projects", {"action": "list"}, True),
    ("fetch_page", {"url": "http://knackbox.test/guide.html", "fresh": True, "links": True}, True),
    ("fetch_page", {"url": "http://knackbox.test/guide.html"}, True),
    ("web_search", {"query": "sandbox"}, True),
    ("deep_research", {"question": "Which protections does the sandbox have?", "pages": 4}, True),
    ("fact_check", {"claim": "Code in the sandbox has no network.", "pages": 4}, True),
    ("delegate_to_swarm", {"tasks": ["Say hello.", "Say it again."]}, True),
    ("delegate_to_swarm", {"action": "status"}, True),
    ("self_play", {}, False),  # no chat model is configured
    ("self_play_loop", {"max_cycles": 1}, False),
    ("stop_self_play", {}, True),
    ("vision_analysis", {"path": "image.png"}, True),
    ("vision_analysis", {"path": "a.pdf", "pages": "1-3"}, True),
    ("vision_analysis", {"path": "a.pdf", "query": "the third quarter"}, True),
    ("image_generation", {"prompt": "a dot"}, True),
]


class Meter:
    """Records the longest callback of the loop's thread since the last `take`, in seconds of processor time."""

    def __init__(self) -> None:
        self.longest = (0.0, "")
        run, thread_time = events.Handle._run, time.thread_time

        def measured(handle: Any) -> None:
            began = thread_time()
            run(handle)
            took = thread_time() - began
            if took > self.longest[0]:
                self.longest = (took, repr(handle)[:300])

        events.Handle._run = measured  # type: ignore[method-assign]

    def take(self) -> tuple[float, str]:
        longest, self.longest = self.longest, (0.0, "")
        return longest


def answer(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
    """Answer as a vision model, and as an image model."""
    message = {"role": "assistant", "content": "A dot."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    drawn = {"created": 1, "data": [{"b64_json": base64.b64encode(PNG).decode()}]}
    chat = {"id": "1", "created": 1, "model": "m", "object": "chat.completion", "choices": [choice]}
    body = json.dumps(drawn if "images" in seen.path else chat).encode()
    reply(handler, 200, body, {"Content-Type": "application/json"})


async def main(home: Path) -> None:
    answers = OpenMeteoAnswers()
    answers |= {"/v1/chat/completions": answer, "/v1/images/generations": answer}
    with serving(answers) as server, serving_corpus(CorpusWeb.small()) as web:
        endpoint = f'provider = "openai"\nname = "m"\nbase_url = "{server.url("/v1")}"\napi_key = "k"\n'
        home.mkdir(exist_ok=True)
        urls = f'forecast_url = "{server.url("")}"\ngeocoding_url = "{server.url("")}"\n'
        packs = f"{reaching(web, direct=['127.0.0.1'])}[packs.builtin.weather]\n{urls}"
        (home / "config.toml").write_text(f"[model]\n{endpoint}[vision]\n{endpoint}[image]\n{endpoint}{packs}")
        async with Engine.open(home, environ={}) as engine:
            workspace = home / "workspace"
            (workspace / "image.png").write_bytes(PNG)
            pages = [("1 0 0", f"Page {number} about the harvest of the third quarter") for number in range(200)]
            (workspace / "a.pdf").write_bytes(coloured(*pages))
            for number in range(1_500):
                (workspace / f"file-{number}.txt").write_text("a word\n")
            meter, rows = Meter(), []
            for name, arguments, works in CALLS:
                for again in (False,) if arguments is LONG else (False, True):
                    meter.take()
                    result = await engine.call(name, arguments)
                    await asyncio.sleep(0)
                    seconds, where = meter.take()
                    works_again = works and not (again and name in {"create_skill", "compose_skill"})
                    wrong = result.error[:300] if works_again and not result.success else ""
                    rows.append({"tool": name, "ms": seconds * 1e3, "where": where, "wrong": wrong, "again": again})
            names = [spec.name for spec in await engine.get_active_tool_definitions()]
    print(json.dumps({"rows": rows, "tools": names}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
