"""Attacks of code in a box on the host; all of them fail. A successful attack would be detected."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Language, Mount, Writes
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-1", "BOX-5")]
SECRET = "canary-5f1c"


@pytest.fixture(autouse=True)
def canary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a secret in the host's environment and in a host file that anybody may read."""
    monkeypatch.setenv("KNACKBOX_TEST_SECRET", SECRET)
    with tempfile.NamedTemporaryFile("w", prefix="knackbox-canary-", dir="/tmp") as file:
        file.write(SECRET)
        file.flush()
        os.chmod(file.name, 0o644)
        yield Path(file.name)


# (what is attempted, code that evaluates to the secret or raises)
LOOT = [
    ("read the environment of process 1", "open('/proc/1/environ').read()"),
    ("read its own environment", "import os; dict(os.environ)"),
    ("find the secret in any environment", "import glob\n[open(p).read() for p in glob.glob('/proc/[0-9]*/environ')]"),
    ("read the host's file in /tmp", "open({canary!r}).read()"),
    ("reach the host's root through /proc/1/root", "open('/proc/1/root' + {canary!r}).read()"),
    ("reach it through the working directory of process 1", "open('/proc/1/cwd' + {canary!r}).read()"),
    ("list the host's /tmp", "import os; os.listdir('/tmp')"),
    ("list homes", "import os; os.listdir('/home') + os.listdir('/var') + os.listdir('/run')"),
    ("read the host's users", "open('/etc/shadow').read()"),
    ("read the kernel's memory map", "open('/proc/kcore', 'rb').read(16)"),
]


@pytest.mark.parametrize(("attempt", "code"), LOOT, ids=[a for a, _ in LOOT])
async def test_nothing_of_the_host_is_seen(box: NamespaceSandbox, canary: Path, attempt: str, code: str) -> None:
    outcome = await box.run(Job(code=code.format(canary=str(canary))))
    everything = repr(outcome.value) + outcome.stdout.decode() + repr(outcome.error)
    assert outcome.end in (End.OK, End.ERROR)
    assert SECRET not in everything
    assert canary.name not in repr(outcome.value)


async def test_host_processes_are_invisible(box: NamespaceSandbox) -> None:
    outcome = await box.run(Job(code="import os\nsorted(int(p) for p in os.listdir('/proc') if p.isdigit())"))
    assert outcome.value == [1, 2]


async def test_a_box_does_not_see_or_signal_its_neighbour(box: NamespaceSandbox) -> None:
    code = "import os, signal\ntry:\n    os.kill(-1, signal.SIGKILL)\nexcept ProcessLookupError:\n    pass\n'alive'"
    outcome = await box.run(Job(code=code))
    assert outcome.end in (End.OK, End.KILLED)
    assert (await box.run(Job(code="'neighbour'"))).value == "neighbour"


