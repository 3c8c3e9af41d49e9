"""Containers are isolated, started ahead of their job, used once, and removed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.contract import Busy, Destination, End, Job, Language, Limits, Mount, SandboxError, State, Writes
from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig, creation
from sandbox.docker.owner import OWNER
from tests.eventually import eventually
from tests.sandbox.docker.conftest import SOMEBODY
from tests.sandbox.test_cleanup import (  # noqa: F401  (the first two are collected here)
    DAEMON,
    marked,
    test_a_daemonised_grandchild_dies_with_its_job,
    test_an_exception_of_the_output_listener_ends_the_job_and_reaches_the_caller,
)

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("BOX-9")]
ROOT = Path(__file__).parents[3]


def engine() -> docker.APIClient:
    return docker.APIClient(version="auto", **docker.utils.kwargs_from_env())


def ours(owner: str = "") -> list[dict[str, Any]]:
    label = f"{OWNER}={owner}" if owner else OWNER
    with contextlib.closing(engine()) as api:
        return [
            found for found in api.containers(all=True, filters={"label": label}) if owner or of_this_process(found)
        ]


def of_this_process(container: dict[str, Any]) -> bool:
    return container["Labels"][OWNER].startswith(f"{os.getpid()}.")


class TestClosedOff:
    async def test_every_required_protection_holds(self, box: DockerSandbox) -> None:
        report = await box.report()
        assert report.missing == ()
        held = {item.name for item in report.items if item.state is State.ENFORCED}
        assert {"no network", "read-only root", "no capabilities", "ordinary user", "memory limit", "seccomp"} <= held
        assert all(item.detail for item in report.items if item.state is State.ABSENT)

    async def test_the_engine_has_the_requested_settings(self, box: DockerSandbox) -> None:
        await box.warm_up()
        with contextlib.closing(engine()) as api:
            found = api.inspect_container(ours(box._owner.name)[0]["Id"])
        host, config = found["HostConfig"], found["Config"]
        assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert host["Memory"] == host["MemorySwap"] > 0
        assert host["PidsLimit"] == Limits().threads + 1
        assert host["NanoCpus"] == 10**9
        assert host["LogConfig"]["Type"] == "none"
        assert host["CgroupnsMode"] == "private"
        assert host["Sysctls"]["net.ipv4.ip_unprivileged_port_start"] == "1024"
        assert {"/proc/kcore", "/proc/keys", "/sys/class", "/sys/firmware"} <= set(host["MaskedPaths"])
        assert not host["Privileged"]
        assert not config["User"].startswith("0")
        assert config["Labels"][OWNER].startswith(f"{os.getpid()}.")

    async def test_the_root_and_packages_of_the_image_cannot_be_written(self, box: DockerSandbox) -> None:
        code = "for f in /x /usr/x /etc/x /var/tmp/x /run/x /dev/x /sys/x /proc/sys/kernel/hostname; do echo > $f && echo $f; done; true"
        outcome = await box.run(Job(language=Language.BASH, code=code))
        assert (outcome.end, outcome.stdout) == (End.OK, b"")

    async def test_a_container_has_only_process_1_and_the_job(self, box: DockerSandbox) -> None:
        outcome = await box.run(Job(code="import os\n[int(p) for p in os.listdir('/proc') if p.isdigit()]"))
        assert len(outcome.value) == 2  # the pid of the job varies, because the runtime had processes before it
        assert 1 in outcome.value

    async def test_there_is_no_interface_but_loopback(self, box: DockerSandbox) -> None:
        code = "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)"
        outcome = await box.run(Job(code=code))
        assert outcome.error is not None
        assert outcome.error.message.endswith("Network is unreachable")

    @pytest.mark.spec("BOX-13")
    @pytest.mark.parametrize("descriptor", [0, 1, 2])
    async def test_the_streams_of_process_1_are_out_of_reach(self, box: DockerSandbox, descriptor: int) -> None:
        outcome = await box.run(Job(code=f"open('/proc/1/fd/{descriptor}', 'r+b', buffering=0).write(b'x' * 64)"))
        assert outcome.end is End.ERROR
        assert outcome.error is not None
        assert outcome.error.type == "PermissionError"

    async def test_each_container_has_a_different_user(self, box: DockerSandbox) -> None:
        users = {(await box.run(Job(code="import os; os.getuid()"))).value for _ in range(4)}
        assert 0 not in users
        assert len(users) > 1


class TestOnce:
    async def test_a_container_serves_one_job_and_is_removed_and_replaced(self, box: DockerSandbox) -> None:
        await box.warm_up()
        name = box._owner.name
        await eventually(lambda: sum(found["State"] == "running" for found in ours(name)) >= 2)
        before = {found["Id"] for found in ours(name)}
        assert (await box.run(Job(code="1"))).end is End.OK
        await eventually(lambda: bool(before - {found["Id"] for found in ours(name)}))
        await eventually(lambda: sum(found["State"] == "running" for found in ours(name)) >= 2)

    async def test_a_waiting_container_that_died_does_not_affect_the_caller(self) -> None:
        async with DockerSandbox(DockerConfig(warm=1)) as box:
            await box.warm_up()
            await eventually(lambda: sum(found["State"] == "running" for found in ours(box._owner.name)) == 1)
            with contextlib.closing(engine()) as api:
                api.remove_container(ours(box._owner.name)[0]["Id"], force=True)
            assert (await box.run(Job(code="'again'"))).value == "again"

    async def test_closing_leaves_no_container(self) -> None:
        async with DockerSandbox(DockerConfig(warm=3)) as box:
            await box.warm_up()
            running = asyncio.ensure_future(box.run(Job(code="while True: pass")))
            await asyncio.sleep(0)
        assert ours(box._owner.name) == []
        with contextlib.suppress(SandboxError):
            assert (await running).end is End.KILLED
        with pytest.raises(SandboxError, match="closed"):
            await box.run(Job(code="1"))

    async def test_cancelling_kills_the_tree_before_it_returns(self, box: DockerSandbox) -> None:
        mark = f"{os.getpid()}.88{time.monotonic_ns()}"
        task = asyncio.ensure_future(box.run(Job(code=DAEMON.format(mark=mark, then="while True: pass"))))
        await eventually(lambda: bool(marked(mark)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not marked(mark)

    async def test_a_kill_from_outside_is_reported(self, box: DockerSandbox) -> None:
        mark = f"{os.getpid()}.44{time.monotonic_ns()}"
        task = asyncio.ensure_future(box.run(Job(code=DAEMON.format(mark=mark, then="while True: pass"))))
        await eventually(lambda: bool(marked(mark)))
        with contextlib.closing(engine()) as api:
            for found in ours(box._owner.name):
                with contextlib.suppress(docker.errors.APIError):
                    api.kill(found["Id"])
        assert (await task).end is End.KILLED
        assert (await box.run(Job(code="2"))).value == 2

    async def test_when_all_boxes_are_in_use_and_the_queue_is_full_the_error_says_when_to_retry(self) -> None:
        async with DockerSandbox(DockerConfig(warm=1, max_boxes=1, max_queue=0)) as box:
            await box.warm_up()
            first = asyncio.ensure_future(box.run(Job(code="while True: pass", limits=Limits(wall_s=1))))
            await asyncio.sleep(0)
            with pytest.raises(Busy) as busy:
                await box.run(Job(code="1"))
            assert busy.value.retry_after > 0
            assert (await first).end is End.TIMEOUT

    async def test_the_default_executor_of_the_loop_is_not_used(self) -> None:
        class Refusing(ThreadPoolExecutor):
            def submit(self, *_: Any, **__: Any) -> Any:
                raise AssertionError("the default executor was used")

        def run() -> Any:
            async def main() -> Any:
                asyncio.get_running_loop().set_default_executor(Refusing())
                async with DockerSandbox() as box:
                    return (await box.run(Job(code="3"))).value

            return asyncio.run(main())

        with ThreadPoolExecutor(1) as other:
            assert await asyncio.get_running_loop().run_in_executor(other, run) == 3


ENGINE = """
import asyncio, sys
from sandbox.contract import Job
from sandbox.docker.backend import DockerSandbox

