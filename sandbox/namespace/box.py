"""Process 1 of a box: isolates itself, waits for one job, watches the worker that runs it, answers, and ends.

Standard library only. It is trusted: the code under test runs in a child (the worker) that has no capabilities, a
seccomp filter and Landlock rules, and that can neither signal nor inspect this process. When process 1 ends, the
kernel kills whatever is left in the box.
"""

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass

from sandbox import worker
from sandbox.namespace import landlock, rootfs, seccomp, syscalls
from sandbox.namespace.watch import TreeWatch

DEFAULT_DISK_BYTES = 128 << 20
_INODES = 65_536
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_MAX_COLLECTED_BYTES = 256 << 20
_RESULT_FD = 3
_END_BY_SIGNAL = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "file_size", signal.SIGSYS: "policy"}
_WRITABLE = (rootfs.TMP, rootfs.WORK, "/dev/shm", "/dev/null", "/dev/zero", "/dev/full")  # noqa: S108  (in the box)


@dataclass(frozen=True)
class BoxPlan:
    """What every box of one template shares. seccomp: the assembled filter. landlock_abi: 0 without Landlock."""

    seccomp: bytes
    landlock_abi: int


@dataclass
class _Ended:
    """How the worker ended, before it is put into words."""

    reason: str  # "" when it ended by itself
    status: int
    answer: bytes


def main(plan: BoxPlan, channel: socket.socket, out: int, err: int, mapped: int) -> None:
    """Never returns. `mapped` gives one byte once the parent has written this process's id maps."""
    try:
        _isolate(mapped)
        rules = landlock.ruleset(plan.landlock_abi, _WRITABLE) if plan.landlock_abi else -1
        header, body, tree = _receive(channel)
        watch = _prepare(header, tree)
        ended, used = _run_worker(plan, channel, header, body, (out, err), rules, watch)
        answer, files = _conclude(header, ended, used, watch)
        channel.sendall(worker.pack(answer, files))
    except EOFError:  # the engine is gone or wants no job here
        pass
    except BaseException as problem:  # noqa: BLE001  (nothing may fall back into the template's code)
        with contextlib.suppress(OSError):
            channel.sendall(worker.pack({"failed": f"{type(problem).__name__}: {problem}"}))
    finally:
        os._exit(0)


def _isolate(mapped: int) -> None:
    if os.read(mapped, 1) != b"m":
        raise EOFError
    os.close(mapped)
    with contextlib.suppress(PermissionError):  # an ordinary user's namespace may not change groups
        os.setgroups([])
    os.setresgid(rootfs.BOX_ID, rootfs.BOX_ID, rootfs.BOX_ID)
    os.setresuid(rootfs.BOX_ID, rootfs.BOX_ID, rootfs.BOX_ID)
    socket.sethostname("box")
    _loopback_up()
    quiet = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("tmpfs", rootfs.BOX, "tmpfs", quiet, _tmpfs_options(DEFAULT_DISK_BYTES))
    for name, target in (("tmp", rootfs.TMP), ("work", rootfs.WORK), ("shm", "/dev/shm")):  # noqa: S108  (in the box)
        os.mkdir(f"{rootfs.BOX}/{name}", 0o700)
        syscalls.mount(f"{rootfs.BOX}/{name}", target, "", syscalls.MS_BIND)
    syscalls.mount("proc", "/proc", "proc", quiet | syscalls.MS_NOEXEC)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # the worker has our user id: keep it out of /proc/1
    syscalls.drop_bounding_set()
    os.umask(0o077)


def _tmpfs_options(size: int) -> str:
    return f"size={size},nr_inodes={_INODES},mode=0700"


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def _receive(channel: socket.socket) -> tuple[dict, bytes, int]:
    """The job, and the workspace's mount when one came with it (else -1). Raises EOFError."""
    data, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
    if not data:
        raise EOFError
    head = bytearray(data)
    while len(head) < worker.HEADER.size:
        head += _more(channel, 1 << 16)
    header_length, body_length = worker.unpack_head(bytes(head[: worker.HEADER.size]))
    total = worker.HEADER.size + header_length + body_length
    while len(head) < total:
        head += _more(channel, min(1 << 20, total - len(head)))
    start = worker.HEADER.size
    text = bytes(head[start : start + header_length])
    return worker.json.loads(text), bytes(head[start + header_length :]), descriptors[0] if descriptors else -1


