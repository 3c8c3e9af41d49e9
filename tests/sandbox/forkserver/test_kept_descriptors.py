"""A new box keeps exactly the descriptors it was given, whatever numbers they had in the template."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.forkserver.template import keep_only
from sandbox.linux.cgroups import Group

pytestmark = [pytest.mark.spec("BOX-1"), pytest.mark.slow]
NUMBERS = st.lists(st.integers(3, 130), min_size=7, max_size=7, unique=True)


def kept(numbers: list[int]) -> tuple[list[str], list[int]]:
    """Let a forked process hold a file under each of seven numbers, with the number as its content, and keep them.

    Returns:
        What each kept descriptor contains, and the other descriptors that are still open.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = os.dup2(write, 140)
            for number in numbers:
                file = os.memfd_create("numbered")
                os.write(file, str(number).encode())
                if file != number:
                    os.dup2(file, number)
            keep_only((result, *numbers[:3]), Group(tuple(numbers[3:]), 3))
            found = [os.pread(each, 9, 0).decode() for each in range(4, 11)]
            os.write(3, json.dumps([found, [each for each in range(11, 200) if is_open(each)]]).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read, "rb") as source:
        contents, others = json.loads(source.read())
    return contents, others


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(NUMBERS)
def test_descriptors_keep_their_order_even_if_their_numbers_are_those_to_which_they_move(numbers: list[int]) -> None:
    assert kept(numbers) == ([str(each) for each in numbers], [])


def test_consecutive_descriptors_just_below_the_reserved_numbers_are_not_mixed_up() -> None:
    numbers = [99, 97, 98, 100, 101, 102, 103]
    assert kept(numbers) == ([str(each) for each in numbers], [])
