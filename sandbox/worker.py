"""Runs inside a box: receives one job, runs it and reports once. One file, standard library only, for any image.

The worker stays one file because it is also started by its path, with an interpreter that cannot import `sandbox`, and
because its own frames are removed from tracebacks by the file name.

Messages are frames: ``u32 header length, u64 body length, header (JSON), body (bytes)``, in network byte order. The
caller must isolate this process before it calls `run`; this file does not protect the host. The answer is sent on a
separate descriptor, so that nothing that the code prints can be taken for the answer.
"""

import ast
import atexit
import builtins
import contextlib
import ctypes
import errno
import gc
import io
import json
import linecache
import math
import os
import resource
import signal
import site
import struct
import sys
import threading
import traceback
import types
from typing import Any, NoReturn

Message = dict[str, Any]

HEADER = struct.Struct("!IQ")
MAX_VALUE_BYTES = 4 << 20
MAX_VALUE_NODES = 100_000  # lists, objects and their elements; the engine accepts no more (`sandbox.nodes`)
MAX_ERROR_CHARS = 16_000
SCRIPT = "main.py"
OWN_FILES = "<knackbox>/"  # the beginning of the file names that a template's own modules have in tracebacks
CLIENTS = "/opt/knackbox"  # the folder of the clients with which a job calls tools
_NOT_THE_JOBS = (__file__, OWN_FILES, f"{CLIENTS}/", "<frozen importlib")
_UMASK = 0o022  # other users can read the files that a job leaves in a workspace, as with any program of its owner
_NOT_FOUND = 127  # the exit code of a shell for a command that does not exist
_STACK_BYTES, _PTHREAD_ATTR_BYTES = 4 << 20, 256  # pthread_attr_t has 56 bytes in glibc and musl
_MOST_STACKS = 0.5  # if stacks of threads take a larger share of the memory limit, they are what used it up
_MAX_LINKED = 16  # exceptions followed along a chain of causes

# Exceptions that mean that a limit was reached. The ends are names of `sandbox.contract.End`.
_END_BY_ERRNO = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EMFILE: "files",
    errno.ENFILE: "files",
    errno.EFBIG: "file_size",
    errno.ENOMEM: "memory",
}
_FIXED_LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_MEMLOCK: 65_536,
    resource.RLIMIT_SIGPENDING: 1024,
    resource.RLIMIT_MSGQUEUE: 0,
}
_FORKING = ("fork", "_execute_child", "forkpty", "posix_spawn")


def pack(header: Message, body: bytes = b"") -> bytes:
    """Return one frame."""
    text = json.dumps(header).encode()
    return HEADER.pack(len(text), len(body)) + text + body


def unpack_head(data: bytes) -> tuple[int, int]:
    """Return (header length, body length) of the frame that starts with these `HEADER.size` bytes."""
    header_length, body_length = HEADER.unpack(data)
    return header_length, body_length


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def place_files(folder: str, listing: list[tuple[str, int]], body: bytes) -> None:
    """Write the job's files below `folder`. `listing` is [[path, size], …] in the order of `body`."""
    offset = 0
    for path, size in listing:
        target = os.path.normpath(os.path.join(folder, path))
        if not target.startswith(folder + "/"):
            raise ValueError(f"file path {path!r} leaves the job's folder")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as out:
            out.write(body[offset : offset + size])
        offset += size


def set_limits(limits: Message, *, data_in_use: int, processes_in_use: int) -> None:
    """Lower the job's rlimits permanently.

    Args:
        limits: `sandbox.contract.Limits` as a dict.
        data_in_use: The bytes that RLIMIT_DATA counts although the job does not use them.
        processes_in_use: The tasks that RLIMIT_NPROC counts although the job did not start them.
    """
    memory = limits["memory_bytes"] + data_in_use
    cpu = max(1, math.ceil(limits["cpu_s"]))
    tasks = max(limits["processes"], limits["threads"]) + processes_in_use  # the kernel counts threads, not processes
    for name, *wanted in (
        ("CPU", cpu, cpu + 1),
        ("DATA", memory, memory),
        ("NPROC", tasks, tasks),
        ("NOFILE", limits["open_files"], limits["open_files"]),
        ("FSIZE", limits["file_size_bytes"], limits["file_size_bytes"]),
    ):
        _lower(getattr(resource, "RLIMIT_" + name), *wanted)


def set_fixed_limits() -> None:
    """Lower the rlimits that are the same for every job."""
    for kind, wanted in _FIXED_LIMITS.items():
        _lower(kind, wanted, wanted)


