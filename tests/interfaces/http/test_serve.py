"""`knackbox serve` as a process: its address, its tokens, and that it leaves nothing behind when it ends."""

import asyncio
import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.app.home import Home
from engine.app.settings import HttpSettings
from engine.contract.failure import ConfigError
from engine.interfaces.cli.serve import first_token
from engine.interfaces.http.listen import listen, names_of, url_of
from engine.interfaces.http.tokens import Caller, Tokens
from engine.stores.clock import SystemClock
from engine.stores.records import Records
from tests.crash.test_kill_the_engine import children_of, processes_with
from tests.eventually import eventually, eventually_sync
from tests.interfaces.cli import REPOSITORY, command, here, run_as_process
from tests.interfaces.http.servers import DEADLINE_S, Server, knackbox_serve, running

pytestmark = [pytest.mark.spec("FACE-3")]

ME = Caller("me", "mia")


def a_token(root: Path) -> None:
    """Create a token, without which the server does not start in the background."""
    home = Home(root)
    home.create()
    with contextlib.closing(Records.open(home.records_url)) as records:
        Tokens(records, SystemClock()).add(Caller("there", "nobody"))


async def boxed(server: Server, mark: str) -> "tuple[httpx.AsyncClient, asyncio.Task[Any]]":
    """Make a call whose box has started a daemon. Return the client and the task of the call."""
    client = server.client(ME)
    code = f"setsid sleep {mark} & sleep {mark}"
    body = {"name": "execute", "arguments": {"language": "bash", "code": code, "timeout_s": 60}}
    call = asyncio.ensure_future(client.post("/api/call", json=body))
    await eventually(lambda: call.done() or len(processes_with(mark)) >= 2)
    assert not call.done(), call.result().text
    return client, call


def mark_of(number: int) -> str:
    return f"3600.{os.getpid()}{number}"


async def test_a_stop_answers_running_calls_and_leaves_no_processes(tmp_path: Path) -> None:
    a_token(tmp_path)
    mark = mark_of(1)
    with running(tmp_path, words=knackbox_serve(tmp_path)) as server:
        helpers = children_of(server.process.pid)
        client, call = await boxed(server, mark)
        async with contextlib.aclosing(client):
            body = {"name": "execute", "arguments": {"language": "bash", "code": f"sleep {mark}"}}
            async with client.stream("POST", "/api/call/stream", json=body) as stream:
                server.process.send_signal(signal.SIGTERM)
                last = [line async for line in stream.aiter_lines() if line.startswith("data: ")][-1]
            assert json.loads(last.removeprefix("data: "))["audit"]["end"] == "killed"
            result = (await call).json()
        assert result["audit"]["end"] == "killed"
        assert not result["success"]
        assert await asyncio.to_thread(server.process.wait, DEADLINE_S) == 0
        eventually_sync(
            lambda: not processes_with(mark) and not any(os.path.exists(f"/proc/{pid}/exe") for pid in helpers)
        )
        with contextlib.closing(socket.socket()) as again:
            assert again.connect_ex(("127.0.0.1", server.port)) != 0
        assert "Traceback" not in (tmp_path / "stderr").read_text()


async def test_a_disconnect_kills_the_box_and_a_killed_server_leaves_no_boxes(tmp_path: Path) -> None:
    a_token(tmp_path)
    left, killed = mark_of(2), mark_of(3)
    with running(tmp_path, words=knackbox_serve(tmp_path)) as server:
        helpers = children_of(server.process.pid)
        client, call = await boxed(server, left)
        call.cancel()
        await client.aclose()
        eventually_sync(lambda: not processes_with(left))
        client, call = await boxed(server, killed)
        server.process.kill()
        with pytest.raises(httpx.TransportError):
            await call
        await client.aclose()
        eventually_sync(
            lambda: not processes_with(killed) and not any(os.path.exists(f"/proc/{pid}/exe") for pid in helpers)
        )


