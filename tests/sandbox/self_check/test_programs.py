"""A program behaves in a box as it does outside."""

import os
import socket
from pathlib import Path

import pytest

from sandbox import worker
from sandbox.contract import End, Job, Language, Mount
from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check import programs
from sandbox.self_check.check import Check
from sandbox.unsafe import UnsafeSandbox
from sandbox.wire.results import ResultChannel
from tests.descriptors import open_descriptors

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-15")]


def case(check: Check) -> object:
    return pytest.param(check, id=check.name)


@pytest.mark.parametrize("check", [case(check) for check in programs.CHECKS])
async def test_a_program_behaves_as_expected_in_a_box(box: NamespaceSandbox, check: Check) -> None:
    await check.run(box)


@pytest.mark.parametrize("check", [case(check) for check in programs.CHECKS])
async def test_a_program_behaves_as_expected_in_the_landlock_backend(check: Check) -> None:
    sandbox = LandlockSandbox()
    try:
        await check.run(sandbox)
    finally:
        await sandbox.aclose()


async def test_without_a_sandbox_a_forked_child_does_not_end_the_job_either() -> None:
    code = "import os, sys\nif os.fork() == 0: sys.exit(0)\nos.wait()\n'parent'"
    assert (await UnsafeSandbox().run(Job(code=code))).value == "parent"


async def test_the_childs_end_is_not_the_end_of_the_job(box: NamespaceSandbox) -> None:
    code = "import os, sys, time\nif os.fork() == 0: sys.exit(0)\ntime.sleep(0.1)\nprint('parent')"
    outcome = await box.run(Job(code=code))
    assert (outcome.end, outcome.stdout) == (End.OK, b"parent\n")


async def test_a_daemon_thread_does_not_keep_an_open_file_from_being_written(box: NamespaceSandbox) -> None:
    code = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "f = open('kept', 'w'); _ = f.write('written')"
    )
    outcome = await box.run(Job(code=code, collect=("kept",)))
    assert outcome.files == {"kept": b"written"}
    assert outcome.stderr == b""


async def test_a_job_may_have_a_package_named_like_one_of_ours(box: NamespaceSandbox) -> None:
    job = Job(code="import sandbox, sys\n[sandbox.WHOSE, [n for n in sys.modules if 'sandbox' in n]]",
              files={"sandbox/__init__.py": b"WHOSE = 'mine'"})  # fmt: skip
    assert (await box.run(job)).value == ["mine", ["sandbox"]]


async def test_the_jobs_own_excepthook_is_called(box: NamespaceSandbox) -> None:
    code = "import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__)\nraise KeyError('x')"
    outcome = await box.run(Job(code=code))
    assert (outcome.end, outcome.stdout, outcome.stderr) == (End.ERROR, b"hooked KeyError\n", b"")
    assert outcome.error is not None
    assert outcome.error.type == "KeyError"


async def test_a_job_that_closes_every_descriptor_still_ends_correctly(box: NamespaceSandbox, tmp_path: Path) -> None:
    code = "import os\nos.closerange(3, 256)\nf = open('taken', 'wb', buffering=0); [f.fileno()]"
    outcome = await box.run(Job(code=code, workspace=Mount(tmp_path)))
    assert (outcome.end, outcome.exit_code) == (End.OK, 0)
    assert (tmp_path / "taken").read_bytes() == b""


@pytest.mark.spec("BOX-16")
class TestPseudoTerminals:
    async def test_a_program_can_be_run_in_a_terminal(self, box: NamespaceSandbox) -> None:
        code = """
import os, pty
pid, terminal = pty.fork()
if pid == 0:
    os.execvp('tty', ['tty'])
seen = b''
try:
    while data := os.read(terminal, 100): seen += data
except OSError: pass
os.waitpid(pid, 0)
[seen.decode(), sorted(os.listdir('/dev/pts'))]
"""
        outcome = await box.run(Job(code=code))
        assert outcome.value == ["/dev/pts/0\r\n", ["0", "ptmx"]], outcome

    async def test_the_two_ends_of_a_terminal_are_connected(self, box: NamespaceSandbox) -> None:
        code = """
import os, termios
ours, theirs = os.openpty()
os.write(theirs, b'line\\n')
[os.read(ours, 100).decode(), os.isatty(theirs), os.ttyname(theirs), os.stat('/dev/ptmx').st_mode & 0o777]
"""
        outcome = await box.run(Job(code=code))
        assert outcome.value == ["line\r\n", True, "/dev/pts/0", 0o666], outcome

    async def test_bash_gets_a_terminal_from_the_script_command(self, box: NamespaceSandbox) -> None:
        code = "script -qc 'test -t 0 && test -t 1 && echo both' /dev/null"
        outcome = await box.run(Job(language=Language.BASH, code=code))
        assert outcome.stdout == b"both\r\n", outcome

    async def test_each_box_has_its_own_terminals(self, box: NamespaceSandbox) -> None:
        code = "import os\n_ = os.openpty()\n[os.listdir('/dev/pts')]"
        values = [(await box.run(Job(code=code))).value for _ in range(2)]
        assert [sorted(value[0]) for value in values] == [["0", "ptmx"]] * 2


async def test_the_result_channel_accepts_one_process_and_no_descriptors() -> None:
    channel = ResultChannel()
    frame = worker.pack({"end": "ok"})
    pid = os.fork()
    if pid == 0:
        os.write(channel.worker_end, b"from another process")
        os._exit(0)
    os.waitpid(pid, 0)
    channel.accept_from(os.getpid())
    handed = {os.readlink(f"/proc/self/fd/{number}") for number in range(3)}
    before = sum(each in handed for each in open_descriptors())
    ours = socket.socket(fileno=channel.worker_end)
    socket.send_fds(ours, [frame[:5]], [0, 1, 2])
    ours.sendall(frame[5:])
    assert channel.drain()
    assert sum(each in handed for each in open_descriptors()) == before
    assert bytes(channel.received) == frame
    assert channel.complete
    ours.close()
    assert not channel.drain()
    channel.close()


async def test_the_result_channel_cannot_be_reopened() -> None:
    channel = ResultChannel()
    with pytest.raises(OSError, match="No such device or address"):
        os.open(f"/proc/self/fd/{channel.worker_end}", os.O_RDWR)
    os.close(channel.worker_end)
    channel.close()
