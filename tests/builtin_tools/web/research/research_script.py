"""Calls the research tools of an engine in a process of its own, with a scripted model, for tests in network namespaces.

Standard input: JSON with ``home``, ``config`` (of the engine, without a model), ``together`` (how many calls are made
at a time) and ``calls``, a list of tools and arguments. The model makes the claims of `planned` for their questions,
and gives the evidence of `planned_facts` for the claims of facts. It listens on loopback. Standard output: a JSON
line with the results of all calls.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from engine import Engine
from tests.agent.scripted_model import Reply, serving
from tests.builtin_tools.web.research.scripted_claims import answering, prompt_of
from tests.builtin_tools.web.research.scripted_facts import judging_facts, planned_facts
from tests.builtin_tools.web.research.test_forty_questions import planned


async def main() -> None:
    given = json.loads(await asyncio.to_thread(sys.stdin.read))
    home = Path(given["home"])
    plans = planned()
    research = answering(lambda question: [plan.claim for plan in plans if plan.question == question])
    facts = judging_facts(planned_facts())

    def script(body: dict[str, Any]) -> Reply:
        return facts(body) if prompt_of(body).startswith("Claim: ") else research(body)

    slots = asyncio.Semaphore(given["together"])
    async with serving(script) as model:
        endpoint = f'[model]\nprovider = "openai"\nname = "scripted"\nbase_url = "{model.base_url}"\napi_key = "k"\n'
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(given["config"] + endpoint)
        async with Engine.open(home, environ={}) as engine:

            async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
                async with slots:
                    result = await engine.call(name, arguments)
                return {"success": result.success, "output": result.output, "text": result.text}

            results = await asyncio.gather(*(call(name, arguments) for name, arguments in given["calls"]))
    sys.stdout.write(f"{json.dumps(results)}\n")


if __name__ == "__main__":
    asyncio.run(main())
