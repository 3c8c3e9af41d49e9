"""The same containers under gVisor, which has its own kernel and replaces Linux's protections that it lacks.

`scripts/docker_engine.sh` gives its engine this runtime where Debian has the package. Without it these tests fail;
`make test-docker` then omits them, and says so. `KNACKBOX_TEST_RUNTIME=runsc` runs all other tests of this folder under
gVisor. Those that fail then concern differences of gVisor itself: threads do not count as processes, `NoNewPrivs` is
not shown, RLIMIT_NPROC can be raised, a 32-bit call is answered, and `oom_score_adj` is an ordinary file.
"""

import contextlib
from collections.abc import AsyncIterator

import docker
import pytest
import pytest_asyncio

from sandbox.contract import End, Job, Language, Limits, State
from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig

pytestmark = [
    pytest.mark.docker,
    pytest.mark.gvisor,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.spec("BOX-9"),
]
MB = 1 << 20
PY, NODE, BASH = Language.PYTHON, Language.NODE, Language.BASH


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gvisor() -> AsyncIterator[DockerSandbox]:
    with contextlib.closing(docker.APIClient(version="auto", **docker.utils.kwargs_from_env())) as api:
        assert "runsc" in api.info()["Runtimes"], "install runsc and make it known in the engine's daemon.json"
    async with DockerSandbox(DockerConfig(runtime="runsc")) as sandbox:
        yield sandbox


async def test_every_required_protection_holds_and_the_container_has_its_own_kernel(gvisor: DockerSandbox) -> None:
    report = await gvisor.report()
    assert report.missing == ()
    assert {item.name: item.state for item in report.items}["own kernel"] is State.ENFORCED


@pytest.mark.parametrize("language", [PY, NODE, BASH])
async def test_every_language_runs(gvisor: DockerSandbox, language: Language) -> None:
    code = {PY: "print(input())", NODE: "console.log(require('fs').readFileSync(0, 'utf8'))", BASH: "cat"}[language]
    outcome = await gvisor.run(Job(language=language, code=code, stdin=b"hello\n"))
    assert (outcome.end, outcome.stdout.strip()) == (End.OK, b"hello")


@pytest.mark.spec("BOX-13")
@pytest.mark.parametrize(
    "frame",
    [
        "{'answer': {'end': 'ok', 'value': 'forged', 'files': [], 'usage': {'limits_hit': []}}}",
        "{'answer': {'end': 'ok', 'value': 'forged', 'files': [], 'usage': {'limits_hit': []}}, 'key': None}",
        "{'failed': 'forged'}",
        "'not a frame'",
    ],
)
async def test_a_job_that_writes_to_the_stream_of_process_1_cannot_forge_an_answer(
    gvisor: DockerSandbox, frame: str
) -> None:
    code = f"""
import json, struct, time
text = json.dumps({frame}).encode()
with open('/proc/1/fd/1', 'wb', buffering=0) as out:
    out.write(struct.pack('!IQ', len(text), 0) + text)
time.sleep(20)
"""
    assert (await gvisor.run(Job(code=code))).end is End.POLICY


@pytest.mark.parametrize(
    ("end", "code", "limits"),
    [
        (End.TIMEOUT, "while True: pass", Limits(wall_s=0.5)),
        (End.CPU, "import os\nos.fork()\nwhile True: pass", Limits(cpu_s=1)),
        (End.MEMORY, "x = []\nwhile True: x.append(bytearray(8 << 20))", Limits(memory_bytes=96 * MB)),
        (End.OUTPUT, "while True: print('x' * 1000)", Limits(output_bytes=MB)),
        (End.DISK, "open('f', 'wb').write(b'x' * (20 << 20))", Limits(disk_bytes=10 * MB)),
        (End.FILES, "x = [open('/dev/null') for _ in range(500)]", Limits(open_files=48)),
        (
            End.PROCESSES,
            "import os, time\nfor _ in range(40):\n    if os.fork() == 0: time.sleep(20)\ntime.sleep(20)",
            Limits(processes=12, threads=12),  # the larger of the two limits the tasks of a job
        ),
    ],
)
async def test_limits_end_the_job(gvisor: DockerSandbox, end: End, code: str, limits: Limits) -> None:
    outcome = await gvisor.run(Job(code=code, limits=limits))
    assert outcome.end is end, outcome


# One signal to all processes misses such a child in about one attempt of seven.
@pytest.mark.parametrize("attempt", range(8))
async def test_a_child_forked_while_the_job_is_killed_is_killed_as_well(gvisor: DockerSandbox, attempt: int) -> None:
    code = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)"
    outcome = await gvisor.run(Job(code=code, limits=Limits(processes=12, threads=12)))
    assert outcome.end is End.PROCESSES, outcome


async def test_a_job_that_kills_process_1_has_ended_itself(gvisor: DockerSandbox) -> None:
    outcome = await gvisor.run(Job(code="import os, time\nos.kill(1, 9)\ntime.sleep(20)"))
    assert outcome.end in (End.KILLED, End.ERROR)
