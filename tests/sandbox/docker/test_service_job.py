"""The engine's side of a job that is a server; the test controls the other end of its stream. Needs no container."""

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import worker
from sandbox.contract import End, Job, Limits, Outcome
from sandbox.docker.channel import Channel
from sandbox.docker.client import Client
from sandbox.docker.config import Shape
from sandbox.docker.container import Container
from sandbox.docker.flows import WINDOW
from sandbox.docker.frames import Frame, Frames
from sandbox.docker.inlets import KernelSockets
from sandbox.docker.running import NotTaken
from sandbox.docker.service_job import ServiceJob
from sandbox.wire.paths import INLET_NAME

pytestmark = [pytest.mark.spec("KERN-1", "BOX-9")]
WAIT_S = 20


class Far:
    """Replaces the container: the other end of its streams, and clients of the job."""

    def __init__(self, runtime: Path) -> None:
        self.stream, self._theirs = socket.socketpair()
        self.inlets = KernelSockets(1)
        self._folder = self.inlets.folder()
        container = Container("none", Shape.of(Limits()), Channel(self._theirs, None), {})
        self.job = ServiceJob(Client(f"unix://{runtime}/no-engine", 1), container, Job(), self.inlets, (61001,))
        self.running = asyncio.ensure_future(self.job.outcome({}, b""))
        self.clients: list[socket.socket] = []
        self._frames = Frames()
        self._came: list[Frame] = []

    def client(self) -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.connect(f"/proc/{os.getpid()}/fd/{self._folder}/{INLET_NAME}-1")
        end.settimeout(WAIT_S)
        self.clients.append(end)
        return end

    def say(self, header: dict[str, Any], body: bytes = b"") -> None:
        data = worker.pack(header, body)
        self.stream.settimeout(WAIT_S)
        self.stream.sendall(struct.pack("!BxxxI", 1, len(data)) + data)

    async def hear(self) -> Frame:
        loop = asyncio.get_running_loop()
        self.stream.setblocking(False)
        while not self._came:
            data = await asyncio.wait_for(loop.sock_recv(self.stream, 1 << 16), WAIT_S)
            assert data
            self._came += self._frames.feed(data)
        return self._came.pop(0)

    async def ended(self) -> Outcome:
        return await asyncio.wait_for(self.running, WAIT_S)

    def close(self) -> None:
        for end in (self.stream, self._theirs, *self.clients):
            end.close()
        os.close(self._folder)
        self.inlets.close()


@pytest.fixture
async def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Far]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    far = Far(tmp_path)
    yield far
    far.running.cancel()
    with contextlib.suppress(asyncio.CancelledError, NotTaken):
        await far.running
    far.close()


async def test_a_client_is_served_while_the_event_loop_is_blocked(far: Far) -> None:
    await far.hear()  # the job
    client = far.client()
    client.sendall(b"question")
    far.stream.settimeout(WAIT_S)
    frames, heard = Frames(), list[Frame]()
    while len(heard) < 2:  # without yielding to the event loop
        heard += frames.feed(far.stream.recv(1 << 16))
    assert [frame.header for frame in heard] == [{"flow": 1, "port": 61001}, {"flow": 1}]
    assert heard[1].body == b"question"
    greeting = bytes([0xFF, *[0] * 9, 3, *[0] * 53])
    far.say({"flow": 1}, greeting)
    assert client.recv(100) == greeting


async def test_a_signal_is_sent_and_waited_for_until_it_is_confirmed(far: Far) -> None:
    await far.hear()
    far.job.signal(2)
    assert (await far.hear()).header == {"signal": 2}
    waiting = asyncio.ensure_future(far.job.signalled())
    assert not (await asyncio.wait((waiting,), timeout=0.1))[0]
    far.say({"signalled": True})
    await asyncio.wait_for(waiting, WAIT_S)


async def test_waiting_for_a_signal_to_be_confirmed_ends_when_the_job_ends(far: Far) -> None:
    await far.hear()
    far.job.signal(2)
    waiting = asyncio.ensure_future(far.job.signalled())
    far.stream.close()
    with pytest.raises(NotTaken):
        await far.ended()
    await asyncio.wait_for(waiting, WAIT_S)
    far.job.signal(2)
    await asyncio.wait_for(far.job.signalled(), WAIT_S)


@pytest.mark.parametrize(
    "forged",
    [
        ({"signalled": True}, b""),
        ({"answer": {"end": "ok"}}, b""),
        ({"answer": {"end": "ok"}, "key": None}, b""),
        ({"flow": 1, "more": 5}, b""),
        ({"flow": 1}, b"x" * (WINDOW + 1)),
        ({"ready": {}}, b""),
    ],
)
async def test_a_forged_frame_ends_the_job(far: Far, forged: tuple[dict[str, Any], bytes]) -> None:
    await far.hear()
    far.client()
    assert (await far.hear()).header == {"flow": 1, "port": 61001}
    far.say({"taken": True})
    await asyncio.to_thread(far.say, *forged)
    assert (await far.ended()).end is End.POLICY


async def test_a_job_can_be_cancelled_while_nobody_reads_its_stream(far: Far) -> None:
    held = 0
    deadline = time.monotonic() + WAIT_S
    for _ in range(16):
        client = far.client()
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                held += client.send(b"x" * 65_536)
                assert time.monotonic() < deadline
    assert held > 1 << 20
    await asyncio.wait((far.running,), timeout=0.2)
    far.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await far.ended()