# (what is attempted, code that returns a value that is not negative only if the kernel allows it)
FORBIDDEN = [
    ("mount a file system", "libc.mount(b'x', b'/tmp', b'tmpfs', 0, None)"),
    ("unmount /proc", "libc.umount2(b'/proc', 2)"),
    ("new user namespace", "libc.unshare(0x10000000)"),
    ("new user namespace with clone", "libc.syscall(56, 0x10000011, 0, 0, 0, 0)"),
    ("new user namespace with clone3", "libc.syscall(435, 0, 0)"),
    ("chroot", "libc.chroot(b'/tmp')"),
    ("pivot_root", "libc.syscall(155, b'/tmp', b'/tmp')"),
    ("trace process 1", "libc.ptrace(16, 1, 0, 0)"),
    ("load a BPF program", "libc.syscall(321, 0, 0, 0)"),
    ("open a performance counter", "libc.syscall(298, 0, 0, -1, -1, 0)"),
    ("io_uring", "libc.syscall(425, 8, ctypes.create_string_buffer(256))"),
    ("userfaultfd", "libc.syscall(323, 0)"),
    ("kernel keyring", "libc.syscall(250, 0, -3, 1)"),
    ("open a file by handle", "libc.syscall(304, -100, 0, 0)"),
    ("load a kernel module", "libc.syscall(313, 0, b'', 0)"),
    ("reboot", "libc.reboot(0)"),
    ("set the clock", "libc.syscall(227, 0, ctypes.create_string_buffer(16))"),
    ("set the host name", "libc.sethostname(b'pwned', 5)"),
    ("become root", "libc.setuid(0)"),
    ("give itself capabilities", "libc.syscall(126, (ctypes.c_uint32*2)(0x20080522, 0), (ctypes.c_uint32*6)(1, 1, 1))"),
    ("raw packet socket", "libc.socket(17, 3, 768)"),
    ("netlink socket", "libc.socket(16, 3, 0)"),
    ("kernel crypto socket", "libc.socket(38, 5, 0)"),
    ("socket to the hypervisor", "libc.socket(40, 1, 0)"),
    ("x32 system call", "libc.syscall(0x40000000 + 39)"),
    ("System V shared memory", "libc.syscall(29, 0, 4096, 0o1600)"),
    ("anonymous file in memory", "libc.syscall(319, b'x', 0)"),
    ("type into the terminal", "libc.ioctl(0, 0x5412, b'x')"),
    ("write to process 1's memory", "os.open('/proc/1/mem', os.O_RDWR)"),
    ("raise its own limits", "resource.setrlimit(resource.RLIMIT_NPROC, (10**6, 10**6)) or 0"),
    ("write to the system's folders", "os.open('/usr/x', os.O_CREAT | os.O_WRONLY)"),
    ("write into the packages", "os.open('/env/0/x', os.O_CREAT | os.O_WRONLY)"),
    ("write to the root", "os.open('/x', os.O_CREAT | os.O_WRONLY)"),
    ("make a device", "os.mknod('/tmp/mem', 0o20600, os.makedev(1, 1)) or 0"),
    ("remount the root read-write", "libc.mount(b'', b'/', b'', 32 | 4096, None)"),
    ("write a kernel setting", "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)"),
    ("lower its own score with the OOM killer", "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000')"),
]
PRELUDE = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
try:
    result = {attempt}
except OSError as problem:
    result = -problem.errno
except ValueError:
    result = -1
result
"""


@pytest.mark.parametrize(("attempt", "code"), FORBIDDEN, ids=[a for a, _ in FORBIDDEN])
async def test_the_kernel_refuses(box: NamespaceSandbox, attempt: str, code: str) -> None:
    outcome = await box.run(Job(code=PRELUDE.replace("{attempt}", code)))
    assert outcome.end is End.OK, outcome
    assert outcome.value < 0, f"{attempt} worked"


async def test_a_32_bit_system_call_kills_or_fails(box: NamespaceSandbox) -> None:
    """Make a call with int 0x80, for which the numbers in the filter would be wrong."""
    code = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
ctypes.CFUNCTYPE(ctypes.c_int)(address)()
"""
    outcome = await box.run(Job(code=code))
    assert outcome.end in (End.POLICY, End.ERROR)
    assert outcome.signal is not None


