"""Attempts of code to access or harm the machine that it shares with others; all of them fail."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.contract import Destination, End, Job, Language, Mount, SandboxError, Writes
from sandbox.landlock_only.backend import LandlockSandbox
from tests.sandbox.landlock_only.conftest import SOMEBODY
from tests.sandbox.test_hostile_code import (  # noqa: F401  (collected here, with this folder's `box`)
    test_a_forged_answer_is_an_outcome_of_the_code_and_never_a_failure_of_the_box,
    test_an_invalid_job_is_refused_before_anything_runs,
    test_hidden_memory_of_a_process_tree_is_counted,
    test_only_plain_files_are_collected,
    test_sleeping_forks_of_a_large_template_do_not_count_as_memory,
    test_the_cpu_time_of_many_short_processes_is_counted,
)
from tests.sandbox.test_isolation import (  # noqa: F401
    FORBIDDEN,
    PRELUDE,
    test_a_32_bit_system_call_kills_or_fails,
    test_abstract_unix_sockets_of_the_host_are_out_of_reach,
    test_no_descriptor_of_the_engine_is_inherited,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-1", "BOX-5")]
SECRET = "canary-77ab"


@pytest.fixture(scope="module")
def secrets() -> Iterator[dict[str, str]]:
    """Put a secret where users have secrets: in a home, in /tmp, in a process's environment and command line."""
    with (
        tempfile.TemporaryDirectory(prefix=".knackbox-test-", dir=Path.home()) as home,
        tempfile.TemporaryDirectory(prefix="knackbox-test-", dir="/tmp") as tmp,
    ):
        for place in (home, tmp):
            os.chmod(place, 0o755)
            Path(place, "id_rsa").write_text(SECRET)
            os.chmod(f"{place}/id_rsa", 0o644)
        command = [sys.executable, "-c", f"'{SECRET}'; input()"]
        with subprocess.Popen(command, env={"TOKEN": SECRET}, stdin=subprocess.PIPE) as victim:
            yield {"home": home, "tmp": tmp, "pid": str(victim.pid), "engine": str(os.getpid())}
            assert victim.poll() is None, "a job has killed the victim"
            victim.kill()


LOOT = [
    ("read a key in a home", "open('{home}/id_rsa').read()"),
    ("list a home", "os.listdir('{home}')"),
    ("read a file in /tmp", "open('{tmp}/id_rsa').read()"),
    ("list /tmp", "os.listdir('/tmp')"),
    ("list the root", "os.listdir('/')"),
    ("list the jobs beside it", "os.listdir('../..')"),
    ("read it through a link", "os.symlink('{tmp}/id_rsa', 'link') or open('link').read()"),
    ("read it through a hard link", "os.link('{tmp}/id_rsa', 'hard') or open('hard').read()"),
    ("move it here", "os.rename('{tmp}/id_rsa', 'mine') or open('mine').read()"),
    ("run it as a program", "__import__('subprocess').check_output(['/bin/sh', '{tmp}/id_rsa'])"),
    ("read it by the root of a process", "open('/proc/{pid}/root{tmp}/id_rsa').read()"),
    ("read the environment of a process", "open('/proc/{pid}/environ').read()"),
    ("read the command line of a process", "open('/proc/{pid}/cmdline').read()"),
    ("read the memory of a process", "open('/proc/{pid}/mem', 'rb').read(1)"),
    ("read the memory map of the engine", "open('/proc/{engine}/maps').read()"),
    ("list the engine's descriptors", "os.listdir('/proc/{engine}/fd')"),
    ("list processes", "os.listdir('/proc')"),
    ("read its watcher's environment", "open(f'/proc/{{os.getppid()}}/environ').read()"),
    ("open its watcher's memory", "open(f'/proc/{{os.getppid()}}/mem', 'rb')"),
    ("list its watcher's descriptors", "os.listdir(f'/proc/{{os.getppid()}}/fd')"),
    ("read the list of users", "open('/etc/passwd').read()"),
    ("read their passwords", "open('/etc/shadow').read()"),
    ("read the list of mounts", "open('/proc/self/mounts').read()"),
    ("list shared memory", "os.listdir('/dev/shm')"),
    ("list devices", "os.listdir('/dev')"),
    ("read /sys", "os.listdir('/sys')"),
    ("list /run", "os.listdir('/run')"),
    ("be told of names in /tmp", "notify('/tmp')"),
]
SETTING = """
import ctypes, os, signal, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
def notify(path):
    return check(libc.inotify_add_watch(check(libc.inotify_init()), path.encode(), 0xFFF))
"""