def _lower(kind: int, soft: int, hard: int) -> None:
    ceiling = resource.getrlimit(kind)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def run(job: Message, body: bytes, result_fd: int) -> NoReturn:
    """Run one job and exit. `job` is the header described in `sandbox.wire.request`."""
    folder = job["folder"]
    os.makedirs(folder, 0o700, exist_ok=True)
    place_files(folder, job["files"], body)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    os.umask(_UMASK)
    if job["language"] == "python":
        _run_python(job, folder, result_fd)
    os.set_inheritable(result_fd, False)
    command = job["command"]
    try:
        os.execvpe(command[0], command, os.environ)  # noqa: S606  (runs without a shell on purpose)
    except OSError as problem:
        write_all(2, f"{command[0]}: {problem.strerror}\n".encode())
        os._exit(_NOT_FOUND)


def _run_python(job: Message, folder: str, result_fd: int) -> NoReturn:
    after_fork()
    open_streams()
    reporter = _Reporter(result_fd)
    leave_no_trace()
    sys.argv = [SCRIPT, *job["argv"]]
    sys.orig_argv = [sys.executable, *sys.argv]
    site.USER_BASE = site.USER_SITE = None  # discard the template's values, since its home was different
    site.getusersitepackages()
    sys.dont_write_bytecode = bool(job["env"].get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:0] = [folder] if folder == job["cwd"] else [folder, job["cwd"]]
    packages = job["env"].get("PYTHONPATH", "").split(":")
    sys.path += [path for path in packages if path and path not in sys.path]  # a child interpreter adds them itself
    answer: Message = {"end": "ok", "exit_code": 0}
    text = b""
    try:
        if job.get("prelude"):
            exec(compile(job["prelude"], f"{CLIENTS}/prelude.py", "exec"), {})  # noqa: S102
        if job.get("call"):
            answer["value"] = _call(job["call"], folder)
        else:
            answer["value"] = _script(job["code"], _keep_script(folder, job["code"]))
        if reporter.is_owner:
            text = _dump(answer, strict=bool(job.get("call")))
    except SystemExit as stop:
        code = stop.code
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
            code = 1
        code = int(code or 0) & 0xFF
        answer = {"end": "error" if code else "ok", "exit_code": code}
        text = _dump(answer, strict=False)
    except BaseException as problem:  # noqa: BLE001  (whatever the code raised is its result)
        answer = {"end": end_of(problem), "exit_code": 1, "error": describe(problem)}
        if not job.get("call") or not reporter.is_owner:
            _show(problem, answer["error"]["traceback"])
        text = _dump(answer, strict=False)
    _finish(reporter, text, answer["exit_code"], stay=job.get("stay", False))


class _Reporter:
    """Reports the result for the process that received the job, but for none of its forks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = self._identity()
        self._owner = os.getpid()
        os.register_at_fork(after_in_child=self._close)

    @property
    def is_owner(self) -> bool:
        return os.getpid() == self._owner

    def send(self, frame: bytes) -> bool:
        """Send the frame.

        In a forked child, or if the job has replaced the descriptor, send nothing and return False.
        """
        if not self.is_owner or not self._is_open():
            return False
        write_all(self._descriptor, frame)
        self._close()
        return True

    def _close(self) -> None:
        if self._is_open():
            os.close(self._descriptor)

    def _is_open(self) -> bool:
        return self._file == self._identity() is not None

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self._descriptor)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def open_streams() -> None:
    """Recreate `sys.stdin`, `sys.stdout` and `sys.stderr` on descriptors 0 to 2, as a starting interpreter does.

    Before the fork, these descriptors were other files. The old stream objects remember whether those were seekable.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        errors = "backslashreplace" if name == "stderr" else "surrogateescape"  # as in the locale C.UTF-8
        raw = io.FileIO(descriptor, mode, closefd=False)
        raw.name = f"<{name}>"
        buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
        lines = name == "stderr" or raw.isatty()
        stream = io.TextIOWrapper(buffered, "utf-8", errors, newline="\n", line_buffering=lines)
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def prepare_template() -> None:
    """Add the builtins that `site` gives every program (`exit`, `quit`, `help`, …), and set the threads' stack size.

    RLIMIT_DATA counts a whole stack, touched or not: with the usual 8 MiB, 64 threads would need 512 MiB. Python's
    recursion limit needs 4 MiB.
    """
    if not hasattr(builtins, "exit"):
        site.setquit()
        site.setcopyright()
        site.sethelper()
    libc = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(_PTHREAD_ATTR_BYTES)
    if hasattr(libc, "pthread_setattr_default_np") and libc.pthread_attr_init(attributes) == 0:
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
        libc.pthread_setattr_default_np(attributes)


