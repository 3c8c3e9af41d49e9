"""The frames of a bridge are read from a stream that a hostile program writes."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.bridge.frames import BadFrame, FrameReader, pack

MOST = 64
PAYLOADS = st.lists(st.binary(min_size=1, max_size=MOST), max_size=10)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.spec("CODE-2")
@given(PAYLOADS, st.lists(st.integers(0, 800), max_size=20))
def test_frames_are_the_same_however_the_stream_is_cut(payloads: list[bytes], cuts: list[int]) -> None:
    reader = FrameReader(MOST)
    stream = b"".join(map(pack, payloads))
    assert [frame for piece in pieces_of(stream, cuts) for frame in reader.feed(piece)] == payloads


@pytest.mark.spec("CODE-2")
@given(PAYLOADS, st.one_of(st.just(0), st.integers(MOST + 1, 2**32 - 1)), st.binary(max_size=100))
def test_a_frame_of_a_forbidden_length_is_refused_before_its_payload(
    payloads: list[bytes], length: int, rest: bytes
) -> None:
    reader = FrameReader(MOST)
    fed = reader.feed(b"".join(map(pack, payloads)) + struct.pack("!I", length) + rest)
    assert list(itertools.islice(fed, len(payloads))) == payloads
    with pytest.raises(BadFrame):
        next(fed)


@pytest.mark.spec("CODE-2")
@given(st.binary(max_size=500))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    reader = FrameReader(MOST)
    try:
        read = list(reader.feed(data))
    except BadFrame:
        return
    assert all(0 < len(frame) <= MOST for frame in read)
    assert data.startswith(b"".join(map(pack, read)))