def _more(channel: socket.socket, size: int) -> bytes:
    data = channel.recv(size)
    if not data:
        raise EOFError
    return data


def _prepare(header: dict, tree: int) -> TreeWatch:
    """The last things that need a capability; afterwards there is none."""
    limits = header["limits"]
    if limits["disk_bytes"] != DEFAULT_DISK_BYTES:
        flags = syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NODEV
        syscalls.mount("tmpfs", rootfs.BOX, "tmpfs", flags, _tmpfs_options(limits["disk_bytes"]))
    if tree >= 0:
        syscalls.move_mount(tree, rootfs.WORK)
        os.close(tree)
    os.makedirs(header["folder"], 0o700, exist_ok=True)
    syscalls.drop_capabilities()
    return TreeWatch(limits, rootfs.BOX)


def _run_worker(
    plan: BoxPlan,
    channel: socket.socket,
    header: dict,
    body: bytes,
    output: tuple[int, int],
    rules: int,
    watch: TreeWatch,
) -> tuple[_Ended, resource.struct_rusage]:
    stdin = _stdin(body[len(body) - header["stdin"] :])
    result_read, result_write = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(result_read, False)
    pid = os.fork()
    if pid == 0:
        _become_worker(plan, header, body, (stdin, *output, result_write), rules, watch)
    for descriptor in (stdin, *output, result_write):
        os.close(descriptor)
    return _attend(pid, channel, result_read, header["limits"]["wall_s"], watch)


