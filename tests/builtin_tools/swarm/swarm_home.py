"""An engine with a swarm, and a scripted model that answers by the task, so that the order of requests does not matter."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from engine import Engine
from engine.app.settings import Settings
from tests.agent.run_script import rounds_of, task_of
from tests.agent.run_tools import Effects, source
from tests.agent.scripted_model import Reply, calls, says

Answer = Callable[[dict[str, Any]], Reply]


def last_result(body: dict[str, Any]) -> str:
    """Return the latest result of a call in a request; "" if there is none."""
    results = [each["content"] for each in body["messages"] if each["role"] == "tool"]
    return results[-1] if results else ""


class Tasks:
    """Plays one script for each task: rounds of calls, and then the answer. The first word of a task names its script."""

    def __init__(self, **scripts: Sequence[Sequence[tuple[str, Any]]] | Answer) -> None:
        self._scripts = scripts

    def __call__(self, body: dict[str, Any]) -> Reply:
        task = task_of(body)
        script = self._scripts.get(task.split()[0], [])
        if callable(script):
            return script(body)
        done = len(rounds_of(body["messages"]))
        return calls(*script[done]) if done < len(script) else says(f"done: {task}")


@asynccontextmanager
async def opened(home: Path, url: str, **settings: Any) -> AsyncIterator[Engine]:
    """Open an engine with all packs and tools whose effects are counted."""
    values = {"model": {"name": "scripted", "base_url": url, "timeout_s": 60.0}, **settings}
    given = Settings.model_validate(values)
    async with Engine.open(home, settings=given, sources=[source(Effects(home))], environ={}) as engine:
        yield engine
