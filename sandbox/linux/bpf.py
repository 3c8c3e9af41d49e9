"""An assembler for seccomp's filters, which are classic BPF programs. Standard library only.

Instructions: the kernel's ``include/uapi/linux/bpf_common.h`` and ``Documentation/userspace-api/seccomp_filter.rst``.
"""

import errno
import struct
from collections.abc import Iterable

LD, JA, JEQ, JGT, JGE, JSET, RET = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06
AND = 0x54
ALLOW, KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
EPERM, ENOSYS, NO_FAMILY = (_ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
EACCES, ENOTSUP, DONE = (_ERRNO | code for code in (errno.EACCES, errno.ENOTSUP, 0))

_AUDIT_ARCH_X86_64 = 0xC000003E
_FARTHEST = 255  # a conditional jump has one byte
_NR, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

Ops = list[bytes]


def prologue(last: int) -> Ops:
    """Only 64-bit calls of x86_64 go on; those numbered over `last` are not there, and so the x32 ABI's."""
    return [
        op(LD, _ARCH),
        op(JEQ, _AUDIT_ARCH_X86_64, 1, 0),
        answer(KILL),
        op(LD, _NR),
        op(JGT, last, 0, 1),
        answer(ENOSYS),
    ]


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; jumps count the instructions they leave out."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def answer(action: int) -> bytes:
    """The end: what the kernel does with the call."""
    return op(RET, action)


def load(argument: int) -> bytes:
    """The low half of an argument; the kernel looks at no more of those checked here."""
    return op(LD, _ARGUMENTS + 8 * argument)


def when(number: int, body: Ops) -> Ops:
    """`body`, which always returns, for this call; with any other, what comes after it."""
    return [op(JEQ, number, 0, len(body)), *body]


def search(rules: dict[int, Ops]) -> Ops:
    """Each call's body, found by its number; what has no rule is allowed."""
    return _search(_ranges(rules))


def _ranges(rules: dict[int, Ops]) -> list[tuple[int, Ops]]:
    """(first number, body) of each run of calls that are treated alike, from 0 up; what has no rule is allowed."""
    found: list[tuple[int, Ops]] = []
    for number in range(max(rules) + 2):
        body = rules.get(number, [answer(ALLOW)])
        if not found or found[-1][1] != body:
            found.append((number, body))
    return found


def _search(ranges: list[tuple[int, Ops]]) -> Ops:
    """Find a call's body by halves.

    Not for the calls' sake, whose answer the kernel remembers where it can: to find out where, it runs the filter over
    every number as it is put on, and through a plain list that takes 0.3 ms of every box's start.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    first = ranges[middle][0]
    if len(below) <= _FARTHEST:
        return [op(JGE, first, len(below), 0), *below, *above]
    return [op(JGE, first, 0, 1), op(JA, len(below)), *below, *above]


def refuse_bits(argument: int, bits: int) -> Ops:
    """EPERM when any of the bits is set."""
    return [load(argument), op(JSET, bits, 0, 1), answer(EPERM), answer(ALLOW)]


def refuse_values(argument: int, values: Iterable[int]) -> Ops:
    """EPERM when the argument is one of these."""
    listed = list(values)
    tests = [op(JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
    return [load(argument), *tests, answer(ALLOW), answer(EPERM)]


def only_zero(argument: int) -> Ops:
    """EPERM for anything else."""
    return [load(argument), op(JEQ, 0, 1, 0), answer(EPERM), answer(ALLOW)]


def equal(argument: int, value: int, then: Ops, otherwise: Ops | None = None) -> Ops:
    """`then` when the argument is the value; else `otherwise`, or it is allowed."""
    return [load(argument), op(JEQ, value, 0, len(then)), *then, *(otherwise or []), answer(ALLOW)]


def when_bits(argument: int, bits: int, then: Ops, otherwise: Ops) -> Ops:
    """`then`, which always returns, when any of the bits is set; else `otherwise`."""
    return [load(argument), op(JSET, bits, 0, len(then)), *then, *otherwise]


def only_values(arguments: Iterable[int], values: Iterable[int]) -> Ops:
    """EPERM when one of the arguments is none of the values."""
    listed = list(values)
    ops: Ops = []
    for argument in arguments:
        tests = [op(JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
        ops += [load(argument), *tests, answer(EPERM)]
    return [*ops, answer(ALLOW)]


def one_of(argument: int, values: Iterable[int], then: Ops) -> Ops:
    """`then` when the argument is one of these; else there is no such family."""
    return [load(argument), *one_of_loaded(values, then)]


def one_of_loaded(values: Iterable[int], then: Ops) -> Ops:
    """`one_of` for what has been loaded already."""
    listed = list(values)
    tests = [op(JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
    return [*tests, answer(NO_FAMILY), *then]
