"""The program of a kernel in a box: ipykernel, listening on the box's own loopback.

It is read as text and sent as the code of a job; no other module imports it. `sys.argv[1]` is a JSON object: the ports
(shell, iopub, stdin, control, hb) and the key that messages are signed with.
"""

import codecs
import ctypes
import json
import logging
import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import UsageError
from jupyter_client.session import Session
from traitlets.config import Config

_M_ARENA_MAX, _ARENAS = -8, 2  # malloc.h
_PIECE = 1 << 16  # characters; longer text is written and flushed in pieces of this size
_LONGEST_MESSAGE = 63 << 20  # process 1 closes the connection if a message exceeds 64 MiB (`sandbox.wire.zmtp`)
_UNREAD = 16  # messages kept for a reader; ZeroMQ's default of a thousand is 64 MiB of output ahead of an interrupt


class Shell(ZMQInteractiveShell):
    """ipykernel's shell, changed to run `!command` through a pipe and without input."""

    def init_magics(self) -> None:
        super().init_magics()
        for name in ("pip", "conda", "mamba", "micromamba", "uv"):
            self.register_magic_function(_no_packages, magic_name=name)  # type: ignore[call-arg, arg-type]

    def _tee(self, channel: str) -> AbstractContextManager[None]:  # type: ignore[override]  # a narrower type there
        """Do nothing. IPython's own method would store all printed text, in case it has to write a notebook."""
        return nullcontext()

    def system_piped(self, cmd: str) -> None:
        process = subprocess.Popen(  # noqa: S602  (the meaning of `!`; the caller may run anything in this box)
            self.var_expand(cmd, depth=1),
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while data := os.read(process.stdout.fileno(), 1 << 16):  # type: ignore[union-attr]  # stdout is a pipe
                sys.stdout.write(decoder.decode(data))
        finally:
            self.user_ns["_exit_code"] = process.wait()

    system = system_piped


def _no_packages(_: str) -> None:
    """Say why packages cannot be installed. IPython's own function would try to use the network for ten seconds."""
    raise UsageError(
        "A box has no network, and its packages are those of the environment that Knackbox runs in. "
        "Install the package there, then restart the kernel."
    )


class Stream(OutStream):
    """Sends output in pieces, and makes `print` wait until each piece is sent. ipykernel's class buffers everything."""

    _waiting = 0

    def write(self, string: str) -> int:
        __tracebackhide__ = True  # hides our frames in the traceback of an interrupted cell
        for start in range(0, len(string), _PIECE):
            piece = string[start : start + _PIECE]
            super().write(piece)
            self._waiting += len(piece)
            if self._waiting >= _PIECE:
                self._waiting = 0
                self.flush()
        return len(string)


class Messages(Session):
    """Replaces an output with a note if its message would be too long for process 1 of the box to forward."""

    def serialize(self, msg: dict[str, Any], ident: Any = None) -> list[bytes]:
        parts: list[bytes] = super().serialize(msg, ident)
        size = sum(map(len, parts))
        if size <= _LONGEST_MESSAGE:
            return parts
        note = (
            f"<an output of {size:,} bytes was omitted, because the limit is {_LONGEST_MESSAGE:,} bytes; "
            "write the output to a file>"
        )
        content = dict(msg["content"])
        if "data" in content:
            content.update(data={"text/plain": note}, metadata={})
        elif "ename" in content:
            content.update(evalue=note, traceback=[])
        return super().serialize({**msg, "content": content}, ident)


class Kernel(IPythonKernel):
    """ipykernel's kernel, with `Shell` as its shell."""

    shell_class = Shell


class App(IPKernelApp):
    """ipykernel's application, without a connection file. The connection's ports and key are in `sys.argv[1]`."""

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        context.setsockopt(zmq.SNDHWM, _UNREAD)  # applies to the sockets that are created from now on
        super().init_iopub(context)
        del context.sockopts[zmq.SNDHWM]
        # Wait for a slow reader: otherwise messages over the limit are dropped, including the one which says that a
        # cell has ended. The option is set in the socket's own thread, because only one thread may use a ZeroMQ socket.
        self.iopub_thread.schedule(partial(self.iopub_thread.socket.setsockopt, zmq.XPUB_NODROP, 1))
        # The thread opens a socket when it first sends, which would fail after a cell that has used up the descriptors.
        self.iopub_thread.schedule(lambda: self.iopub_thread._event_pipe)  # noqa: SLF001  (there is no public name)

    def _session_default(self) -> Session:
        return Messages(parent=self)

    def init_connection_file(self) -> None:
        self.connection_file = "kernel.json"

    def write_connection_file(self, **_: Any) -> None:
        return


def main() -> None:
    """Run the kernel until it is shut down."""
    connection = json.loads(sys.argv.pop(1))
    # A glibc arena for each of eight threads is hundreds of MiB of address space, which the memory limit counts.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
    config = Config()
    config.Session.key = connection["key"].encode()
    # The C library that Jupyter prefers crashes when memory is refused; Python's own module raises an exception.
    config.Session.packer = config.Session.unpacker = "json"
    config.HistoryManager.enabled = False  # it would write a file in the box that nobody reads
    app = App.instance(
        config=config,
        kernel_class=Kernel,
        outstream_class="__main__.Stream",
        transport="tcp",
        ip="127.0.0.1",
        log_level=logging.CRITICAL,
        **{f"{name}_port": port for name, port in connection["ports"].items()},
    )
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # its debugger needs 120 modules and more ports
    app.initialize([])
    del sys.modules["debugpy"]
    sys.path.insert(0, os.fspath(Path.cwd()))
    app.start()


if __name__ == "__main__":
    main()