async def test_there_is_no_network_but_its_own_loopback(box: NamespaceSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""
import socket
def attempt(address):
    try:
        socket.create_connection(address, 2).close()
        return "connected"
    except OSError as problem:
        return problem.strerror
own = socket.create_server(("127.0.0.1", 0))
[attempt(("127.0.0.1", {port})), attempt(("192.0.2.1", 80)), attempt(own.getsockname())]
"""
        refused, unreachable, own = (await box.run(Job(code=code))).value
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (refused, unreachable, own) == ("Connection refused", "Network is unreachable", "connected")


async def test_abstract_unix_sockets_of_the_host_are_out_of_reach(box: NamespaceSandbox) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0knackbox-test-abstract")
        server.listen()
        code = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0knackbox-test-abstract')"
        assert (await box.run(Job(code=code))).end is End.ERROR


async def test_no_descriptor_of_the_engine_is_inherited(box: NamespaceSandbox) -> None:
    outcome = await box.run(
        Job(
            code="import os\nsorted(os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}'))"
        )
    )
    assert outcome.end is End.OK
    assert len(outcome.value) <= 5
    assert "anon_inode" not in outcome.value
    assert outcome.value.count("socket") == 1  # the result channel to process 1 of the box


@pytest.mark.parametrize("language", [Language.BASH, Language.NODE])
async def test_other_languages_are_as_confined(box: NamespaceSandbox, canary: Path, language: Language) -> None:
    code = {
        Language.BASH: f"cat {canary}; env; cat /proc/*/environ; cat /proc/self/status",
        Language.NODE: f"const fs=require('fs');try{{console.log(fs.readFileSync('{canary}','utf8'))}}catch(e){{}}\n"
        "console.log(JSON.stringify(process.env), fs.readFileSync('/proc/self/status', 'utf8'))",
    }[language]
    text = (await box.run(Job(language=language, code=code))).stdout.decode()
    assert SECRET not in text
    assert "CapEff:\t0000000000000000" in text
    assert "NoNewPrivs:\t1" in text
    assert "Seccomp:\t2" in text


@pytest.mark.spec("BOX-6")
class TestWorkspace:
    async def test_a_workspace_is_shared_read_write_and_its_owner_owns_new_files(
        self, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        (tmp_path / "in.txt").write_text("hello")
        job = Job(code="open('out.txt', 'w').write(open('in.txt').read() * 2)", workspace=Mount(tmp_path))
        assert (await box.run(job)).end is End.OK
        assert (tmp_path / "out.txt").read_text() == "hellohello"
        assert (tmp_path / "out.txt").stat().st_uid == tmp_path.stat().st_uid
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.txt"]

    async def test_a_workspace_can_be_read_only(self, box: NamespaceSandbox, tmp_path: Path) -> None:
        outcome = await box.run(Job(code="open('x', 'w')", workspace=Mount(tmp_path, Writes.NO)))
        assert outcome.end is End.ERROR
        assert list(tmp_path.iterdir()) == []

    async def test_a_link_that_points_out_of_a_workspace_leads_nowhere(
        self, box: NamespaceSandbox, tmp_path: Path, canary: Path
    ) -> None:
        (tmp_path / "out").symlink_to(canary)
        (tmp_path / "up").symlink_to("../../..")
        code = f"import os\n[os.path.exists('out'), os.path.exists('up{canary}'), os.path.exists('../{canary.name}')]"
        assert (await box.run(Job(code=code, workspace=Mount(tmp_path)))).value == [False, False, False]

    async def test_set_uid_files_left_in_a_workspace_give_no_rights(
        self, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        code = "cp /usr/bin/id ./id; chmod u+s id; ./id -u"
        outcome = await box.run(Job(language=Language.BASH, code=code, workspace=Mount(tmp_path)))
        assert outcome.stdout.strip() == b"1000"


@pytest.mark.spec("KERN-1")
async def test_zeromq_binds_and_talks_in_a_box(box: NamespaceSandbox) -> None:
    """Use ZeroMQ, which lists network devices and sets the policy of its threads, and aborts at an unknown error."""
    code = """
import zmq
context = zmq.Context()
server, client = context.socket(zmq.REP), context.socket(zmq.REQ)
port = server.bind_to_random_port('tcp://127.0.0.1')
client.connect(f'tcp://127.0.0.1:{port}')
client.send(b'here')
server.recv().decode()
"""
    assert (await box.run(Job(code=code))).value == "here"


async def test_setting_the_default_policy_of_another_process_has_no_effect(box: NamespaceSandbox) -> None:
    code = """
import os, subprocess, sys
child = subprocess.Popen(['sleep', '5'], preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
os.sched_setscheduler(child.pid, os.SCHED_OTHER, os.sched_param(0))
found = os.sched_getscheduler(child.pid) == os.SCHED_BATCH
child.kill()
found
"""
    assert (await box.run(Job(code=code))).value is True