async def main():
    async with DockerSandbox() as box:
        await box.warm_up()
        print(box._owner.name, flush=True)
        await box.run(Job(code=sys.stdin.read()))

asyncio.run(main())
"""
HALF_MADE = """
import os, signal
from sandbox.contract import Limits
from sandbox.docker.client import Client
from sandbox.docker.config import DockerConfig, Shape, creation
from sandbox.docker.owner import ContainerOwner

owner = ContainerOwner.this_process()
Client("", 1).create(creation(DockerConfig(), Shape.of(Limits()), owner.labels))
print(owner.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.spec("BOX-4")
class TestDeadEngines:
    async def test_kill_9_of_the_engine_removes_running_containers_and_the_next_engine_the_rest(self) -> None:
        mark = f"{os.getpid()}.33{time.monotonic_ns()}"
        code = DAEMON.format(mark=mark, then="while True: pass")
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", ENGINE], cwd=ROOT, **streams)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(code)  # not passed as an argument, because the test searches arguments for the mark
        process.stdin.close()
        owner = process.stdout.readline().strip()
        await eventually(lambda: bool(marked(mark)) and len(ours(owner)) >= 2)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()
        # A container that was being created at that moment was not started, so it contains no process.
        await eventually(lambda: not marked(mark) and all(found["State"] == "created" for found in ours(owner)))
        async with DockerSandbox() as box:
            await box.warm_up()
            assert ours(owner) == []

    async def test_a_created_container_of_a_dead_engine_is_removed_by_the_next_engine(self) -> None:
        made = subprocess.run([sys.executable, "-c", HALF_MADE], capture_output=True, cwd=ROOT, text=True, check=False)
        dead = made.stdout.strip()
        assert len(ours(dead)) == 1, made.stderr
        async with DockerSandbox() as box:
            await box.warm_up()
            assert ours(dead) == []

    async def test_containers_of_a_living_engine_are_not_removed(self, box: DockerSandbox) -> None:
        await box.warm_up()
        async with DockerSandbox() as other:
            await other.warm_up()
            assert ours(box._owner.name)
            assert ours(other._owner.name)


@pytest.mark.spec("BOX-6")
class TestWorkspace:
    async def test_a_workspace_is_shared_read_write_and_its_owner_owns_new_files(
        self, box: DockerSandbox, place: Path
    ) -> None:
        (place / "in.txt").write_text("hello")
        job = Job(code="open('out.txt', 'w').write(open('in.txt').read() * 2)", workspace=Mount(place))
        assert (await box.run(job)).end is End.OK
        assert (place / "out.txt").read_text() == "hellohello"
        assert (place / "out.txt").stat().st_uid == SOMEBODY
        assert sorted(found.name for found in place.iterdir()) == ["in.txt", "out.txt"]

    async def test_files_of_the_job_are_not_written_to_the_workspace(self, box: DockerSandbox, place: Path) -> None:
        job = Job(code="open('/tmp/job/a').read()", files={"a": b"text"}, workspace=Mount(place))
        assert (await box.run(job)).value == "text"
        assert list(place.iterdir()) == []

    async def test_a_workspace_can_be_read_only(self, box: DockerSandbox, place: Path) -> None:
        outcome = await box.run(Job(code="open('x', 'w')", workspace=Mount(place, Writes.NO)))
        assert outcome.end is End.ERROR
        assert list(place.iterdir()) == []

    async def test_a_folder_of_root_can_be_read_but_not_written(self, box: DockerSandbox, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        (tmp_path / "in.txt").write_text("hello")
        outcome = await box.run(Job(code="open('in.txt').read()", workspace=Mount(tmp_path, Writes.NO)))
        assert outcome.value == "hello"
        with pytest.raises(SandboxError, match=r"belongs to root.*namespace backend"):
            await box.run(Job(code="1", workspace=Mount(tmp_path)))

    async def test_a_link_that_points_out_of_a_workspace_leads_nowhere(self, box: DockerSandbox, place: Path) -> None:
        secret = place.parent / "secret"
        secret.write_text("secret")
        secret.chmod(0o644)
        (place / "out").symlink_to(secret)
        (place / "up").symlink_to("../../..")
        code = f"import os\n[os.path.exists('out'), os.path.exists('up{secret}'), os.path.exists('../secret')]"
        assert (await box.run(Job(code=code, workspace=Mount(place)))).value == [False, False, False]

    async def test_a_missing_folder_is_refused(self, box: DockerSandbox, tmp_path: Path) -> None:
        with pytest.raises(SandboxError, match="No such file"):
            await box.run(Job(code="1", workspace=Mount(tmp_path / "missing")))

    async def test_a_workspace_is_refused_if_the_engine_is_on_another_machine(self, place: Path) -> None:
        async with DockerSandbox(DockerConfig(url="tcp://192.0.2.1:2376")) as box:
            with pytest.raises(SandboxError, match="does not see this machine's folders"):
                await box.run(Job(code="1", workspace=Mount(place)))


@pytest.mark.spec("BOX-2")
class TestRefused:
    @pytest.mark.parametrize(
        "job",
        [
            Job(egress=(Destination("example.org", 443),)),
            Job(requirements=("requests",)),
            Job(workspace=Mount(Path("/tmp"), Writes.COPY)),
        ],
    )
    async def test_an_unsupported_job_is_refused_with_the_backend_that_supports_it(
        self, box: DockerSandbox, job: Job
    ) -> None:
        with pytest.raises(SandboxError, match="namespace backend"):
            await box.run(job)

    async def test_without_an_engine_nothing_runs_and_the_report_says_so(self, tmp_path: Path) -> None:
        async with DockerSandbox(DockerConfig(url=f"unix://{tmp_path}/none.sock")) as box:
            report = await box.report()
            assert [item.name for item in report.missing] == ["container"]
            with pytest.raises(SandboxError, match=r"No Docker Engine answered at unix://.*Start one"):
                await box.run(Job(code="1"))

    async def test_a_missing_image_is_named(self) -> None:
        async with DockerSandbox(DockerConfig(image="knackbox-no-such-image")) as box:
            with pytest.raises(SandboxError, match="knackbox-no-such-image"):
                await box.run(Job(code="1"))

    async def test_a_missing_runtime_is_named_with_the_available_ones(self) -> None:
        async with DockerSandbox(DockerConfig(runtime="no-such-runtime")) as box:
            with pytest.raises(SandboxError, match=r"no-such-runtime.*runc"):
                await box.run(Job(code="1"))

    async def test_an_image_without_an_interpreter_is_reported_with_the_engines_message(self) -> None:
        async with DockerSandbox(DockerConfig(python="no-such-python")) as box:
            with pytest.raises(SandboxError, match="no-such-python"):
                await box.run(Job(code="1"))

    async def test_a_container_that_lacks_a_protection_gets_no_job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def writable(*arguments: Any) -> dict[str, Any]:
            body = creation(*arguments)
            body["HostConfig"]["ReadonlyRootfs"] = False
            return body

        monkeypatch.setattr("sandbox.docker.backend.creation", writable)
        async with DockerSandbox() as box:
            with pytest.raises(SandboxError, match=r"Nothing was run.*read-only root"):
                await box.run(Job(code="1"))
