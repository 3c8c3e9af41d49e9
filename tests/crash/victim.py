"""An engine that learns skills and makes calls until it is killed. Arguments: home, mark, seed."""

import asyncio
import random
import sys

from engine import Engine

CODE = '''def {name}(number: int) -> int:
    """Add {amount} to a number.

    Args:
        number: The number.
    """
    return number + {amount}
'''
TESTS = "from {name} import {name}\n\n\ndef test_it():\n    assert {name}(1) == 1 + {amount}\n"
# A daemon in a separate session, which would survive if the engine only killed its child.
STUBBORN = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{mark}"])
    os._exit(0)
time.sleep(0.2)
"""


async def main(home: str, mark: str, seed: int) -> None:
    pick = random.Random(seed)
    async with Engine.open(home=home) as engine:
        print("ready", flush=True)

        async def learn() -> None:
            while True:
                name, amount = f"add_{pick.choice('abcdef')}", pick.randrange(1000)
                proposal = {
                    "code": CODE.format(name=name, amount=amount),
                    "tests": TESTS.format(name=name, amount=amount),
                }
                result = await engine.call(
                    "create_skill", {"name": name, "description": f"Adds {amount}.", "breaking": True, **proposal}
                )
                print(f"learned {name} {amount}" if result.success else "refused", flush=True)
                if pick.random() < 0.3:
                    await engine.call("manage_skills", {"action": "delete", "name": name})

        async def call() -> None:
            while True:
                await engine.call("execute", {"language": "python", "code": STUBBORN.format(mark=mark)})

        await asyncio.gather(learn(), call())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
