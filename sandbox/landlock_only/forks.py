"""The engine's side of one template of this level: as `sandbox.namespace.forkserver`, with another program."""

import asyncio
import json
import socket
import subprocess
from dataclasses import dataclass

from sandbox.contract import SandboxError
from sandbox.namespace.forkserver import _SOURCE, _START_WAIT_S, ForkServer, TemplateWish

# The command line is visible to every user of the machine, so nothing goes on it: all else comes over the socket.
_BOOTSTRAP = """
import json, socket, sys
ours, theirs = (socket.socket(fileno=int(n)) for n in sys.argv[1:])
wanted = json.loads(ours.recv(1 << 16))
sys.path.insert(0, wanted["source"])
from sandbox.landlock_only.supervisor import main
main(ours, theirs, wanted)
"""


@dataclass(frozen=True, slots=True)
class Level:
    """What a template of this level needs to know beside its wish.

    python: the interpreter of the template and its jobs. folder: where its private folders are made. readable: host
    paths a job may read. first_uid, uids: users that are nobody's; -1 when jobs run as the user who started us.
    """

    python: str
    folder: str
    readable: tuple[str, ...]
    first_uid: int
    uids: int


class LandlockForkServer(ForkServer):
    """One template, started by `python` in place of this interpreter."""

    def __init__(self, wish: TemplateWish, warm: int, level: Level) -> None:
        super().__init__(wish, warm)
        self._level = level

    async def start(self) -> list[str]:
        """As `ForkServer.start`. Raises SandboxError."""
        loop = asyncio.get_running_loop()
        self._started = loop.time()
        template_here, template_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        supervisor_here, supervisor_there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = (supervisor_there.fileno(), template_there.fileno())
        # Not through asyncio: its child watchers would have to outlive this loop.
        self._process = subprocess.Popen(  # noqa: ASYNC220  (posix_spawn takes under a millisecond)
            [self._level.python, "-I", "-S", "-c", _BOOTSTRAP, *map(str, given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=given,
            env={},
            cwd="/",
            start_new_session=True,
        )
        template_there.close()
        supervisor_there.close()
        self._template, self._supervisor = template_here, supervisor_here
        wish = {
            "source": _SOURCE,
            "preload": self._wish.preload,
            "packages": self._wish.packages,
            "path": self._wish.path,
            "folder": self._level.folder,
            "readable": self._level.readable,
            "first_uid": self._level.first_uid,
            "uids": self._level.uids,
        }
        supervisor_here.send(json.dumps(wish).encode())
        self._ready = loop.create_future()
        for end, handler in ((template_here, self._from_template), (supervisor_here, self._from_supervisor)):
            end.setblocking(False)
            loop.add_reader(end, handler)
        try:
            async with asyncio.timeout(_START_WAIT_S):
                missing = await self._ready
        except TimeoutError:
            await self.aclose()
            raise SandboxError("The box template did not start in time.", remedy="Run `knackbox doctor`.") from None
        except BaseException:
            await self.aclose()
            raise
        self._refill()
        return missing
