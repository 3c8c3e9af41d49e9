"""An engine that runs a program which changes files, until it is killed. Arguments: home, what."""

import asyncio
import sys

from engine import Engine
from engine.app.settings import Settings
from engine.contract.turn import Turn

CODE = """
import os
for number in range(100_000):
    name = f"{number % 50}.txt"
    if os.path.exists(name) and number % 3 == 0:
        os.remove(name)
    else:
        open(name, "w").write(f"agent {number}")
    if number == 200:
        print("changing", flush=True)
"""


async def main(home: str, what: str) -> None:
    settings = Settings.model_validate({"kernels": {"warm": 0}})
    async with Engine.open(home, settings=settings, environ={}) as engine:
        arguments = {"language": "python", "code": CODE, "stateful": what == "kernel", "timeout_s": 100.0}
        async for event in engine.stream("execute", arguments, Turn(run="run1")):
            print(event, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
