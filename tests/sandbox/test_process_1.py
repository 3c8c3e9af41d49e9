"""Process 1 of a box is a small program, where it was compiled, and otherwise a fork of the template."""

import asyncio
import contextlib
import errno
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sandbox.contract import Call, End, Job, Language, Limits, Mount, Outcome, SandboxError
from sandbox.namespace import box as box_module
from sandbox.namespace import probe, process_one, rootfs
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from sandbox.namespace.box import DEFAULT_DISK_BYTES
from sandbox.namespace.box_line import BoxLine
from sandbox.namespace.process_one import OrderKind
from tests.eventually import eventually_sync
from tests.sandbox.soak import residue

pytestmark = pytest.mark.skipif(not process_one.program(), reason="the native process 1 was not compiled")

ADD = Job(files={"m.py": b"def add(a, b): return a + b"}, call=Call("m.py", "add", {"a": 1, "b": 2}))
JOBS = {
    "value": Job(code="[1, 'two', None]"),
    "call": ADD,
    "output": Job(code="import sys; print('out'); print('err', file=sys.stderr)"),
    "error": Job(code="{}['missing']"),
    "exit code": Job(code="raise SystemExit(3)"),
    "exit without a report": Job(code="import os; os._exit(4)"),
    "killed by itself": Job(code="import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
    "bash": Job(language=Language.BASH, code="echo $((6 * 7)); exit 5"),
    "stdin": Job(code="input()", stdin=b"given\n"),
    "child process": Job(code="import subprocess; subprocess.run(['true']).returncode"),
    "left a daemon": Job(code="import os, time\nif os.fork() == 0:\n    time.sleep(600)\n'left'"),
    "memory": Job(code="x = bytearray(1 << 30)", limits=Limits(memory_bytes=64 << 20)),
    "processor time": Job(code="while True: pass", limits=Limits(cpu_s=0.2)),
    "wall time": Job(code="import time; time.sleep(60)", limits=Limits(wall_s=0.2)),
    "disk": Job(code="open('/tmp/x', 'wb').write(bytes(2 << 20))", limits=Limits(disk_bytes=1 << 20)),
    "too much output": Job(code="print('x' * 100_000)", limits=Limits(output_bytes=10_000, capture_bytes=1000)),
    "large value": Job(code="['x' * 1000] * 1000"),
    "value too large": Job(code="'x' * (5 << 20)"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["native", "python"])
async def box(request: pytest.FixtureRequest) -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox(NamespaceConfig(native=request.param == "native")) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def native() -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox() as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def python() -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox(NamespaceConfig(native=False)) as sandbox:
        yield sandbox


def described(outcome: Outcome) -> tuple[object, ...]:
    """Return everything of an outcome that does not depend on the time, so not what a killed worker had become."""
    error = (outcome.error.type, outcome.error.message) if outcome.error else None
    printed = (outcome.stdout[:100], outcome.stderr[:100], outcome.stdout_dropped > 0)
    ended = None if outcome.usage.limits_hit else (outcome.exit_code, outcome.signal)
    return outcome.end, ended, outcome.value, error, printed, outcome.usage.limits_hit


@pytest.mark.spec("BOX-1", "BOX-3", "BOX-13")
@pytest.mark.parametrize("name", JOBS)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_ends_in_the_same_way_with_either_process_1(
    native: NamespaceSandbox, python: NamespaceSandbox, name: str
) -> None:
    assert described(await native.run(JOBS[name])) == described(await python.run(JOBS[name]))


@pytest.mark.spec("BOX-6")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_in_a_workspace_reads_and_writes_it(box: NamespaceSandbox, tmp_path: Path) -> None:
    (tmp_path / "before").write_text("here")
    outcome = await box.run(Job(code="open('after', 'w').write(open('before').read())", workspace=Mount(tmp_path)))
    assert (outcome.end, (tmp_path / "after").read_text()) == (End.OK, "here")


@pytest.mark.spec("BOX-3")
@pytest.mark.asyncio(loop_scope="module")
async def test_what_a_job_used_is_measured_with_either_process_1(box: NamespaceSandbox) -> None:
    busy = "import time\nx = bytearray(50_000_000)\nwhile time.process_time() < 0.3: pass"
    alone = await box.run(Job(code=busy))
    child = await box.run(Job(code=f"import os\nif os.fork() == 0:\n    exec({busy!r})\n    os._exit(0)\nos.wait()"))
    for outcome in (alone, child):
        assert 0.25 < outcome.usage.cpu_s < 2.0
        assert 45_000_000 < outcome.usage.peak_memory_bytes < 90_000_000


@pytest.mark.spec("BOX-13")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_process_that_inherited_the_channel_can_neither_report_nor_flood(box: NamespaceSandbox) -> None:
    """The attempt: a child endlessly writes complete reports to the descriptor on which the worker reports."""
    forge = (
        "import json, os, struct, time\n"
        "text = json.dumps({'end': 'ok', 'exit_code': 0, 'value': 'forged'}).encode()\n"
        "if os.fork() == 0:\n"
        "    while True: os.write(3, struct.pack('!IQ', len(text), 0) + text)\n"
        "time.sleep(0.3)\n'true'"
    )
    beside = asyncio.ensure_future(box.run(ADD))
    outcome = await box.run(Job(code=forge))
    assert (outcome.end, outcome.value) == (End.OK, "true")
    assert (await beside).value == 3


@pytest.mark.spec("BOX-3")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_that_reports_from_another_program_and_ends_at_once_does_not_hide_its_use(
    box: NamespaceSandbox,
) -> None:
    """The attempt: the worker turns into a shell that sends a report, so that its counters are gone when it is read."""
    code = (
        "import json, os, struct, time\n"
        "held = bytearray(30_000_000)\n"
        "while time.process_time() < 0.4: pass\n"
        "text = json.dumps({'end': 'ok', 'exit_code': 0, 'value': 'mine'}).encode()\n"
        "frame = struct.pack('!IQ', len(text), 0) + text\n"
        "os.set_inheritable(3, True)\n"
        "shown = ''.join(f'\\\\{byte:03o}' for byte in frame)\n"
        "os.execv('/bin/sh', ['sh', '-c', f\"printf '{shown}' >&3\"])"
    )
    for _ in range(5):
        outcome = await box.run(Job(code=code))
        assert (outcome.end, outcome.value) == (End.OK, "mine")
        assert outcome.usage.cpu_s > 0.3
        assert outcome.usage.peak_memory_bytes > 25_000_000


@pytest.mark.spec("BOX-2", "BOX-3")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("workspace", [False, True])
async def test_a_job_does_not_run_if_process_1_cannot_be_told_its_limits(
    native: NamespaceSandbox, workspace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = BoxLine.tell

    def refuse_to_start(line: BoxLine, kind: OrderKind, *more: Any) -> OSError | None:
        return OSError(errno.ENOBUFS, "no buffer space") if kind is OrderKind.START else given(line, kind, *more)

    monkeypatch.setattr(BoxLine, "tell", refuse_to_start)
    mount = Mount(tmp_path) if workspace else None
    with pytest.raises(SandboxError, match="could not be prepared for its job: no buffer space"):
        await native.run(Job(code="open('ran', 'w')", workspace=mount))
    assert not (tmp_path / "ran").exists()


@pytest.mark.spec("BOX-2")
def test_doctor_says_how_to_use_the_native_process_1(monkeypatch: pytest.MonkeyPatch) -> None:
    remedies = []
    for chosen in (process_one.IN_PYTHON, ""):
        monkeypatch.setenv(process_one.VARIABLE, chosen)
        (found,) = [each for each in probe.protections("namespace", native=False).items if "process 1" in each.name]
        remedies.append(found.remedy)
    assert "Unset KNACKBOX_PROCESS_1" in remedies[0]
    assert "C compiler" in remedies[1]


@pytest.mark.spec("BOX-1", "BOX-3")
def test_the_program_and_process_1_in_python_have_the_same_limits() -> None:
    source = (Path(process_one.__file__).parent / "native" / "box_init.c").read_text("utf-8")
    defined = dict(re.findall(r"^#define (\w+) (\w+|\(.*\))", source, re.MULTILINE))
    assert defined["DISK_BYTES"] == f"({DEFAULT_DISK_BYTES >> 20}ULL << 20)"
    assert int(defined["INODES"]) == box_module._INODES
    assert int(defined["BOX_ID"]) == rootfs.BOX_ID
    pools = dict(re.findall(r'"/proc/sys/([\w/]+)", "([\d ]+)"', source))
    assert pools == box_module._KERNEL_POOLS
    (kinds,) = re.findall(r"^enum \{(.*?)\}", source, re.MULTILINE)
    assert {kind.name: chr(kind) for kind in OrderKind} == dict(re.findall(r"(\w+) = '(\w)'", kinds))


# A connection whose peer does not read, with unsent data and a long time to linger, is sent to the engine, which would
# have to wait when it discards the socket.
LINGER = """
import array, socket, struct
listener = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(listener.getsockname())
theirs, _ = listener.accept()
ours.setblocking(False)
try:
    while True: ours.send(bytes(1 << 20))
except BlockingIOError:
    pass
ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
channel = socket.socket(fileno=3)
try:
    socket.send_fds(channel, [b"x"], [ours.fileno(), theirs.fileno()])
except OSError:
    pass
channel.detach()
ours.close(), theirs.close()
"""


@pytest.mark.spec("BOX-13")
@pytest.mark.asyncio(loop_scope="module")
async def test_sockets_that_a_job_sends_along_do_not_block_the_engine(box: NamespaceSandbox) -> None:
    """The attempt: make the engine close a socket that lingers for an hour, which would block its event loop."""
    outcome = await box.run(Job(code=LINGER, limits=Limits(wall_s=5)))
    assert outcome.end in (End.OK, End.TIMEOUT)  # process 1 in Python closes the socket, so its own job may hang
    assert (await box.run(ADD)).value == 3


@pytest.mark.spec("BOX-3", "BOX-5")
@pytest.mark.parametrize("name", ["RssAnon:", "RssAnon: 0", "VmHWM:", "Threads: x", "VmPTE:\r9"])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_name_of_a_process_does_not_disturb_the_measurements(box: NamespaceSandbox, name: str) -> None:
    """The attempt: a process takes the name of a field of its status file, which contains the name."""
    code = (
        "import ctypes, time\n"
        f"ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)\n"
        "x = bytearray(50_000_000)\ntime.sleep(0.2)\n'slept'"
    )
    beside = asyncio.ensure_future(box.run(Job(code="import time; time.sleep(0.3); 'beside'")))
    outcome = await box.run(Job(code=code))
    assert (outcome.end, outcome.value) == (End.OK, "slept")
    assert 45_000_000 < outcome.usage.peak_memory_bytes < 90_000_000
    assert (await beside).value == "beside"


ENGINE = """
import asyncio, sys
from sandbox.contract import Job, Limits
from sandbox.namespace.backend import NamespaceSandbox
async def main():
    async with NamespaceSandbox() as box:
        print("ready", flush=True)
        code = "print('running', flush=True)\\nwhile True: pass"
        limits = Limits(wall_s=float(sys.argv[1]), cpu_s=600)
        await box.run(Job(code=code, limits=limits), on_output=lambda *_: print("runs", flush=True))
asyncio.run(main())
"""


@contextlib.contextmanager
def busy_engine(wall_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """Start an engine in a process of its own, with one job, which runs until `wall_s` have passed."""
    with subprocess.Popen([sys.executable, "-c", ENGINE, str(wall_s)], stdout=subprocess.PIPE) as engine:
        try:
            assert engine.stdout is not None
            assert [engine.stdout.readline() for _ in range(2)] == [b"ready\n", b"runs\n"]
            yield engine
        finally:
            engine.kill()


@pytest.mark.slow
@pytest.mark.spec("BOX-1", "BOX-2")
@pytest.mark.timeout(120)
def test_a_native_process_1_holds_no_capability_while_a_job_runs() -> None:
    with busy_engine(60) as engine:

        def all_dropped() -> bool:
            held = {_capabilities(pid) for pid in residue.parts(engine.pid)["box"]} - {None}
            # Process 1 of the job's box holds none. In waiting boxes, it can still mount a workspace.
            return (0, 0) in held and all(each[1] == 0 for each in held if each)

        eventually_sync(all_dropped, deadline_s=40)  # one that was just created has not dropped them yet


@pytest.mark.slow
@pytest.mark.spec("BOX-1")
@pytest.mark.timeout(120)
def test_neither_process_1_nor_the_program_that_creates_it_holds_the_sockets_of_the_template() -> None:
    with busy_engine(60) as engine:

        def none_shared() -> bool:
            parts = residue.parts(engine.pid)
            templates = _sockets(parts["template"])
            assert templates
            assert parts["maker"]
            return not templates & _sockets([*parts["maker"], *parts["box"]])

        eventually_sync(none_shared, deadline_s=40)  # while a box is created, its own are still with all of them


def _capabilities(pid: int) -> tuple[int, int] | None:
    """Return the capabilities that a process can use, and those that it could ever gain; None if it has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        return int(fields["CapEff"], 16), int(fields["CapBnd"], 16)
    return None


def _sockets(pids: list[int]) -> set[str]:
    """Return the sockets that these processes hold, each as its number."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(descriptor.readlink()))
    return {each for each in found if each.startswith("socket:")}


@pytest.mark.slow
@pytest.mark.spec("BOX-1", "BOX-4")
@pytest.mark.timeout(120)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_late_answer_about_a_box_is_not_taken_for_that_about_the_next_one() -> None:
    """The program that creates boxes is stopped until requests for boxes have been given up."""
    others = set(residue.parts(os.getpid())["maker"])
    async with NamespaceSandbox(NamespaceConfig(warm=0)) as box:
        assert (await box.run(ADD)).value == 3
        (maker,) = set(residue.parts(os.getpid())["maker"]) - others
        os.kill(maker, signal.SIGSTOP)
        refused = 0
        try:
            for _ in range(4):
                try:
                    await box.run(ADD)
                except SandboxError:
                    refused += 1
        finally:
            os.kill(maker, signal.SIGCONT)
        assert refused
        assert [(await box.run(ADD)).value for _ in range(6)] == [3] * 6


@pytest.mark.slow
@pytest.mark.spec("BOX-3", "BOX-4")
@pytest.mark.timeout(120)
def test_process_1_ends_the_box_in_time_although_the_engine_is_stopped() -> None:
    with busy_engine(2) as engine:
        code = max(residue.parts(engine.pid)["code"], key=_processor_time)  # the others wait for a job
        ended = os.pidfd_open(code)
        engine.send_signal(signal.SIGSTOP)
        try:
            assert select.select([ended], [], [], 60)[0], "the job still runs"
        finally:
            os.close(ended)


def _processor_time(pid: int) -> int:
    """Return the time in user mode that a process has taken, in ticks."""
    return int(residue.stat_of(pid)[11])
