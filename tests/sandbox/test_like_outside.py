"""Things that programs take for granted, which a box must not change."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.contract import End, Job, Language, Limits, Mount
from sandbox.namespace.backend import NamespaceSandbox

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BENCH-1")]


async def test_the_interpreters_flags_are_those_of_a_plain_one(box: NamespaceSandbox) -> None:
    code = "import json, sys\nprint(json.dumps([repr(sys.flags), sys.getfilesystemencoding(), sys.stdout.errors]))"
    plain = subprocess.run(
        [getattr(sys, "_base_executable", sys.executable), "-c", code],
        env={"LANG": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    inside = await box.run(Job(code=code))
    assert json.loads(inside.stdout) == json.loads(plain.stdout)


async def test_bytecode_is_written_where_the_job_asks_for_it(box: NamespaceSandbox) -> None:
    code = "import os, part\nos.path.exists('__pycache__')"
    files = {"part.py": b""}
    assert (await box.run(Job(code=code, files=files))).value is False
    assert (await box.run(Job(code=code, files=files, env={"PYTHONDONTWRITEBYTECODE": ""}))).value is True


async def test_the_folder_of_user_packages_is_in_the_boxs_home(box: NamespaceSandbox) -> None:
    outcome = await box.run(Job(code="import site\n[site.USER_BASE, site.USER_SITE]"))
    assert outcome.value[0] == "/tmp/.local"
    assert outcome.value[1].startswith("/tmp/.local/lib/python")


async def test_a_spawned_process_finds_the_functions_of_the_script(box: NamespaceSandbox) -> None:
    code = """
import multiprocessing

def double(number):
    return 2 * number

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(double, range(3)))
"""
    outcome = await box.run(Job(code=code, limits=Limits(wall_s=60)))
    assert (outcome.end, outcome.stdout) == (End.OK, b"[0, 2, 4]\n"), outcome


async def test_a_file_of_the_job_is_not_replaced_by_its_script(box: NamespaceSandbox) -> None:
    outcome = await box.run(Job(code="open('main.py').read()", files={"main.py": b"mine"}))
    assert outcome.value == "mine"


@pytest.mark.parametrize(("stream", "name"), [("stdout", "/dev/stdout"), ("stderr", "/dev/fd/2")])
async def test_standard_streams_can_be_opened_by_name(box: NamespaceSandbox, stream: str, name: str) -> None:
    outcome = await box.run(Job(Language.BASH, f"echo through > {name}"))
    assert (outcome.end, getattr(outcome, stream)) == (End.OK, b"through\n")


async def test_new_files_have_the_usual_mode(box: NamespaceSandbox, tmp_path: Path) -> None:
    job = Job(Language.BASH, "echo x > file; mkdir folder", workspace=Mount(tmp_path))
    assert (await box.run(job)).end is End.OK
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"file": 0o644, "folder": 0o755}


async def test_owners_of_the_systems_files_have_names(box: NamespaceSandbox) -> None:
    code = "import grp, os, pwd\nat = os.stat('/usr')\n[pwd.getpwuid(at.st_uid)[0], grp.getgrgid(at.st_gid)[0]]"
    assert (await box.run(Job(code=code))).value == ["nobody", "nogroup"]


@pytest.mark.skipif(not Path("/etc/services").exists(), reason="this machine has no list of services")
async def test_services_have_ports(box: NamespaceSandbox) -> None:
    code = "import socket\n[socket.getservbyname('http'), socket.getaddrinfo('127.0.0.1', 'https')[0][4][1]]"
    assert (await box.run(Job(code=code))).value == [80, 443]


@pytest.mark.parametrize(
    "attempt",
    ["os.setuid(0)", "os.setgid(5)", "os.setresuid(-1, 0, -1)", "os.setregid(0, -1)", "os.chown('main.py', 0, -1)"],
)
async def test_another_users_rights_are_refused_as_the_kernel_refuses_them(box: NamespaceSandbox, attempt: str) -> None:
    code = f"import os\nbefore = os.getresuid(), os.getresgid()\ntry:\n    {attempt}\nexcept OSError as problem:\n    found = problem.errno\n[found, before == (os.getresuid(), os.getresgid())]"
    assert (await box.run(Job(code=code))).value == [errno.EPERM, True]


async def test_a_job_may_set_the_user_that_it_already_has(box: NamespaceSandbox) -> None:
    code = "import os\nme, mine = os.getuid(), os.getgid()\nos.setresuid(me, -1, me)\nos.setgid(mine)\nos.chown('main.py', me, mine)\nos.chown('main.py', -1, -1)"
    assert (await box.run(Job(code=code))).end is End.OK


async def test_setting_the_policy_of_an_invalid_pid_fails(box: NamespaceSandbox) -> None:
    code = "import os\nos.sched_setscheduler(-1, os.SCHED_OTHER, os.sched_param(0))"
    outcome = await box.run(Job(code=code))
    assert outcome.error is not None
    assert os.strerror(errno.EINVAL) in outcome.error.message
