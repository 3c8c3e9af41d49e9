"""A process with a sandbox that runs batches of jobs ordered on stdin, and is killed by `soak.driver`.

An order is one line of JSON: {"jobs": the number of jobs, "seed": the seed of their mixture}. The answer is a `.` for
each job that has ended in any way, then one line of JSON: {"ends": {end: count}}. At the end of stdin, the process
closes the sandbox and exits.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from pathlib import Path

from sandbox.contract import Job, Language, Limits, Mount, SandboxError
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

AT_ONCE = 4
DAEMON = """
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
pair = socket.socketpair()
open("/dev/shm/left", "wb").write(b"x" * 4096)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"left a daemon"
"""
IN_WORKSPACE = "import os\nopen('scratch', 'w').write('x')\nos.remove('scratch')\nos.listdir()"


def jobs(seed: int, count: int, workspace: Path) -> list[Job]:
    """Return a mixture of jobs: quick, slow, noisy, forking, in a workspace, in another language, over a limit."""
    limits = Limits(wall_s=10.0)
    kinds = (
        Job(code="6 * 7", limits=limits),
        Job(code="import time; time.sleep(0.03); 'slow'", limits=limits),
        Job(code="print('x' * 100_000)", limits=limits),
        Job(code=DAEMON, limits=limits),
        Job(code=IN_WORKSPACE, workspace=Mount(workspace), limits=limits),
        Job(language=Language.BASH, code="sleep 0.02 & echo $$ > /tmp/pid; wait", limits=limits),
        Job(code="while True: pass", limits=Limits(wall_s=0.05)),
        Job(code="raise ValueError('no')", limits=limits),
    )
    mixture = random.Random(seed)
    return [mixture.choice(kinds) for _ in range(count)]


async def batch(box: NamespaceSandbox, waiting: list[Job]) -> Counter[str]:
    """Run the jobs, and count how they ended. A kill must lead to an outcome or a SandboxError, and nothing else."""
    ends: Counter[str] = Counter()

    async def lane() -> None:
        while waiting:
            try:
                ends[(await box.run(waiting.pop())).end.value] += 1
            except SandboxError:
                ends["refused"] += 1
            sys.stdout.write(".")
            sys.stdout.flush()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(lane())
    return ends


async def main(workspace: Path) -> None:
    async with NamespaceSandbox(NamespaceConfig(warm=2, most_warm=2, forks_per_template=1000)) as box:
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            ends = await batch(box, jobs(order["seed"], order["jobs"], workspace))
            sys.stdout.write(json.dumps({"ends": ends}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
