"""Connections over one stream of frames, and the engine's sockets for them. These tests need no container."""

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.docker import inlets
from sandbox.docker.flows import WINDOW, Flows
from sandbox.docker.frames import Frame, ProtocolError
from sandbox.docker.inside.job_connections import JobConnections as Ways
from sandbox.wire.paths import INLET_NAME

pytestmark = [pytest.mark.spec("KERN-1", "BOX-9")]
ROOT = Path(__file__).parents[3]
GREETING = bytes([0xFF, *[0] * 9, 3, *[0] * 53])


class End:
    """One end of a stream, with the frames that wait for the other end."""

    def __init__(self, *, metered: bool = False) -> None:
        self.poller = select.poll()
        self.sent: deque[Frame] = deque()
        self.flows = Flows(self.poller, self._put, metered=metered)
        self.clients: list[socket.socket] = []

    def _put(self, header: dict[str, Any], body: bytes) -> None:
        self.sent.append(Frame(header, body))

    def begin(self, number: int) -> socket.socket:
        """Begin a flow, and return the other end of its socket."""
        ours, theirs = socket.socketpair()
        self.flows.begin(number)
        self.flows.connect(number, ours)
        theirs.setblocking(False)
        self.clients.append(theirs)
        return theirs

    def turn(self) -> int:
        self.flows.listen(room=True)
        events = self.poller.poll(0)
        for descriptor, _ in events:
            if self.flows.carries(descriptor):
                self.flows.move(descriptor)
        return len(events)

    def close(self) -> None:
        self.flows.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    both = End(), End()
    yield both
    for end in both:
        end.close()


def exchange_all(left: End, right: End) -> None:
    """Process both ends until there is nothing more to do."""
    deadline = time.monotonic() + 20
    while True:
        moved = left.turn() + right.turn()
        for here, there in ((left, right), (right, left)):
            while here.sent:
                there.flows.take(here.sent.popleft())
                moved += 1
        if not moved:
            return
        assert time.monotonic() < deadline


def received(client: socket.socket) -> bytes:
    data = bytearray()
    while True:
        try:
            more = client.recv(1 << 16)
        except BlockingIOError:
            return bytes(data)
        if not more:
            return bytes(data)
        data += more


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.binary(max_size=300)), max_size=30))
def test_every_connection_gets_its_own_bytes_in_order(pieces: list[tuple[int, bool, bytes]]) -> None:
    left, right = End(), End()
    pairs = {number: (left.begin(number), right.begin(number)) for number in (1, 2, 3)}
    wanted: dict[tuple[int, bool], bytes] = {}
    for number, inward, data in pieces:
        pairs[number][0 if inward else 1].send(data)
        wanted[number, inward] = wanted.get((number, inward), b"") + data
        exchange_all(left, right)
    for number, (near, far) in pairs.items():
        assert received(far) == wanted.get((number, True), b"")
        assert received(near) == wanted.get((number, False), b"")
    left.close()
    right.close()


def test_data_larger_than_a_window_arrives_completely(ends: tuple[End, End]) -> None:
    left, right = ends
    near, far = left.begin(1), right.begin(1)
    data = os.urandom(5 * WINDOW)
    sent, got = 0, b""
    deadline = time.monotonic() + 20
    while len(got) < len(data):
        assert time.monotonic() < deadline
        if sent < len(data):
            with contextlib.suppress(BlockingIOError):
                sent += far.send(data[sent:])
        exchange_all(left, right)
        got += received(near)
    assert got == data


def test_a_reader_that_does_not_read_delays_only_itself(ends: tuple[End, End]) -> None:
    left, right = ends
    slow, printer = left.begin(1), right.begin(1)
    quick, other = left.begin(2), right.begin(2)
    deadline = time.monotonic() + 20
    for _ in range(100):
        try:
            while True:
                printer.send(b"x" * 65_536)
                assert time.monotonic() < deadline
        except BlockingIOError:
            exchange_all(left, right)
    other.send(b"here")
    exchange_all(left, right)
    assert received(quick) == b"here"
    assert len(left.flows._flows[1].left) <= WINDOW
    assert received(slow)


def test_data_sent_before_the_end_arrives_before_the_end(ends: tuple[End, End]) -> None:
    left, right = ends
    near, far = left.begin(1), right.begin(1)
    far.send(b"last words")
    far.close()
    exchange_all(left, right)
    assert near.recv(100) == b"last words"
    assert near.recv(100) == b""
    assert len(left.flows) == len(right.flows) == 0


