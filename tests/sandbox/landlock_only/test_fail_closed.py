"""The backend runs only if it is selected by name and the kernel supports it. Errors name the reason and a remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.contract import Job, SandboxError, State
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.spec import KernelSpec
from sandbox.landlock_only import probe
from sandbox.landlock_only.backend import LandlockSandbox
from tests.sandbox.landlock_only.conftest import config

ROOT = Path(__file__).parents[3]


@pytest.mark.spec("BOX-2")
@pytest.mark.parametrize("abi", [0, 1, 5])
def test_a_kernel_whose_landlock_cannot_scope_signals_is_refused(abi: int) -> None:
    (first,) = probe.protections("landlock", abi).missing
    assert first.name == "landlock"
    assert "6.12" in first.remedy
    assert first.detail


# Disables Landlock: its first call fails as on a kernel without Landlock. BPF: load nr; jeq 444: ENOSYS; else allow.
WITHOUT_LANDLOCK = """
import asyncio, os, struct, sys
from sandbox.linux import seccomp, syscalls
ops = ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000))
syscalls.prctl(38, 1)
seccomp.apply(b"".join(struct.pack("<HBBI", *op) for op in ops))

from sandbox.contract import Job, SandboxError
from sandbox.landlock_only.backend import LandlockConfig, LandlockSandbox

async def main():
    async with LandlockSandbox(LandlockConfig(folder=sys.argv[1])) as box:
        try:
            print((await box.run(Job(code="'ran'"))).value)
        except SandboxError as refusal:
            print(refusal)

asyncio.run(main())
"""


@pytest.mark.spec("BOX-2")
def test_without_landlock_nothing_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_LANDLOCK, str(tmp_path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "Nothing was run" in said
    assert "'landlock'" in said
    assert "lsm=" in said
    assert list(tmp_path.iterdir()) == []


# Root of a namespace that maps nobody else: there is no unprivileged user to change to.
ROOT_ALONE = """
import asyncio, ctypes, os
uid, gid = os.geteuid(), os.getegid()
assert ctypes.CDLL(None).unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)

from sandbox.contract import Job, SandboxError
from sandbox.landlock_only.backend import LandlockSandbox

async def main():
    async with LandlockSandbox() as box:
        try:
            print((await box.run(Job(code="'ran'"))).value)
        except SandboxError as refusal:
            print(refusal)

asyncio.run(main())
"""


@pytest.mark.spec("BOX-1", "BOX-2")
def test_root_in_a_namespace_that_maps_nobody_else_is_refused() -> None:
    command = [sys.executable, "-c", ROOT_ALONE]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "'unprivileged user'" in said
    assert "ordinary user" in said


@pytest.mark.spec("BOX-1", "BOX-2")
async def test_the_report_lists_the_missing_namespaces() -> None:
    async with LandlockSandbox(config()) as box:
        report = await box.report()
    assert report.backend == "landlock"
    assert report.missing == ()
    by_name = {item.name: item for item in report.items}
    for name in ("user", "pid", "mount", "network", "ipc", "uts", "cgroup"):
        item = by_name[f"{name} namespace"]
        assert (item.state, item.required) == (State.ABSENT, False)
        assert item.detail
    for name in ("landlock", "seccomp", "no capabilities", "no_new_privs", "rlimits", "unprivileged user"):
        assert (by_name[name].state, by_name[name].required) == (State.ENFORCED, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="root's own")
async def test_a_folder_that_other_users_cannot_enter_is_an_error(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    async with LandlockSandbox(type(config())(folder=str(shut), packages=config().packages)) as box:
        with pytest.raises(SandboxError):
            await box.run(Job(code="1"))


@pytest.mark.spec("BOX-2", "KERN-1")
async def test_a_kernel_is_refused_in_one_line() -> None:
    async with LandlockSandbox(config()) as box:
        with pytest.raises(SandboxError, match="landlock backend cannot run kernels"):
            await BoxedKernel.start(box, KernelSpec())
