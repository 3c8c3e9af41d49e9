"""`Stage`: sets up targets on the host for the attempts, and checks whether a target was reached or changed.

The targets are a secret, servers, a sleeping process (the bystander) and a workspace.
"""

import ctypes
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

# Attempts know only the beginning of the secret, so that they can search memory for it.
CANARY_BEGINS = "kbx-canary-"
_VARIABLE = "KNACKBOX_STAGE_SECRET"
_PLACES = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  (read, never written)
_FACTS = ("hostname", "domainname", "core_pattern", "modprobe", "randomize_va_space")
_WORKSPACE_MODE = 0o755
_IN_CREATE = 0x100
_SOMEBODY = 65_533  # no account has such a high id; all that matters is that it is not root's
_REFUSES_ROOTS = frozenset({"docker", "landlock"})  # backends that never run jobs as root, not even as a mapped root


def workspace_owner(backend: str) -> int:
    """Return the id of the workspace's owner: this user or, if the backend refuses workspaces of root, an ordinary user."""
    return _SOMEBODY if os.getuid() == 0 and backend in _REFUSES_ROOTS else os.getuid()


class Stage:
    """A context manager that sets up the targets of the attempts on the host, and removes them afterwards.

    Attributes:
        root: The folder of the stage, below the temporary folder.
        secret: A text that must never come back from a box.
        mark: A random text in the name of everything that an attempt tries to leave on the host.
    """

    def __init__(self, backend: str = "") -> None:
        self._owner = workspace_owner(backend)
        self.mark = secrets.token_hex(6)
        self.secret = CANARY_BEGINS + secrets.token_hex(8)
        self.root = Path()
        self._stack = ExitStack()
        self._servers: dict[str, socket.socket] = {}
        self._facts: Mapping[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.root = Path(tempfile.mkdtemp(prefix="knackbox-stage-"))
            stack.callback(shutil.rmtree, self.root, ignore_errors=True)
            self.root.chmod(0o755)
            self.canary.write_text(self.secret)
            self.canary.chmod(0o644)
            before = os.environ.get(_VARIABLE)
            os.environ[_VARIABLE] = self.secret
            stack.callback(_restore, before)
            self._open_servers(stack)
            self._bystander = stack.enter_context(self._start_bystander())
            stack.callback(self._bystander.kill)
            self._fill_workspace(stack)
            self._facts = dict(_facts())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def canary(self) -> Path:
        return self.root / "canary"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    def names(self) -> dict[str, str]:
        """Return the values that replace ``@NAME@`` in the code of an attempt, by name."""
        return {
            "CANARY": str(self.canary),
            "ROOT": str(self.root),
            "MARK": self.mark,
            "BEGINS": CANARY_BEGINS[::-1],
            "VARIABLE": _VARIABLE,
            "PID": str(self._bystander.pid),
            **{f"{name.upper()}_PORT": str(_port(self._servers[name])) for name in ("tcp", "udp")},
            "TCP6_PORT": str(_port(self._servers["tcp6"])) if "tcp6" in self._servers else "9",
            "ABSTRACT": f"knackbox-{self.mark}",
        }

    def restore(self) -> None:
        """Remove what attempts have left in the workspace."""
        (self.workspace / "file").write_text("")
        kept = {"link", "up", "server", "log", "file"}
        for path in self.workspace.iterdir():
            if path.name not in kept:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()

    def damage(self) -> list[str]:
        """Return descriptions of the damage found on the host. Fast enough to be called while an attempt runs."""
        return [*self._touched(), *self._visited(), *self._planted(), *self._held_up()]

    def _touched(self) -> Iterator[str]:
        if self.canary.read_text() != self.secret:
            yield "the host's file was changed"
            self.canary.write_text(self.secret)
        if self._bystander.poll() is not None or _state(self._bystander.pid) == "T":
            yield "a process of the host was killed or stopped"
        if os.getpriority(os.PRIO_PROCESS, self._bystander.pid) != os.getpriority(os.PRIO_PROCESS, 0):
            yield "the priority of a host process was changed"
        for name, now in _facts():
            if now != self._facts.get(name):
                yield f"the host's {name} was changed"

    def _visited(self) -> Iterator[str]:
        for name, server in self._servers.items():
            with suppress(BlockingIOError):
                if server.type is socket.SOCK_STREAM:
                    server.accept()[0].close()
                else:
                    server.recv(1 << 16)
                yield f"the host's {name} server was reached"

    def _planted(self) -> Iterator[str]:
        for place in (*_PLACES, Path.home(), self.root, Path.cwd()):
            with suppress(OSError):
                for entry in os.scandir(place):
                    if self.mark in entry.name:
                        yield f"{entry.path} was left on the host"
        with suppress(OSError):
            if self.mark in Path("/proc/keys").read_text():
                yield "a key was left in a keyring of the host"
        for path in self.workspace.rglob("*"):
            mode = path.lstat().st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                yield f"{path.name} in the workspace is a device"
            if stat.S_ISSOCK(mode) and path.name not in {"server", "log"} and _somebody_listens(path):
                yield f"{path.name} in the workspace is a socket on which a process of the box listens"
            if not stat.S_ISLNK(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                yield f"{path.name} in the workspace has a set-id bit"

    def _held_up(self) -> Iterator[str]:
        """Yield descriptions of what the host cannot do any more because of an attempt."""
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_CLOEXEC)
        if watch < 0:
            yield f"the host cannot create an inotify instance any more ({os.strerror(ctypes.get_errno())})"
        else:
            if libc.inotify_add_watch(watch, os.fsencode(self.workspace), _IN_CREATE) < 0:
                yield f"the host cannot watch a file with inotify any more ({os.strerror(ctypes.get_errno())})"
            os.close(watch)
        try:
            descriptor = os.open(self.workspace / "file", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as problem:
            yield f"the host cannot open a file of the workspace ({problem.strerror})"
            return
        with os.fdopen(descriptor) as file:
            if self.mark in file.read():
                yield "a job that should write to a copy of the workspace changed the workspace itself"

    def _open_servers(self, stack: ExitStack) -> None:
        self.workspace.mkdir(mode=_WORKSPACE_MODE)
        unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
        wanted: list[tuple[str, int, int, object]] = [
            ("tcp", socket.AF_INET, stream, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, datagram, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, stream, ("::1", 0)),
            ("abstract", unix, stream, f"\0knackbox-{self.mark}"),
            ("unix", unix, stream, str(self.root / "server")),
            ("workspace", unix, stream, str(self.workspace / "server")),
            ("workspace datagram", unix, datagram, str(self.workspace / "log")),
        ]
        for name, family, kind, address in wanted:
            server = stack.enter_context(socket.socket(family, kind))
            try:
                server.bind(address)  # type: ignore[arg-type]  # a path or a pair, as its family has it
            except OSError:
                if family == socket.AF_INET6:  # a machine without IPv6
                    continue
                raise
            if kind is stream:
                server.listen()
            server.setblocking(False)
            self._servers[name] = server
            if isinstance(address, str) and address.startswith("/"):
                Path(address).chmod(0o666)

    def _fill_workspace(self, stack: ExitStack) -> None:
        (self.workspace / "link").symlink_to(self.canary)
        (self.workspace / "up").symlink_to("../../..")
        (self.workspace / "file").touch(mode=0o644)
        for path in (self.workspace, *self.workspace.iterdir()):
            os.chown(path, self._owner, -1, follow_symlinks=False)
        stack.callback(self.restore)

    def _start_bystander(self) -> subprocess.Popen[bytes]:
        """Start a process that sleeps, with the secret in its environment and on its command line."""
        command = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()", self.secret]
        return subprocess.Popen(command, stdin=subprocess.PIPE, env={_VARIABLE: self.secret})


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = before


def _port(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


def _somebody_listens(path: Path) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_UNIX, kind) as visitor, suppress(OSError):
            visitor.setblocking(False)
            visitor.connect(str(path))
            return True
    return False


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _facts() -> Iterator[tuple[str, str]]:
    for name in _FACTS:
        with suppress(OSError):
            yield name, Path(f"/proc/sys/kernel/{name}").read_text()
