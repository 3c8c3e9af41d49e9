"""An assembler for seccomp filters, which are classic BPF programs. Standard library only.

The instructions are described in the kernel's ``include/uapi/linux/bpf_common.h`` and
``Documentation/userspace-api/seccomp_filter.rst``.
"""

import errno
import struct
from collections.abc import Iterable

from sandbox.linux import system_calls

LD, JA, JEQ, JGT, JGE, JSET, RET = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06
AND = 0x54
ALLOW, KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
EPERM, ENOSYS, NO_FAMILY = (_ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
EACCES, ENOTSUP, DONE = (_ERRNO | code for code in (errno.EACCES, errno.ENOTSUP, 0))

_FARTHEST = 255  # the offset of a conditional jump is one byte long
_NR, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

Ops = list[bytes]


def prologue(last: int) -> Ops:
    """Kill a process that makes a system call for an architecture other than the machine's, such as a 32-bit one.

    Refuse calls with a number above `last`. These include all calls of the x32 ABI.
    """
    return [
        op(LD, _ARCH),
        op(JEQ, system_calls.audit_architecture(), 1, 0),
        answer(KILL),
        op(LD, _NR),
        op(JGT, last, 0, 1),
        answer(ENOSYS),
    ]


def op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction. `if_true` and `if_false` are the numbers of instructions to skip."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def answer(action: int) -> bytes:
    """Return the final instruction, which tells the kernel what to do with the call."""
    return op(RET, action)


def load(argument: int) -> bytes:
    """Load the low 32 bits of an argument. The kernel ignores the high bits of all arguments that are checked here."""
    return op(LD, _ARGUMENTS + 8 * argument)


def when(number: int, body: Ops) -> Ops:
    """Run `body` for the call with this number; skip it for any other call. `body` must always end with an answer."""
    return [op(JEQ, number, 0, len(body)), *body]


def search(rules: dict[int, Ops]) -> Ops:
    """Run the instructions that `rules` contains for the call's number. Calls without a rule are allowed."""
    return _search(_ranges(rules))


def _ranges(rules: dict[int, Ops]) -> list[tuple[int, Ops]]:
    """Return (first number, instructions) for each range of calls with the same instructions, in ascending order.

    Calls without a rule are allowed.
    """
    found: list[tuple[int, Ops]] = []
    for number in range(max(rules) + 2):
        body = rules.get(number, [answer(ALLOW)])
        if not found or found[-1][1] != body:
            found.append((number, body))
    return found


def _search(ranges: list[tuple[int, Ops]]) -> Ops:
    """Find a call's instructions by binary search.

    The search speeds up the installation of the filter: the kernel runs it for every call number to fill its cache of
    results, and a linear list would add 0.3 ms to the start of every box.
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
    """Refuse the call with EPERM if the argument has any of the bits set."""
    return [load(argument), op(JSET, bits, 0, 1), answer(EPERM), answer(ALLOW)]


def refuse_values(argument: int, values: Iterable[int]) -> Ops:
    """Refuse the call with EPERM if the argument is one of the values."""
    listed = list(values)
    tests = [op(JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
    return [load(argument), *tests, answer(ALLOW), answer(EPERM)]


def only_zero(argument: int) -> Ops:
    """Refuse the call with EPERM unless the argument is zero."""
    return [load(argument), op(JEQ, 0, 1, 0), answer(EPERM), answer(ALLOW)]


def equal(argument: int, value: int, then: Ops, otherwise: Ops | None = None) -> Ops:
    """Run `then` if the argument equals the value; else run `otherwise`, or allow the call if `otherwise` is None."""
    return [load(argument), op(JEQ, value, 0, len(then)), *then, *(otherwise or []), answer(ALLOW)]


def when_bits(argument: int, bits: int, then: Ops, otherwise: Ops) -> Ops:
    """Run `then`, which must end with an answer, if the argument has any of the bits set; else run `otherwise`."""
    return [load(argument), op(JSET, bits, 0, len(then)), *then, *otherwise]


def only_values(arguments: Iterable[int], values: Iterable[int]) -> Ops:
    """Refuse the call with EPERM if one of the arguments is not among the values."""
    listed = list(values)
    ops: Ops = []
    for argument in arguments:
        tests = [op(JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
        ops += [load(argument), *tests, answer(EPERM)]
    return [*ops, answer(ALLOW)]


def one_of(argument: int, values: Iterable[int], then: Ops) -> Ops:
    """Run `then` if the argument is one of the values; else refuse the call with EAFNOSUPPORT."""
    return [load(argument), *one_of_loaded(values, then)]


def one_of_loaded(values: Iterable[int], then: Ops) -> Ops:
    """Do the same as `one_of` for an argument that has already been loaded."""
    listed = list(values)
    tests = [op(JEQ, value, len(listed) - index, 0) for index, value in enumerate(listed)]
    return [*tests, answer(NO_FAMILY), *then]
