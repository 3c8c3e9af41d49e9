"""The stream between the engine and a container, and its frames. These tests need no Docker Engine."""

import json
import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import worker
from sandbox.contract import Limits, Mount
from sandbox.docker import bundle
from sandbox.docker.channel import Demultiplexer
from sandbox.docker.config import Shape
from sandbox.docker.frames import Frame, ProtocolError
from sandbox.docker.owner import OWNER, ContainerOwner, is_left_over

pytestmark = pytest.mark.spec("BOX-9")
FRAMES = st.lists(
    st.tuples(st.dictionaries(st.text(max_size=5), st.integers(), max_size=2), st.binary(max_size=60)), max_size=6
)


def piece(stream: int, data: bytes) -> bytes:
    return struct.pack("!BxxxI", stream, len(data)) + data


@given(frames=FRAMES, cuts=st.lists(st.integers(1, 40), min_size=1), noise=st.binary(max_size=20))
def test_frames_are_complete_regardless_of_how_the_stream_is_split(
    frames: list[tuple[dict[str, int], bytes]], cuts: list[int], noise: bytes
) -> None:
    plain = b"".join(worker.pack(header, body) for header, body in frames)
    wire, at, turn = b"", 0, 0
    while at < len(plain):
        wire += piece(1, plain[at : at + cuts[turn % len(cuts)]]) + piece(2, noise)
        at += cuts[turn % len(cuts)]
        turn += 1
    streams, found = Demultiplexer(), []
    for start in range(0, len(wire), cuts[0]):
        found += streams.feed(wire[start : start + cuts[0]])
    assert found == [Frame(header, body) for header, body in frames]
    assert streams.stderr == (noise * turn)[-4096:]


@pytest.mark.parametrize(
    "data", [b"\xff" * 40, worker.HEADER.pack(3, 0) + b"[1]", worker.HEADER.pack(2, 0) + b"{]", b"x" * 12 + b"{}",
             worker.HEADER.pack(200_000, 0) + b"[" * 200_000]
)  # fmt: skip
def test_data_that_is_not_a_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Demultiplexer().feed(piece(1, data))


def test_a_container_receives_modules_that_need_only_the_standard_library() -> None:
    frame = bundle.boot_frame(())
    head, _ = worker.unpack_head(frame[: worker.HEADER.size])
    sources = json.loads(frame[worker.HEADER.size + head :])
    assert bundle.MAIN in sources
    for name, source in sources.items():
        for line in source.splitlines():
            words = line.split()
            if line.startswith(("import ", "from ")):
                top = words[1].split(".")[0]
                assert top == "sandbox" or top in sys.stdlib_module_names, f"{name}: {line}"


class TestLeftovers:
    def labelled(self, owner: ContainerOwner, state: str = "running") -> dict[str, object]:
        return {"Id": "x", "State": state, "Labels": owner.labels}

    def other(self, *, pid: int, started: str, space: str = "", boot: str = "") -> ContainerOwner:
        us = ContainerOwner.this_process()
        return ContainerOwner(f"{pid}.{boot or us.name.split('.')[1]}.abc", space or us.pid_namespace, started)

    def test_containers_of_this_engine_and_of_other_living_engines_are_kept(self) -> None:
        us, alive = ContainerOwner.this_process(), ContainerOwner.this_process()
        assert alive.name != us.name
        assert not is_left_over(self.labelled(us), us)
        assert not is_left_over(self.labelled(alive), us)
        assert not is_left_over({"Id": "x", "State": "exited", "Labels": {}}, us)

    def test_a_container_whose_owners_process_id_was_reused_is_left_over(self) -> None:
        assert is_left_over(self.labelled(self.other(pid=os.getpid(), started="1")), ContainerOwner.this_process())
        assert is_left_over(self.labelled(self.other(pid=2**22 + 1, started="1")), ContainerOwner.this_process())

    def test_a_container_of_an_unknown_owner_is_kept_unless_it_has_ended(self) -> None:
        for elsewhere in (
            self.other(pid=2**22 + 1, started="1", boot="another-machine"),
            self.other(pid=2**22 + 1, started="1", space="pid:[1]"),
        ):
            assert not is_left_over(self.labelled(elsewhere), ContainerOwner.this_process())
            assert is_left_over(self.labelled(elsewhere, "exited"), ContainerOwner.this_process())


def test_shapes_are_equal_when_their_containers_would_be_equal(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one = Shape.of(Limits(wall_s=1), ("b", "a"), Mount(tmp_path))
    assert one == Shape.of(Limits(wall_s=2, cpu_s=3), ("a", "b", "a"), Mount(tmp_path / "link"))
    assert one != Shape.of(Limits(processes=3), ("a", "b"), Mount(tmp_path))
    assert ContainerOwner.this_process().labels[OWNER].count(".") == 2