@pytest.mark.parametrize(("attempt", "code"), LOOT, ids=[attempt for attempt, _ in LOOT])
async def test_a_path_that_is_not_on_the_allow_list_cannot_be_opened(
    box: LandlockSandbox, secrets: dict[str, str], attempt: str, code: str
) -> None:
    outcome = await box.run(Job(code=f"{SETTING}\n{code.format(**secrets)}"))
    assert outcome.end is End.ERROR, f"{attempt}: {outcome.value!r}"
    assert outcome.error is not None
    assert outcome.error.type in ("PermissionError", "OSError", "CalledProcessError"), outcome.error
    assert SECRET not in repr(outcome.value) + outcome.stdout.decode()
    assert Path(secrets["tmp"], "id_rsa").read_text() == SECRET


HARM = [
    ("signal the engine", "os.kill({engine}, 0)"),
    ("kill a process of the same user", "os.kill({pid}, signal.SIGKILL)"),
    ("kill its watcher", "os.kill(os.getppid(), signal.SIGKILL)"),
    ("stop its watcher", "os.kill(os.getppid(), signal.SIGSTOP)"),
    ("kill the watcher's group", "os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)"),
    ("signal by a descriptor", "signal.pidfd_send_signal(os.pidfd_open({pid}), signal.SIGKILL)"),
    ("trace a process", "check(libc.ptrace(16, {pid}, 0, 0))"),
    ("change the limits of a process", "resource.prlimit({pid}, resource.RLIMIT_NOFILE, (0, 0))"),
    ("change the limits of its watcher", "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))"),
    ("slow down a process", "os.setpriority(os.PRIO_PROCESS, {pid}, 19)"),
    ("slow down every process of its user", "os.setpriority(os.PRIO_USER, 0, 19)"),
    ("let its user's disk access wait", "check(libc.syscall(251, 3, 0, 3 << 13))"),
    ("outlive its watcher", "check(libc.prctl(1, 0, 0, 0, 0))"),
    ("hide from its watcher", "check(libc.prctl(4, 0, 0, 0, 0))"),
    ("overwrite a file", "open('{tmp}/id_rsa', 'w')"),
    ("cut off a file", "os.truncate('{tmp}/id_rsa', 0)"),
    ("remove a file", "os.unlink('{tmp}/id_rsa')"),
    ("make a file", "open('{tmp}/new', 'w')"),
    ("make a folder", "os.mkdir('{home}/new')"),
    ("make a file in /dev/shm", "open('/dev/shm/knackbox-test', 'w')"),
    ("write to the system's folders", "open('/usr/new', 'w')"),
    ("TCP", "socket.socket(socket.AF_INET)"),
    ("UDP", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"),
    ("IPv6", "socket.socket(socket.AF_INET6)"),
    ("a Unix socket", "socket.socket(socket.AF_UNIX)"),
    ("a pair that can send anywhere", "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"),
    ("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    ("name a socket of a pair", "socket.socketpair()[0].bind('\\0knackbox-test')"),
    ("connect a socket of a pair", "socket.socketpair()[0].connect('\\0knackbox-test')"),
    ("become root", "os.setuid(0)"),
    ("a message queue", "check(libc.mq_open(b'/knackbox', 0o102, 0o600, 0))"),
]


@pytest.mark.parametrize(("attempt", "code"), HARM, ids=[attempt for attempt, _ in HARM])
async def test_nothing_outside_can_be_changed_or_reached(
    box: LandlockSandbox, secrets: dict[str, str], attempt: str, code: str
) -> None:
    outcome = await box.run(Job(code=f"{SETTING}\n{code.format(**secrets)}\n'done'"))
    assert outcome.end is End.ERROR, f"{attempt}: {outcome}"
    assert outcome.error is not None
    assert outcome.error.type in ("PermissionError", "OSError", "ValueError"), outcome.error
    assert sorted(os.listdir(secrets["tmp"])) == ["id_rsa"]
    assert Path(secrets["tmp"], "id_rsa").read_text() == SECRET


async def test_modes_times_and_owners_of_files_outside_are_unchanged(
    box: LandlockSandbox, secrets: dict[str, str]
) -> None:
    """Try changes that Landlock does not cover. If the tests do not run as root, the job's user owns the file."""
    path = Path(secrets["tmp"], "id_rsa")
    before = path.stat()
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None)
for attempt in (
    lambda: os.chmod({str(path)!r}, 0o777), lambda: os.utime({str(path)!r}, (0, 0)), lambda: os.chown({str(path)!r}, -1, 0),
    lambda: os.setxattr({str(path)!r}, "user.x", b"x"), lambda: libc.syscall(268, -100, {str(path)!r}.encode(), 0o777),
    lambda: libc.syscall(452, -100, {str(path)!r}.encode(), 0o777, 0), lambda: os.chmod({secrets["home"]!r}, 0o777),
):
    try: attempt()
    except OSError: pass
"""
    assert (await box.run(Job(code=code))).end is End.OK
    after = path.stat()
    assert (after.st_mode, after.st_mtime, after.st_ctime) == (before.st_mode, before.st_mtime, before.st_ctime)
    assert stat.S_IMODE(Path(secrets["home"]).stat().st_mode) == 0o755
    assert os.listxattr(path) == []


async def test_killing_everything_it_may_signal_kills_only_itself(box: LandlockSandbox) -> None:
    outcome = await box.run(Job(code="import os, signal\nos.kill(-1, signal.SIGKILL)\n'alone'"))
    assert outcome.end in (End.OK, End.ERROR, End.KILLED)
    assert (await box.run(Job(code="'neighbour'"))).value == "neighbour"


@pytest.mark.parametrize(("attempt", "code"), FORBIDDEN, ids=[attempt for attempt, _ in FORBIDDEN])
async def test_the_kernel_refuses(box: LandlockSandbox, attempt: str, code: str) -> None:
    outcome = await box.run(Job(code=PRELUDE.replace("{attempt}", code.replace("/tmp/", "./"))))
    assert outcome.end is End.OK, outcome
    assert outcome.value < 0, f"{attempt} worked"


@pytest.mark.parametrize("language", [Language.BASH, Language.NODE])
async def test_other_languages_are_as_confined(
    box: LandlockSandbox, secrets: dict[str, str], language: Language
) -> None:
    key = f"{secrets['home']}/id_rsa"
    code = {
        Language.BASH: f"cat {key}; env; cat /proc/{secrets['pid']}/environ; cat /proc/$$/status; exec 3<>/dev/tcp/127.0.0.1/1 && echo CONNECTED; while read -r line; do echo $line; done < /proc/self/status",
        Language.NODE: f"const fs=require('fs');try{{console.log(fs.readFileSync('{key}','utf8'))}}catch(e){{}}\n"
        "console.log(JSON.stringify(process.env), fs.readFileSync('/proc/self/status', 'utf8'));"
        "require('net').connect(1, '127.0.0.1').on('connect', () => console.log('CONNECTED')).on('error', e => console.log(e.code))",
    }[language]
    text = (await box.run(Job(language=language, code=code))).stdout.decode()
    assert SECRET not in text
    assert "CONNECTED" not in text
    assert "CapEff:\t0000000000000000" in text
    assert "NoNewPrivs:\t1" in text
    assert "Seccomp:\t2" in text


async def test_a_server_on_this_machine_cannot_be_reached(box: LandlockSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}))"
        assert (await box.run(Job(code=code))).end is End.ERROR
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_a_job_with_destinations_is_refused_before_it_runs(box: LandlockSandbox) -> None:
    with pytest.raises(SandboxError, match="no network"):
        await box.run(Job(code="1", egress=(Destination("example.org", 443),)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give each job a user of its own")
async def test_each_job_of_root_has_its_own_unprivileged_user(box: LandlockSandbox) -> None:
    code = "import os\n[*os.getresuid(), *os.getresgid(), *os.getgroups()]"
    ids = [set((await box.run(Job(code=code))).value) for _ in range(3)]
    assert all(len(each) == 1 and min(each) > 60_000 for each in ids)
    assert len(set.union(*ids)) == 3


@pytest.mark.spec("BOX-6")
class TestWorkspace:
    async def test_a_workspace_is_shared_read_write_and_its_owner_owns_new_files(
        self, box: LandlockSandbox, folder: Path
    ) -> None:
        (folder / "in.txt").write_text("hello")
        code = "import os\nopen('out.txt', 'w').write(open('in.txt').read() * 2)\nos.getcwd()"
        outcome = await box.run(Job(code=code, workspace=Mount(folder), files={"helper.py": b""}))
        assert outcome.value == str(folder)
        assert (folder / "out.txt").read_text() == "hellohello"
        assert (folder / "out.txt").stat().st_uid == folder.stat().st_uid
        assert sorted(path.name for path in folder.iterdir()) == ["in.txt", "out.txt"]

    async def test_a_workspace_can_be_read_only(self, box: LandlockSandbox, folder: Path) -> None:
        (folder / "in.txt").write_text("hello")
        code = "text = open('in.txt').read()\nfor name in ('in.txt', 'new'):\n    try: open(name, 'w'); text += ' written'\n    except PermissionError: pass\ntext"
        outcome = await box.run(Job(code=code, workspace=Mount(folder, Writes.NO)))
        assert outcome.value == "hello"
        assert sorted(path.name for path in folder.iterdir()) == ["in.txt"]

    async def test_modes_and_times_in_a_read_only_workspace_are_unchanged(
        self, box: LandlockSandbox, folder: Path
    ) -> None:
        path = folder / "in.txt"
        path.write_text("hello")
        os.chown(path, folder.stat().st_uid, folder.stat().st_gid)
        before = path.stat()
        code = "import os\nos.chmod('in.txt', 0o777)\nos.utime('in.txt', (0, 0))\nfile = os.open('in.txt', 0)\nos.fchmod(file, 0)\nos.utime(file)"
        await box.run(Job(code=code, workspace=Mount(folder, Writes.NO)))
        after = path.stat()
        assert (after.st_mode, after.st_mtime, after.st_ctime) == (before.st_mode, before.st_mtime, before.st_ctime)

    async def test_a_copy_on_write_workspace_is_refused(self, box: LandlockSandbox, folder: Path) -> None:
        with pytest.raises(SandboxError, match="copy-on-write"):
            await box.run(Job(code="1", workspace=Mount(folder, Writes.COPY)))

    async def test_folders_beside_a_workspace_cannot_be_read(
        self, box: LandlockSandbox, folder: Path, secrets: dict[str, str]
    ) -> None:
        (folder / "out").symlink_to(secrets["tmp"])
        code = "for path in ('out/id_rsa', '..', 'out'):\n    try: open(path).read() if 'id' in path else __import__('os').listdir(path)\n    except PermissionError: print('closed')"
        assert (await box.run(Job(code=code, workspace=Mount(folder)))).stdout.split() == [b"closed"] * 3

    @pytest.mark.parametrize("language", [Language.BASH, Language.NODE])
    async def test_other_languages_work_in_a_workspace(
        self, box: LandlockSandbox, folder: Path, language: Language
    ) -> None:
        code = {Language.BASH: "echo -n hi > out", Language.NODE: "require('fs').writeFileSync('out', 'hi')"}[language]
        assert (await box.run(Job(language=language, code=code, workspace=Mount(folder)))).end is End.OK
        assert (folder / "out").read_text() == "hi"

    @pytest.mark.skipif(os.geteuid() != 0, reason="others are roots and ordinary users only for root")
    async def test_a_folder_of_root_is_refused_with_a_remedy(self, box: LandlockSandbox, folder: Path) -> None:
        os.chown(folder, 0, 0)
        with pytest.raises(SandboxError, match="chown"):
            await box.run(Job(code="1", workspace=Mount(folder)))
        os.chown(folder, SOMEBODY, SOMEBODY)
        code = "import os\n[os.getuid(), os.geteuid(), os.getgid()]"
        assert (await box.run(Job(code=code, workspace=Mount(folder)))).value == [SOMEBODY] * 3

    async def test_the_root_of_the_host_cannot_be_a_workspace(self, box: LandlockSandbox) -> None:
        with pytest.raises(SandboxError, match="cannot be a workspace"):
            await box.run(Job(code="1", workspace=Mount(Path("/"), Writes.NO)))


async def test_a_job_may_change_the_modes_of_its_own_files(box: LandlockSandbox, folder: Path) -> None:
    code = "import shutil\nopen('a', 'w').write('x')\nshutil.copy('a', 'b'); shutil.copy2('a', 'c')\nopen('b').read() + open('c').read()"
    assert (await box.run(Job(code=code))).value == "xx"
    assert (await box.run(Job(code=code, workspace=Mount(folder)))).value == "xx"
