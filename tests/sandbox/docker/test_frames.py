"""Frames of a container under an attacker's control: each takes only bounded resources of the engine."""

import json

import pytest

from sandbox import worker
from sandbox.docker.channel import Demultiplexer
from sandbox.docker.frames import Frames, ProtocolError
from sandbox.nodes import MAX_NODES


@pytest.mark.spec("CALL-14")
def test_a_header_of_too_many_values_is_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = worker.pack({"answer": {"value": [[] for _ in range(1_000_000)]}})
    monkeypatch.setattr(json, "loads", pytest.fail)
    with pytest.raises(ProtocolError, match="too many values"):
        Frames().feed(frame)


@pytest.mark.spec("CALL-14")
def test_the_largest_value_that_a_worker_reports_is_accepted() -> None:
    value = list(range(MAX_NODES))
    (frame,) = Frames().feed(worker.pack({"answer": {"value": value}}))
    assert frame.header["answer"]["value"] == value


@pytest.mark.spec("BOX-13")
@pytest.mark.parametrize("faulty", [b"[]", b"not JSON"])
@pytest.mark.parametrize("together", [True, False], ids=["in one piece", "in two pieces"])
def test_frames_that_arrive_with_a_faulty_one_are_not_lost(faulty: bytes, together: bool) -> None:
    """Send a frame that says that the job has begun: if it were lost, the job would be run again."""
    taken, fault = worker.pack({"taken": True}), worker.HEADER.pack(len(faulty), 0) + faulty
    pieces = [taken + fault] if together else [taken, fault]
    with pytest.raises(ProtocolError) as raised:
        Demultiplexer().feed(b"".join(b"\x01\0\0\0" + len(piece).to_bytes(4, "big") + piece for piece in pieces))
    assert [frame.header for frame in raised.value.frames] == [{"taken": True}]
