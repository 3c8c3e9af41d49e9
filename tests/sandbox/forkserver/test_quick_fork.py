"""A worker forked without `os.fork` behaves like one forked with it."""

import os
import random
import subprocess
import sys

import pytest

from sandbox.contract import End, Job
from sandbox.forkserver import quick_fork
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

_STATE = """
import os, random, secrets, threading, uuid
assert threading.main_thread() is threading.current_thread() and threading.active_count() == 1
assert threading.main_thread().native_id == threading.get_native_id() == os.getpid()
print(random.random(), random.SystemRandom().random(), secrets.token_hex(8), uuid.uuid4())
"""
_FORK_WITH_THREADS = """
import os, random, threading
busy = threading.Event()
threading.Thread(target=busy.wait, daemon=True).start()
before = random.getstate()
if os.fork() == 0:
    os._exit(threading.active_count() + 10 * (random.getstate() == before))
print(os.waitstatus_to_exitcode(os.wait()[1]))
busy.set()
"""


@pytest.mark.asyncio
@pytest.mark.spec("BOX-8")
async def test_every_worker_has_random_numbers_and_a_main_thread_of_its_own() -> None:
    async with NamespaceSandbox(NamespaceConfig(warm=1)) as box:
        outcomes = [await box.run(Job(code=_STATE)) for _ in range(4)]
    assert all(outcome.end is End.OK for outcome in outcomes), outcomes
    values = [outcome.stdout.split() for outcome in outcomes]
    assert all(len(set(same)) == len(outcomes) for same in zip(*values, strict=True)), values


@pytest.mark.asyncio
@pytest.mark.spec("BOX-8")
async def test_a_fork_by_the_job_has_one_thread_and_new_random_numbers() -> None:
    async with NamespaceSandbox(NamespaceConfig(warm=1)) as box:
        outcome = await box.run(Job(code=_FORK_WITH_THREADS))
    assert (outcome.end, outcome.stdout.strip()) == (End.OK, b"1"), outcome


@pytest.mark.spec("BOX-8")
def test_a_module_that_registers_a_function_of_another_one_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: registered.append(hooks))
    before = os.register_at_fork
    with quick_fork.noted_hooks() as hooks:
        exec("import os, random\nos.register_at_fork(after_in_child=random.seed)", {"__name__": "a_package.threads"})
    assert (hooks, registered, os.register_at_fork) == (
        ["a_package.threads"],
        [{"after_in_child": random.seed}],
        before,
    )


_CHOICES = """
import os, threading
from sandbox.forkserver.quick_fork import choose
from sandbox.linux import syscalls
alone = (choose(["random", "logging.handlers"]) is syscalls.fork, choose(["random", "a_package.threads"]) is os.fork)
ended = threading.Event()
threading.Thread(target=ended.wait).start()
beside = choose(["random"]) is os.fork
ended.set()
print(*alone, beside)
"""


@pytest.mark.spec("BOX-8")
def test_only_a_template_with_one_thread_and_hooks_of_python_forks_without_python() -> None:
    done = subprocess.run([sys.executable, "-c", _CHOICES], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True", "True"]