def _stdin(data: bytes) -> int:
    if not data:
        return os.open("/dev/null", os.O_RDONLY)
    descriptor = os.open(rootfs.TMP, os.O_TMPFILE | os.O_RDWR, 0o600)
    worker.write_all(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _become_worker(
    plan: BoxPlan, header: dict, body: bytes, descriptors: tuple[int, int, int, int], rules: int, watch: TreeWatch
) -> None:
    """In the forked child: take the last privileges away, then run the job. Never returns."""
    try:
        high = [fcntl.fcntl(d, fcntl.F_DUPFD, 64) for d in (*descriptors, *([rules] if rules >= 0 else []))]
        for target, source in enumerate(high):
            os.dup2(source, target, inheritable=target < _RESULT_FD)
        rules = len(descriptors) if rules >= 0 else -1
        syscalls.close_from(len(high))
        os.setsid()
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        if rules >= 0:
            if header["mount"]:
                landlock.allow(rules, rootfs.WORK, landlock.write_access(plan.landlock_abi))
            landlock.restrict(rules)
        worker.set_limits(header["limits"], data_in_use=watch.data_in_use(header["language"]), processes_in_use=1)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        worker.restore_signals()
        seccomp.apply(plan.seccomp)
        worker.run(header, body, _RESULT_FD)
    except BaseException as problem:  # noqa: BLE001  (a child must never return into its parent's code)
        with contextlib.suppress(OSError):
            failure = {"end": "error", "exit_code": 1, "error": worker.describe(problem)}
            worker.write_all(_RESULT_FD, worker.pack(failure))
    finally:
        os._exit(1)


def _attend(
    pid: int, channel: socket.socket, result_read: int, wall_s: float, watch: TreeWatch
) -> tuple[_Ended, resource.struct_rusage]:
    """Wait for the worker, drain its answer, and end it when time, memory or the engine say so."""
    exited = os.pidfd_open(pid)
    poller = select.poll()
    for descriptor in (exited, result_read, channel.fileno()):
        poller.register(descriptor, select.POLLIN)
    answer = bytearray()
    deadline = time.monotonic() + wall_s
    reason, pause = "", 0.01
    while not reason:
        left = deadline - time.monotonic()
        events = dict(poller.poll(max(0.0, min(pause, left)) * 1000))
        if result_read in events and not _drain(result_read, answer):
            poller.unregister(result_read)
        if exited in events:
            break
        if channel.fileno() in events:
            reason = _order(channel)
        elif left <= 0:
            reason = "timeout"
        elif not events:
            pause = min(0.05, pause * 2)
            reason = watch.exceeded()
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # everything in the box but us: daemons of the job end with it
    status = _reap(pid)
    _drain(result_read, answer)
    return _Ended(reason, status, bytes(answer)), resource.getrusage(resource.RUSAGE_CHILDREN)


def _drain(descriptor: int, into: bytearray) -> bool:
    """Read what is there; False at the end of the stream."""
    limit = worker.MAX_VALUE_BYTES + (1 << 16)
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        if len(into) < limit:
            into += data


def _order(channel: socket.socket) -> str:
    """What the engine wants of a running job: a reason to end it. EOF means that nobody waits any more."""
    try:
        head = channel.recv(worker.HEADER.size, socket.MSG_WAITALL)
        length, _ = worker.unpack_head(head)
        return str(worker.json.loads(channel.recv(length, socket.MSG_WAITALL))["stop"])
    except (struct.error, OSError):
        raise EOFError from None


def _reap(worker_pid: int) -> int:
    status = 0
    while True:
        try:
            pid, code = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == worker_pid:
            status = code


def _conclude(
    header: dict, ended: _Ended, used: resource.struct_rusage, watch: TreeWatch
) -> tuple[dict, bytes]:
    """Put the end into the words of the contract, and add usage and collected files."""
    answer = _own_answer(ended, header)
    hits = watch.hits(used)
    if ended.reason:
        answer["end"] = ended.reason
    if answer["end"] in ("killed", "error") and ended.status and not ended.reason and "cpu" in hits:
        answer["end"] = "cpu"
    if answer["end"] == "error" and header["language"] != "python" and hits:
        answer["end"] = hits[0]
    if answer["end"] not in ("ok", "error", "killed", "policy", *hits):
        hits.append(answer["end"])
    answer["usage"] = {
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_memory_bytes": watch.peak(used),
        "limits_hit": hits,
    }
    listing, body = _collect(header.get("collect", []))
    answer["files"] = listing
    return answer, body


def _own_answer(ended: _Ended, header: dict) -> dict:
    exit_code = os.waitstatus_to_exitcode(ended.status)
    signalled = -exit_code if exit_code < 0 else None
    size = worker.HEADER.size
    if len(ended.answer) >= size and not signalled:
        length, _ = worker.unpack_head(ended.answer[:size])
        with contextlib.suppress(ValueError):
            answer = worker.json.loads(ended.answer[size : size + length])
            if isinstance(answer, dict) and answer.get("end"):
                return {**answer, "exit_code": exit_code}
    if signalled:
        end = _END_BY_SIGNAL.get(signalled, "killed" if signalled == signal.SIGKILL else "error")
        return {"end": end, "signal": signalled, "exit_code": None}
    if header.get("call"):
        message = f"the code left the process (exit code {exit_code}) before its function returned"
        return {
            "end": "error",
            "exit_code": exit_code,
            "error": {"type": "SystemExit", "message": message, "traceback": ""},
        }
    return {"end": "error" if exit_code else "ok", "exit_code": exit_code}


def _collect(paths: list[str]) -> tuple[list, bytes]:
    """Files to bring back. Every other process of the box is dead, so nothing moves under our feet."""
    listing, parts, total = [], [], 0
    for path in paths:
        real = os.path.realpath(os.path.join(rootfs.WORK, path))
        if not real.startswith(rootfs.WORK + "/") or not os.path.isfile(real):
            continue
        total += os.path.getsize(real)
        if total > _MAX_COLLECTED_BYTES:
            break
        with open(real, "rb") as source:
            parts.append(source.read())
        listing.append([path, len(parts[-1])])
    return listing, b"".join(parts)
