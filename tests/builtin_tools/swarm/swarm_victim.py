"""A process that works on a run with a swarm, until somebody kills it. Its arguments are the home and the model's URL."""

import asyncio
import sys
from pathlib import Path

from engine.app.conversation import open_conversation, runs_of
from tests.builtin_tools.swarm.swarm_home import opened

MESSAGE = "plan"


async def work(home: Path, url: str) -> None:
    """Begin the run, or resume it, and print how it ended."""
    async with opened(home, url) as engine, open_conversation(engine, leave_open=True) as conversation:
        children = {child.id for child in engine.services.child_runs.unended()}
        parents = [run for run in engine.runs.interrupted() if run not in children]
        if parents:
            report = await conversation.resume(await runs_of(engine).open(parents[0]))
        else:
            report = await conversation.run(MESSAGE)
        print(report.finish.value, flush=True)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
