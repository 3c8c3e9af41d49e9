"""`TorProcess`: the process of the Tor that Knackbox starts."""

import asyncio
import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from builtin_tools.web.route.tor_control import COOKIE, SOCKET
from builtin_tools.web.route.tor_source import tor_unavailable
from builtin_tools.web.settings import TorSettings

_PRIVATE = 0o700
_LONGEST_SOCKET = 100  # bytes; the name of a Unix socket has at most 107 (unix(7))
_STOP_S = 5.0
_TAIL = 2000  # bytes of the log that are read
_LOG = "tor.log"
_RUN = "run"
_EMPTY = "empty.torrc"
_INSTALL = (
    "A person can install it (on Debian: apt install tor), name a running one as socks in [packs.web.tor] of the "
    "configuration, or choose another route for all or some hosts in [packs.web]."
)


class TorProcess:
    """A Tor with its data, control socket and log in one folder."""

    def __init__(self, settings: TorSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process that was started here is running."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start the process. It exits by itself when this process ends.

        Raises:
            ToolFailure: It cannot be started, or has exited before and would exit again.
        """
        if self._process is not None:
            code, self._process = self._process.returncode, None
            if code:  # it refused its options or its folder; a Tor that was killed has a negative code
                remedy = "Correct [packs.web.tor] of the configuration, and the file that config names."
                if code > 0:
                    raise tor_unavailable(f"tor exited with status {code}. {await self.last_lines()}", remedy)
        try:
            self._process = await asyncio.to_thread(self._start)
        except OSError as error:
            raise tor_unavailable(f"tor cannot be started ({error}).", _INSTALL) from error

    async def stop(self) -> None:
        """End the process that was started here, if it has not ended."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_end, process)

    async def last_lines(self) -> str:
        """Return the end of the log, for messages."""

        def read() -> str:
            with contextlib.suppress(OSError), (self._folder / _LOG).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
                lines = log.read().decode("utf-8", "replace").splitlines()
                serious = [line for line in lines if "[err]" in line or "[warn]" in line]
                return f"Its log says: {(serious or lines or ['nothing'])[-1][:300]}"
            return "It has no log."

        return await asyncio.to_thread(read)

    def _start(self) -> subprocess.Popen[bytes]:
        program = shutil.which(self._settings.command)
        if program is None:
            raise tor_unavailable(f"The program {self._settings.command} is not installed.", _INSTALL)
        data = self._folder / "data"
        data.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        run = _made_run_folder(self._folder)
        with contextlib.suppress(FileNotFoundError):
            (run / COOKIE).unlink()  # of an earlier process: a connection must wait for the new one
        options = {
            "DataDirectory": data,
            "SocksPort": "127.0.0.1:auto IsolateSOCKSAuth",
            "ControlPort": "0",
            "ControlSocket": run / SOCKET,
            "CookieAuthentication": "1",
            "CookieAuthFile": run / COOKIE,
            "ClientOnly": "1",
            "ClientRejectInternalAddresses": "1",
            "Log": "notice stdout",
            "__OwningControllerProcess": os.getpid(),
        }
        empty = self._folder / _EMPTY
        empty.touch()  # in place of the machine's configuration
        config = Path(self._settings.config).expanduser() if self._settings.config else empty
        if not config.is_file():
            raise tor_unavailable(f"{config} does not exist.", "Correct config in [packs.web.tor].")
        command = [program, "--defaults-torrc", str(empty), "-f", str(config)]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        with (self._folder / _LOG).open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=data,
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(data)},
                start_new_session=True,  # an interrupt in the terminal must not end Tor before its requests
            )


def run_folder(folder: Path) -> Path:
    """Return the folder with the control socket and its cookie."""
    return (folder / _RUN).resolve()


def _made_run_folder(folder: Path) -> Path:
    """Create the folder for the control socket. If its path is too long for a socket, it is a link to a short one."""
    run = folder / _RUN
    if len(os.fsencode(run / SOCKET)) <= _LONGEST_SOCKET:
        run.mkdir(mode=_PRIVATE, exist_ok=True)
        return run
    if not _is_private_folder(run):
        run.unlink(missing_ok=True)
        run.symlink_to(tempfile.mkdtemp(prefix="knackbox-tor-"))
    return run.resolve()


def _is_private_folder(path: Path) -> bool:
    """Return whether a link leads to a folder that only this user can use. Anyone could put another in its place."""
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_STOP_S)
