"""If a required protection is missing, nothing runs, and the error names the reason and a remedy."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.contract import End, Job, SandboxError, State
from sandbox.namespace.backend import NamespaceSandbox
from sandbox.unsafe import WARNING, UnsafeSandbox

ROOT = Path(__file__).parents[2]

# Simulates a machine without user namespaces: the setting is per user namespace, so a new one can disable it.
WITHOUT_NAMESPACES = """
import asyncio, ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.geteuid(), os.getegid()
assert libc.unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)
open("/proc/sys/user/max_user_namespaces", "w").write("0")

from sandbox.contract import Job, Mount, SandboxError
from sandbox.namespace.backend import NamespaceSandbox

async def main():
    async with NamespaceSandbox() as box:
        try:
            await box.run(Job(code="open('/work/ran', 'w')", workspace=Mount(sys.argv[1])))
        except SandboxError as refusal:
            print(refusal)

asyncio.run(main())
"""


@pytest.mark.spec("BOX-2")
def test_without_user_namespaces_nothing_runs_and_the_setting_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_NAMESPACES, str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "Nothing was run" in said
    assert "user namespace" in said
    assert "sysctl -w user.max_user_namespaces" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("BOX-1", "BOX-2")
async def test_the_report_names_every_layer_and_what_it_needs() -> None:
    async with NamespaceSandbox() as box:
        report = await box.report()
    names = {item.name for item in report.items}
    assert {"user namespace", "pid namespace", "network namespace", "seccomp", "landlock", "no capabilities"} <= names
    assert report.missing == ()
    assert all(item.detail for item in report.items if item.state is State.ABSENT)


@pytest.mark.spec("BOX-2")
async def test_running_without_isolation_says_so_on_every_run(caplog: pytest.LogCaptureFixture) -> None:
    box = UnsafeSandbox()
    for _ in range(2):
        outcome = await box.run(Job(code="6 * 7"))
        assert (outcome.end, outcome.value) == (End.OK, 42)
    assert [record.message for record in caplog.records] == [WARNING, WARNING]


def test_use_in_another_event_loop_is_refused() -> None:
    box = NamespaceSandbox()
    with asyncio.Runner() as first:
        assert first.run(box.run(Job(code="1"))).value == 1
        with asyncio.Runner() as second, pytest.raises(SandboxError, match="event loop"):
            second.run(box.run(Job(code="1")))
        first.run(box.aclose())


# Root in a user namespace that maps no other user: its boxes would run as root.
ROOT_ALONE = """
import asyncio, ctypes, os
uid, gid = os.geteuid(), os.getegid()
assert ctypes.CDLL(None).unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)

from sandbox.contract import Job, SandboxError
from sandbox.namespace.backend import NamespaceSandbox

async def main():
    async with NamespaceSandbox() as box:
        try:
            print((await box.run(Job(code="'ran'"))).value, uid)
        except SandboxError as refusal:
            print(refusal, uid)

asyncio.run(main())
"""


@pytest.mark.spec("BOX-1", "BOX-2")
def test_root_in_a_namespace_that_maps_nobody_else_is_refused() -> None:
    command = [sys.executable, "-c", ROOT_ALONE]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    if said.endswith(" 0\n"):
        assert "boxes would run as root" in said
    else:  # an ordinary user who became root of a new namespace, but has no rights outside it
        assert said.startswith("ran ")


_FEW_FILES = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)
from sandbox.contract import Job, SandboxError
from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.namespace.backend import NamespaceSandbox
async def main():
    async with {"namespace": NamespaceSandbox, "landlock": LandlockSandbox}[sys.argv[1]]() as box:
        try:
            print((await box.run(Job(code="6 * 7"))).value)
        except SandboxError as problem:
            print(problem)
asyncio.run(main())
"""


@pytest.mark.parametrize("level", ["namespace", "landlock"])
@pytest.mark.spec("BOX-2")
@pytest.mark.parametrize("files", ["12", "64"])
def test_too_few_open_files_are_reported_as_the_cause(level: str, files: str) -> None:
    command = [sys.executable, "-c", _FEW_FILES, level, files]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    if said != "42":  # root may raise the limit, and the job then runs
        assert f"a process may have only {files} files open here" in said or "no file descriptor left" in said
        assert "ulimit -n 1024" in said


_MANY_FILES = """
import asyncio, os
from sandbox.contract import Job
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
async def main():
    while os.open(os.devnull, os.O_RDONLY) < 60:
        pass
    for _ in range(6):
        async with NamespaceSandbox(NamespaceConfig(warm=0)) as box:
            print((await box.run(Job(code="6 * 7"))).value)
        os.open(os.devnull, os.O_RDONLY)
asyncio.run(main())
"""


@pytest.mark.spec("BOX-2")
def test_a_template_starts_whatever_numbers_its_sockets_have() -> None:
    """The engine passes them on under its own numbers, one of which a template once used for something else: 64."""
    command = [sys.executable, "-c", _MANY_FILES]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.stdout, ran.stderr) == ("42\n" * 6, "")