def leave_no_trace() -> None:
    """Remove the sandbox's own modules from `sys.modules`, because the job may have packages with these names."""
    if "sandbox" not in sys.modules:  # the template has removed them; reading all names would copy their pages
        return
    for name in [name for name in sys.modules if name == "sandbox" or name.startswith("sandbox.")]:
        del sys.modules[name]


def _show(problem: BaseException, text: str) -> None:
    """Print an uncaught exception, through the job's own `sys.excepthook` if it has one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.excepthook is not sys.__excepthook__:
            sys.excepthook(type(problem), problem, problem.__traceback__)
        else:
            sys.stderr.write(text)


def _finish(reporter: _Reporter, text: bytes, exit_code: int, *, stay: bool) -> NoReturn:
    """End as an interpreter does: wait for threads, run exit handlers, finalize and flush. Then report and exit."""
    # The interpreter itself calls these: they wait for non-daemon threads, then run the exit handlers.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    _finalize_main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if reporter.send(text) and stay:
        while True:
            signal.pause()
    os._exit(exit_code)


def _finalize_main() -> None:
    """Flush open files, then clear the main module as the interpreter does, so that finalizers run."""
    main = sys.modules.pop("__main__", None)
    if main is None:
        return
    for each in gc.get_objects():
        if type(each) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
            with contextlib.suppress(OSError, ValueError):
                each.flush()
    own = vars(main) is globals()  # this file, run as a program by a backend without a template
    if (
        threading.active_count() == 1 and not own
    ):  # daemon threads, which end with the process, still need their globals
        names = vars(main)
        private = [name for name in names if name.startswith("_") and not name.startswith("__")]
        for name in (*private, *(name for name in list(names) if name not in private and name != "__builtins__")):
            names[name] = None
    gc.collect()


def _dump(answer: Message, *, strict: bool) -> bytes:
    """Return the answer as a frame.

    For a call, a value that is not JSON is an error. For a script, its repr is sent instead.
    """
    try:
        text = json.dumps(answer, allow_nan=True)
    except (TypeError, ValueError, RecursionError) as problem:
        if strict:
            kind = type(answer["value"]).__name__
            raise TypeError(
                f"the function returned a {kind} that JSON cannot represent ({problem}); return plain values: "
                "dict, list, str, int, float, bool or None"
            ) from None
        text = json.dumps({**answer, "value": repr(answer["value"])[:10_000]})
    if len(text) > MAX_VALUE_BYTES:
        raise ValueError(
            f"the value is {len(text):,} bytes as JSON; the limit is {MAX_VALUE_BYTES:,}. Write it to a file instead"
        )
    if text.count(",") + text.count("[") + text.count("{") > MAX_VALUE_NODES and _has_too_many_nodes(answer):
        raise ValueError(
            f"the value has more than {MAX_VALUE_NODES:,} lists, objects and elements. Write it to a file instead"
        )
    data = text.encode()
    return HEADER.pack(len(data), 0) + data


def _has_too_many_nodes(answer: Message) -> bool:
    """Return whether the answer has too many values, counted as in `sandbox.nodes`.

    Each list, each object, and each of their elements after the first counts.
    """
    stack: list[Any] = [answer]
    nodes = 0
    while stack and nodes <= MAX_VALUE_NODES:
        each = stack.pop()
        nodes += 1 + max(0, len(each) - 1)
        inner = each.values() if isinstance(each, dict) else each
        stack += [one for one in inner if isinstance(one, dict | list | tuple)]
    return nodes > MAX_VALUE_NODES


def _keep_script(folder: str, source: str) -> str:
    """Write the script to the path of `__main__.__file__`, which `multiprocessing` runs in the processes it spawns.

    Returns:
        The path; "" if the job has a file of that name, or there is no space.
    """
    path = os.path.join(folder, SCRIPT)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(source)
    except OSError:
        return ""
    return path


def _script(source: str, path: str = "") -> Any:
    """Run the source as `__main__`, stored at `path`; return the value of the last statement if it is an expression."""
    source = source.removeprefix("\ufeff")  # a byte-order mark, which a file may begin with
    module = types.ModuleType("__main__")
    vars(module)["__builtins__"] = builtins
    if path:
        module.__file__ = path
    sys.modules["__main__"] = module
    linecache.cache[SCRIPT] = (len(source), None, source.splitlines(keepends=True), SCRIPT)
    # Not `ast.parse`, which would add a frame to the traceback of a syntax error.
    tree: ast.Module = compile(source, SCRIPT, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)  # type: ignore[assignment]
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, SCRIPT, "exec"), module.__dict__)  # noqa: S102  (to run code is the purpose of a box)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), SCRIPT, "eval"), module.__dict__)  # noqa: S307


def _call(call: Message, folder: str) -> Any:
    path = os.path.join(folder, call["path"])
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(code, module.__dict__)  # noqa: S102  (the import machinery would look for caches and write them)
    return getattr(module, call["function"])(**call["arguments"])


def end_of(problem: BaseException) -> str:
    """Return the limit that an uncaught exception indicates, or "error"."""
    if isinstance(problem, MemoryError):
        return "processes" if _in_threading(problem) or _filled_by_stacks() else "memory"
    if isinstance(problem, RuntimeError) and "can't start new thread" in str(problem):
        return "processes"
    if isinstance(problem, OSError):
        if problem.errno == errno.EAGAIN:
            frames = traceback.extract_tb(problem.__traceback__)
            if frames and (frames[-1].name in _FORKING or "fork" in (frames[-1].line or "")):
                return "processes"
        return _END_BY_ERRNO.get(problem.errno or 0, "error")
    return "error"


def _in_threading(problem: BaseException) -> bool:
    """Return whether an exception passed through `threading`."""
    place = problem.__traceback__
    while place is not None:
        if place.tb_frame.f_code.co_filename.endswith("/threading.py"):
            return True
        place = place.tb_next
    return False


def _filled_by_stacks() -> bool:
    """Return whether the stacks of threads take most of the memory that the process may have.

    The stacks of many threads use up the memory limit shortly before the limit of threads. Which of the next
    allocations fails is chance, and so is the type of the exception.
    """
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return limit > 0 and len(sys._current_frames()) * _STACK_BYTES > _MOST_STACKS * limit  # noqa: SLF001


def describe(problem: BaseException) -> Message:
    """Return an exception's type, message, and traceback without the frames of this file, each of limited length."""
    shown = traceback.TracebackException.from_exception(problem)
    _drop_own_frames(shown)
    text = "".join(shown.format())
    if len(text) > MAX_ERROR_CHARS:
        half = MAX_ERROR_CHARS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
    try:
        message = str(problem)
    except BaseException as second:  # noqa: BLE001  (the code's own __str__ may raise anything)
        message = f"<its message could not be shown: {type(second).__name__}>"
    return {"type": type(problem).__name__, "message": message[:MAX_ERROR_CHARS], "traceback": text}


