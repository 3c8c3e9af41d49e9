"""Acquires one environment: `python -m tests.sandbox.environments.builder <cache> <environ> <requirement>`.

Prints "waiting", then the output of uv, then "have <folder>", and keeps the environment until its input is closed.
"""

import asyncio
import json
import sys
from pathlib import Path

from sandbox.environments.environments import Environments, EnvironmentsConfig


async def main(cache: str, environ: str, requirement: str) -> None:
    environments = Environments(EnvironmentsConfig(cache=Path(cache)), environ=json.loads(environ))
    print("waiting", flush=True)
    said = lambda line: print(line, flush=True)  # noqa: E731
    with await environments.acquire((requirement,), on_progress=said) as environment:
        print("have", environment.site_packages, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
