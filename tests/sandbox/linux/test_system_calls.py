"""The numbers of system calls are those of the kernel."""

import platform
import re
from pathlib import Path

import pytest

from sandbox.linux import seccomp, system_calls
from sandbox.self_check.attempts.suite import ALL

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),  # in every architecture's package of headers
}
SAME_ON_ALL = {"fcntl"}  # the generic header defines it by way of another name
KNOWN = system_calls._NUMBERS


@pytest.mark.spec("BOX-1")
@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers (linux-libc-dev) are not installed")
    text = HEADERS[machine].read_text()
    there = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)\s", text)}
    ours = system_calls.numbers(KNOWN, machine)
    both = ours.keys() & there.keys() - SAME_ON_ALL
    assert len(both) > 90
    assert {name: ours[name] for name in both} == {name: there[name] for name in both}


@pytest.mark.spec("BOX-1")
@pytest.mark.parametrize("machine", HEADERS)
def test_no_two_calls_have_the_same_number(machine: str) -> None:
    ours = system_calls.numbers(KNOWN, machine)
    assert len(set(ours.values())) == len(ours)


@pytest.mark.spec("BOX-1")
def test_calls_that_only_some_architectures_have_are_left_out() -> None:
    assert system_calls.numbers(("open", "openat"), "aarch64") == {"openat": 56}
    assert system_calls.numbers(("open", "openat"), "x86_64") == {"open": 2, "openat": 257}
    assert system_calls.numbers(("open",), "riscv64") == {}


@pytest.mark.spec("BOX-1", "BOX-2")
def test_the_attempts_of_the_escape_suite_name_only_calls_in_the_table() -> None:
    """Otherwise they would not be made on aarch64, or would make another call."""
    in_the_table = set(system_calls.numbers(KNOWN, "x86_64").values())
    used = {number for attempt in ALL for number in attempt.system_calls}
    assert len(used) > 60
    assert {number for number in used - in_the_table if number < 424} == set()
    assert system_calls.from_x86_64("aarch64")[165] == system_calls.numbers(("mount",), "aarch64")["mount"]
    assert system_calls.from_x86_64("x86_64") == {}
    assert not system_calls.exists(85, "aarch64")  # creat
    assert system_calls.exists(435, "aarch64")


@pytest.mark.spec("BOX-1", "BOX-2")
def test_every_refused_call_of_this_machine_is_in_the_filter() -> None:
    assert system_calls.supported() == (platform.machine() in HEADERS)
    assert {"mount", "unshare", "setns", "ptrace", "bpf"} <= seccomp.DENIED.keys()
    assert {"clone3", "io_uring_setup"} <= seccomp.UNKNOWN.keys()