def _drop_own_frames(shown: traceback.TracebackException, depth: int = 0) -> None:
    """Keep only the job's frames in an exception, its causes and contexts, and the exceptions of a group."""
    frames = [frame for frame in shown.stack or () if not frame.filename.startswith(_NOT_THE_JOBS)]
    shown.stack = traceback.StackSummary.from_list(frames)
    if not frames and issubclass(shown.exc_type or type, SyntaxError):
        shown.stack = None  # type: ignore[assignment]  # as the interpreter shows a script that it cannot parse
    if depth < _MAX_LINKED:
        for linked in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
            if linked is not None:
                _drop_own_frames(linked, depth + 1)


def after_fork() -> None:
    """Reseed the global generators, and correct the main thread's native id. OpenSSL reseeds itself.

    A template may fork without `os.fork`, and then nobody has called the functions registered with
    `os.register_at_fork`.
    """
    for name in ("random", "numpy.random"):
        generator = sys.modules.get(name)
        if generator is not None:
            generator.seed()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # noqa: SLF001


def rehearse() -> None:
    """Run the code that every job runs, so that a fork has its own copies of the memory pages before a job arrives."""
    source = (
        "def rehearsal(a: int, b: str = 'x') -> dict:\n    return {'a': a + 1, 'b': [b, None, 1.5]}\nrehearsal(1)\n"
    )
    frame = pack({"code": source, "env": dict(os.environ), "files": [["x", 0]], "limits": {"wall_s": 1.0}})
    job = json.loads(frame[HEADER.size :])
    os.makedirs("/", exist_ok=True)
    place_files("/", [], b"")
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir("/")
    before = sys.modules["__main__"]
    answer = {"end": "ok", "exit_code": 0, "value": _script(job["code"])}
    sys.modules["__main__"] = before
    json.loads(_dump(answer, strict=True)[HEADER.size :])
    linecache.cache.pop(SCRIPT, None)
    open_streams()
    site.getusersitepackages()
    gc.collect()


def restore_signals() -> None:
    """Restore the default actions of signals that a template ignores, because a job's code may expect them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """Run the job in the frame read from descriptor argv[1], and send the answer to descriptor argv[2].

    For backends without a template.
    """
    source, result_fd = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(source, "rb") as stream:
        header_length, body_length = unpack_head(stream.read(HEADER.size))
        job, body = json.loads(stream.read(header_length)), stream.read(body_length)
    set_fixed_limits()
    set_limits(job["limits"], data_in_use=1 << 30, processes_in_use=4096)
    run(job, body[: len(body) - job["stdin"]], result_fd)


if __name__ == "__main__":
    main()
