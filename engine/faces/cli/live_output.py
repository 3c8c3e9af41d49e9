"""`LiveOutput`: the output of code in a box on stdout and stderr while it runs."""

import asyncio
import codecs
import sys

from engine.faces.cli.shared import visible
from sandbox.contract import Stream


class LiveOutput:
    """Passes output on as it comes, exactly so into a file or a pipe; a terminal gets escape sequences as text.

    Ends the run, by cancelling the task it was made in, when the reader is gone, as with `| head`.
    """

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("backslashreplace")
            for name, target in (("stdout", sys.stdout), ("stderr", sys.stderr))
            if target.isatty()
        }
        self.reader_left = False

    def __call__(self, stream: Stream, data: bytes) -> None:
        target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        decoder = self._decoders.get(stream)
        try:
            target.write(data if decoder is None else visible(decoder.decode(data)).encode())
            target.flush()
        except BrokenPipeError:
            if not self.reader_left and self._task is not None:
                self._task.cancel()
            self.reader_left = True