@pytest.mark.parametrize(
    "frames",
    [
        [Frame({"flow": 1}, b"x" * (WINDOW + 1))],
        [Frame({"flow": 1, "more": 1}, b"")],
        [Frame({"flow": 1, "more": -1}, b"")],
        [Frame({"flow": 1, "more": "1"}, b"")],
        [Frame({"flow": 1}, b"")] * 10_000,
        [Frame({"flow": 9}, b"x")] * 10_000,
        [Frame({"flow": None}, b"x")] * 10_000,
    ],
    ids=["too much", "room never taken", "less room", "no number", "nothing", "unknown", "no flow"],
)
def test_frames_that_violate_the_protocol_are_rejected(frames: list[Frame]) -> None:
    end = End()
    end.flows.begin(1)  # not connected yet, so all data would be kept here
    with pytest.raises(ProtocolError):
        deque(map(end.flows.take, frames), maxlen=0)


def test_a_message_over_the_limit_ends_its_connection_before_it_is_read() -> None:
    end = End(metered=True)
    client = end.begin(1)
    end.flows.take(Frame({"flow": 1}, GREETING + b"\x02" + (1 << 40).to_bytes(8)))
    assert received(client) == b""
    assert 1 not in end.flows
    assert end.sent.pop() == Frame({"flow": 1, "end": True}, b"")
    end.close()


def test_a_connection_waits_for_a_job_that_does_not_listen_yet() -> None:
    end = End()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        ways = Ways(end.poller, end.flows, [port])
        ways.take(Frame({"flow": 1, "port": port}, b""))
        ways.take(Frame({"flow": 1}, b"early"))
        deadline = time.monotonic() + 10
        for _ in range(3):
            turn(end, ways)
        assert 1 in end.flows
        server.listen()
        server.setblocking(False)
        while not end.flows._by_descriptor:
            assert time.monotonic() < deadline
            turn(end, ways)
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(100) == b"early"
    end.close()


def test_only_ports_of_the_job_accept_connections() -> None:
    end = End()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ways = Ways(end.poller, end.flows, [1])
        ways.take(Frame({"flow": 1, "port": server.getsockname()[1]}, b""))
        assert end.sent.pop() == Frame({"flow": 1, "end": True}, b"")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    end.close()


def turn(end: End, ways: Ways) -> None:
    end.flows.listen(room=True)
    again = ways.try_again()
    for descriptor, _ in end.poller.poll(50 if again is None else again * 1000):
        if ways.tries(descriptor):
            ways.move(descriptor)


class TestSockets:
    @pytest.fixture(autouse=True)
    def base(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        return tmp_path

    def test_socket_folders_are_private_and_removed_when_closed(self, base: Path) -> None:
        with inlets.KernelSockets(5) as ways:
            (folder,) = base.iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert {path.name for path in folder.iterdir()} == {f"{INLET_NAME}-{index}" for index in range(1, 6)}
            seen = ways.folder()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(f"/proc/{os.getpid()}/fd/{seen}/{INLET_NAME}-3")
                ways.listening[2].accept()[0].close()
            os.close(seen)
            inlets.sweep()
            assert folder.exists()
        assert not list(base.iterdir())

    def test_a_path_longer_than_the_limit_of_sockets_works(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        long = tmp_path / ("x" * 200)
        long.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
        with inlets.KernelSockets(1):
            assert len(list(long.iterdir())) == 1
        assert not list(long.iterdir())

    @pytest.mark.parametrize("end", ["kill -9", "exit"])
    def test_sockets_of_a_process_that_has_ended_are_removed(self, base: Path, end: str) -> None:
        code = (
            "import sys; from sandbox.docker.inlets import KernelSockets; ways = KernelSockets(5); print(flush=True); "
            "sys.stdin.readline()"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
        )
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        inlets.sweep()
        assert len(list(base.iterdir())) == 1  # its owner is alive
        if end == "exit":
            other.stdin.write(b"\n")
        else:
            other.send_signal(signal.SIGKILL)
        other.communicate(timeout=20)
        if end == "kill -9":
            inlets.sweep()
        assert not list(base.iterdir())

    def test_other_folders_are_not_removed(self, base: Path) -> None:
        (base / "knackbox-inlets-file").write_text("")
        (base / "knackbox-inlets-link").symlink_to(tempfile.gettempdir())
        (base / "another").mkdir()
        inlets.sweep()
        assert len(list(base.iterdir())) == 3
