"""Calls tools of an engine in a process of its own, for tests in network namespaces.

Standard input: JSON with ``home``, ``config`` (the text of config.toml) and ``calls``, a list of tools and arguments.
Standard output: a JSON line for each call.
"""

import asyncio
import json
import sys
from pathlib import Path

from engine import Engine


async def main() -> None:
    given = json.loads(await asyncio.to_thread(sys.stdin.read))
    home = Path(given["home"])
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(given["config"])
    async with Engine.open(home, environ={}) as engine:
        for name, arguments in given["calls"]:
            result = await engine.call(name, arguments)
            reason = result.failure.reason if result.failure is not None else ""
            line = {"success": result.success, "output": result.output, "text": result.text, "reason": reason}
            sys.stdout.write(f"{json.dumps(line)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
