"""The size of each message of a kernel is limited, regardless of how its bytes are split."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.wire.zmtp import Meter

pytestmark = pytest.mark.spec("KERN-1")

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
MORE, LONG, COMMAND = 1, 2, 4


def part(body: bytes, flags: int = 0) -> bytes:
    if len(body) > 255 or flags & LONG:
        return bytes([flags | LONG]) + len(body).to_bytes(8) + body
    return bytes([flags, len(body)]) + body


def passes(meter: Meter, data: bytes, cuts: list[int]) -> bool:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return all(meter.passes(data[a:b]) for a, b in pairwise(edges))


def test_the_greeting_is_64_bytes() -> None:
    assert len(GREETING) == 64


@given(st.lists(st.integers(0, 10_000), max_size=20), st.lists(st.integers(0, 600), min_size=1, max_size=10))
def test_messages_within_the_limit_pass_in_pieces_of_any_size(cuts: list[int], sizes: list[int]) -> None:
    data = GREETING + part(b"ready", COMMAND) + b"".join(part(bytes(size)) for size in sizes)
    assert passes(Meter(most=700), data, cuts)


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_a_message_of_many_parts_counts_as_one(cuts: list[int]) -> None:
    parts = [part(bytes(100), MORE) for _ in range(9)] + [part(bytes(100))]
    assert passes(Meter(most=1100), GREETING + b"".join(parts) * 2, cuts)
    assert not passes(Meter(most=1000), GREETING + b"".join(parts), cuts)


def test_an_announced_length_over_the_limit_is_refused_before_the_data_arrives() -> None:
    assert not Meter(most=1000).passes(GREETING + bytes([LONG]) + (1 << 62).to_bytes(8))


def test_endless_parts_are_refused_even_if_they_are_empty() -> None:
    assert not Meter(most=1000).passes(GREETING + part(b"", MORE) * 1000)


@pytest.mark.parametrize("greeting", [b"\x01\x00" + bytes(62), GREETING[:10] + b"\x01" + GREETING[11:], bytes(64)])
def test_an_older_protocol_with_other_framing_is_refused(greeting: bytes) -> None:
    assert not Meter().passes(greeting)
