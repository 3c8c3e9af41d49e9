"""What a box shows of the host, and what it shares with it. Attempts to break out: `tests/sandbox/escapes`."""

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
    """A secret in the host's environment and in a host file that anybody may read."""
    monkeypatch.setenv("KNACKBOX_TEST_SECRET", SECRET)
    with tempfile.NamedTemporaryFile("w", prefix="knackbox-canary-", dir="/tmp") as file:
        file.write(SECRET)
        file.flush()
        os.chmod(file.name, 0o644)
        yield Path(file.name)


async def test_host_processes_are_invisible(box: NamespaceSandbox) -> None:
    outcome = await box.run(Job(code="import os\nsorted(int(p) for p in os.listdir('/proc') if p.isdigit())"))
    assert outcome.value == [1, 2]


async def test_a_box_does_not_see_or_signal_its_neighbour(box: NamespaceSandbox) -> None:
    code = "import os, signal\ntry:\n    os.kill(-1, signal.SIGKILL)\nexcept ProcessLookupError:\n    pass\n'alive'"
    outcome = await box.run(Job(code=code))
    assert outcome.end in (End.OK, End.KILLED)
    assert (await box.run(Job(code="'neighbour'"))).value == "neighbour"


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
    assert not any("socket" in link or "anon_inode" in link for link in outcome.value)


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
    async def test_it_is_shared_read_write_and_owned_by_its_owner(self, box: NamespaceSandbox, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("hello")
        job = Job(code="open('out.txt', 'w').write(open('in.txt').read() * 2)", workspace=Mount(tmp_path))
        assert (await box.run(job)).end is End.OK
        assert (tmp_path / "out.txt").read_text() == "hellohello"
        assert (tmp_path / "out.txt").stat().st_uid == tmp_path.stat().st_uid
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.txt"]

    async def test_it_can_be_read_only(self, box: NamespaceSandbox, tmp_path: Path) -> None:
        outcome = await box.run(Job(code="open('x', 'w')", workspace=Mount(tmp_path, Writes.NO)))
        assert outcome.end is End.ERROR
        assert list(tmp_path.iterdir()) == []

    async def test_a_link_that_points_out_of_it_leads_nowhere(
        self, box: NamespaceSandbox, tmp_path: Path, canary: Path
    ) -> None:
        (tmp_path / "out").symlink_to(canary)
        (tmp_path / "up").symlink_to("../../..")
        code = f"import os\n[os.path.exists('out'), os.path.exists('up{canary}'), os.path.exists('../{canary.name}')]"
        assert (await box.run(Job(code=code, workspace=Mount(tmp_path)))).value == [False, False, False]

    async def test_set_uid_files_planted_in_it_give_nothing(self, box: NamespaceSandbox, tmp_path: Path) -> None:
        code = "cp /usr/bin/id ./id; chmod u+s id; ./id -u"
        outcome = await box.run(Job(language=Language.BASH, code=code, workspace=Mount(tmp_path)))
        assert outcome.stdout.strip() == b"1000"
