"""`LiveOutput`: forwards the output of code in a box to stdout and stderr while it runs."""

import asyncio
import codecs
import sys
from typing import TextIO

from engine.interfaces.cli.shared import visible
from sandbox.contract import Stream


class LiveOutput:
    """Forwards output as it arrives. A terminal shows escape sequences as text; files and pipes get them unchanged.

    If the program that reads the output exits (such as `head`), the task that created this object is cancelled to end
    the run.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        terminals: list[tuple[Stream, TextIO]] = [("stdout", sys.stdout), ("stderr", sys.stderr)]
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {
            name: codecs.getincrementaldecoder("utf-8")("backslashreplace")
            for name, target in terminals
            if target.isatty()
        }
        self.reader_left = False

    def __call__(self, stream: Stream, data: bytes) -> None:
        decoder = self._decoders.get(stream)
        self._write(stream, data if decoder is None else visible(decoder.decode(data)).encode())

    def finish(self) -> None:
        """Show the bytes of an incomplete character at the end of the output."""
        for stream, decoder in self._decoders.items():
            self._write(stream, visible(decoder.decode(b"", final=True)).encode())

    def _write(self, stream: Stream, data: bytes) -> None:
        target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        try:
            target.write(data)
            target.flush()
        except BrokenPipeError:
            if not self.reader_left and self._task is not None:
                self._task.cancel()
            self.reader_left = True