def test_a_taken_port_is_reported_in_one_line(tmp_path: Path) -> None:
    a_token(tmp_path)
    with contextlib.closing(listen("127.0.0.1", 0, allow_remote=False)) as taken:
        port = taken.getsockname()[1]
        ran = run_as_process("--home", str(tmp_path), "serve", "--port", str(port))
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert "another program uses it" in ran.err
    assert "--port" in ran.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_remote_address_needs_allow_remote(tmp_path: Path, host: str, capfd: pytest.CaptureFixture[str]) -> None:
    a_token(tmp_path)
    ran = here(capfd, "--home", str(tmp_path), "serve", "--host", host, "--port", "0")
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert "--allow-remote" in ran.err


def test_without_a_token_the_server_starts_neither_in_the_background_nor_remotely(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in ((), ("--host", "0.0.0.0", "--allow-remote")):
        ran = here(capfd, "--home", str(tmp_path), "serve", "--port", "0", *words)
        assert ran.code == 3
        assert ran.err.count("\n") == 1
        assert "knackbox serve token add" in ran.err
    assert "no tokens" in here(capfd, "--home", str(tmp_path), "serve", "token", "list").err


@pytest.mark.spec("MOD-5")
def test_the_module_name_must_differ_from_the_names_of_modules(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a_token(tmp_path)
    (tmp_path / "config.toml").write_text('[modules]\nmodule_services = {knackbox = "http://127.0.0.1:1"}\n')
    ran = here(capfd, "--home", str(tmp_path), "serve", "--port", "0")
    assert ran.code == 3
    assert "another module is also called knackbox" in ran.err


def test_an_unknown_host_name_is_reported(tmp_path: Path) -> None:
    for host in ("no.such.host.invalid", "a" * 300):
        with pytest.raises(ConfigError, match="no address"):
            listen(host, 0, allow_remote=True)


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", "localhost"), ("localhost", "127.0.0.1"), ("::1", "localhost")]
)
def test_a_loopback_server_accepts_loopback_names_and_configured_names(host: str, own: str) -> None:
    with contextlib.closing(listen(host, 0, allow_remote=False)) as listening:
        names = names_of(listening, host, ("Box.Example",))
        assert all(names.allows(name) for name in (host if ":" not in host else f"[{host}]", own, "box.example:80"))
        assert not names.allows("10.1.2.3")
        assert url_of(listening).startswith("http://")


def test_tokens_are_added_listed_and_removed_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--home", str(tmp_path), "serve", "token")
    made = here(capfd, *words, "add", "ci", "--permission", "guest", "--user", "robot", "--module", "weather", "--json")
    token = json.loads(made.out)["token"]
    plain = here(capfd, *words, "add", "me", "--approves")
    assert re.fullmatch(r"knackbox_[\w-]{43}\n", plain.out)
    listed = here(capfd, *words, "list", "--json")
    assert json.loads(listed.out)["tokens"][0] == {
        "name": "ci",
        "user": "robot",
        "agent": "main",
        "permission": "guest",
        "modules": ["weather"],
        "caps": [],
        "approves": False,
    }
    assert token not in listed.out + here(capfd, *words, "list").out
    taken = here(capfd, *words, "add", "ci")
    assert taken.code == 3
    assert "already" in taken.err
    assert here(capfd, *words, "add", "x", "--permission", "root").code == 2
    assert here(capfd, *words, "remove", "ci").code == 0
    assert here(capfd, *words, "remove", "ci").code == 2


def test_a_first_token_is_created_and_shown_once_at_a_terminal(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    with subprocess.Popen(
        command("--home", str(tmp_path), "serve", "--port", "0"),
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        output = b""
        while b"serving at" not in output or not output.endswith(b"\n"):
            assert select.select([master], [], [], DEADLINE_S)[0], output
            output += os.read(master, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0
    os.close(master)
    shown = re.search(r"knackbox_[\w-]{43}", output.decode().replace("\r\n", ""))
    assert shown
    with contextlib.closing(Records.open(Home(tmp_path).records_url)) as records:
        tokens = Tokens(records, SystemClock())
        assert tokens.find(shown[0]) == Caller("first", "local")
        assert first_token(tokens, HttpSettings(), remote=False) == ""
