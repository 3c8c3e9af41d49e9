"""Processes that play a cycle, or undo all cycles, until they are killed at a write.

This process imports everything and then forks one victim for each line of its input: the home, the base URL of the
model, "play" or "undo", the number of the write at which the victim kills itself (0: never), and whether it does so
before or after the commit. The answer is the number of writes of a victim that ended, or "killed".
"""

import asyncio
import os
import sys
from pathlib import Path

from builtin_tools.self_play.self_play import SelfPlay
from engine import Engine
from engine.contract.turn import Turn
from tests.agent.run_victims import KillAtWrite
from tests.builtin_tools.self_play.conftest import settings_for


async def work(home: Path, url: str, what: str, kill: KillAtWrite) -> None:
    async with Engine.open(home, settings=settings_for(url), environ={}) as engine:
        play = engine.need(SelfPlay)
        kill.arm()
        if what == "undo":
            await play.undo_all()
        else:
            await play.play(Turn())


def main() -> None:
    for line in sys.stdin:
        home, url, what, number, moment = line.split()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            kill = KillAtWrite(int(number), moment)
            kill.install()
            asyncio.run(work(Path(home), url, what, kill))
            os.write(writer, str(kill.count).encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(pid, 0)
        answer = os.read(reader, 100).decode()
        os.close(reader)
        print(answer or "killed", flush=True)


if __name__ == "__main__":
    import engine.app.conversation  # noqa: F401 -- loaded once, before the forks

    main()
