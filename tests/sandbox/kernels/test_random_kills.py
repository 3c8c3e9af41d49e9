"""Kernels killed at random moments in random ways: every lost state is reported once, and nothing is left."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import KernelOwner
from sandbox.namespace.backend import NamespaceSandbox
from tests.eventually import eventually
from tests.sandbox.kernels.counting import Counting
from tests.sandbox.test_cleanup import marked, supervisors_of

RUNS_VARIABLE, SEED_VARIABLE = "SOAK_RUNS", "SOAK_SEED"
_ROOT = Path(__file__).parents[3]


class Session(Counting):
    """An agent whose kernel dies in every way, in its cells and between them."""

    def __init__(self, pool: KernelPool, owner: KernelOwner, chance: random.Random, mark: str) -> None:
        super().__init__(pool, owner, chance)
        self._mark = mark

    async def live(self, cells: int) -> None:
        await self.run(f"import subprocess; child = subprocess.Popen(['sleep', '{self._mark}'])")
        for _ in range(cells):
            await self.chance.choice(
                [self.count_on, self.count_on, self.die_in_a_cell, self._die_between, self.cancel]
            )()
        await self.count_on()
        await self.stop()

    async def _die_between(self) -> None:
        for found in self._pool.kernels(self.owner):
            kernel = found.client.kernel
            kernel.signal(signal.SIGKILL)
            async with asyncio.timeout(20):
                await kernel.gone()


async def sessions(count: int, cells: int, seed: int) -> None:
    chance = random.Random(seed)
    mark = f"{os.getpid()}.{seed}77"
    before = set(supervisors_of(os.getpid()))  # provisioners of other tests share one that keeps running
    async with NamespaceSandbox() as box:
        async with KernelPool(box, PoolConfig(warm=1, most=8)) as pool:
            at_once = asyncio.Semaphore(4)

            async def one(number: int) -> None:
                async with at_once:
                    await Session(
                        pool, KernelOwner("local", f"agent {number}"), random.Random(chance.random()), mark
                    ).live(cells)

            await asyncio.gather(*(one(number) for number in range(count)))
            assert pool.kernels() == []
        await eventually(lambda: not marked(mark))
    assert set(supervisors_of(os.getpid())) <= before


@pytest.mark.spec("KERN-5", "KERN-6")
async def test_each_random_kill_is_reported_exactly_once() -> None:
    await sessions(count=6, cells=5, seed=1)


@pytest.mark.soak
@pytest.mark.spec("KERN-5", "KERN-6")
async def test_each_random_kill_is_reported_exactly_once_in_a_long_run() -> None:
    await sessions(count=int(os.environ.get("SOAK_RUNS", "500")), cells=6, seed=int(os.environ.get("SOAK_SEED", "7")))


def kill(runs: int, folder: Path, seed: int) -> dict[str, int]:
    """Kill processes with kernels, and parts of them. Print what was killed, and check what is left.

    Returns:
        How many processes of each kind were killed.
    """
    print(f"{SEED_VARIABLE}={seed} {RUNS_VARIABLE}={runs}", flush=True)
    found = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.kernels.kill_driver", str(runs), str(seed), str(folder)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    report = json.loads(found.stdout)
    print(json.dumps(report))
    assert report["runs"] >= runs
    assert {kind: left for kind, left in report["left"].items() if left} == {}
    assert report["namespaces_seen"] > 0
    killed: dict[str, int] = report["kills"]
    return killed


@pytest.mark.spec("KERN-1", "KERN-5", "BOX-4")
@pytest.mark.timeout(300)
def test_engines_and_provisioners_killed_at_random_leave_nothing(tmp_path: Path) -> None:
    assert kill(8, tmp_path, random.SystemRandom().randrange(1 << 30))  # the kinds are random


@pytest.mark.soak
@pytest.mark.spec("KERN-1", "KERN-5", "BOX-4")
def test_five_hundred_sessions_with_random_kills_leave_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1 << 30))
    killed = kill(int(os.environ.get(RUNS_VARIABLE) or 500), tmp_path, seed)
    assert {"engine", "provisioner"} <= killed.keys()
