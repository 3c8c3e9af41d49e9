"""Frames of a container that has been taken over: none costs the engine more than it should."""

import json

import pytest

from sandbox import worker
from sandbox.docker.frames import Frames, ProtocolError
from sandbox.nodes import MAX_NODES


@pytest.mark.spec("CALL-14")
def test_a_header_of_too_many_values_is_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = worker.pack({"answer": {"value": [[] for _ in range(1_000_000)]}})
    monkeypatch.setattr(json, "loads", pytest.fail)
    with pytest.raises(ProtocolError, match="too many values"):
        Frames().feed(frame)


@pytest.mark.spec("CALL-14")
def test_the_largest_value_that_a_worker_reports_is_taken() -> None:
    value = list(range(MAX_NODES))
    (frame,) = Frames().feed(worker.pack({"answer": {"value": value}}))
    assert frame.header["answer"]["value"] == value
