"""`Pieces`: forwards what the code of a call prints to the call's listener while it runs."""

import codecs
import re

from engine.contract.context import CallContext, HearsOutput, no_progress
from engine.contract.events import StreamName

_LONGEST = 1000  # characters of one piece, for listeners that only accept progress
_MOST = 500  # pieces of one call, for the same listeners
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")  # a terminal may show it


class Pieces:
    """Called with each piece of a stream, as text or as UTF-8 bytes that may be cut anywhere.

    A listener for output gets all of it. A listener for progress only gets the end of long pieces, which shows how far
    the code is.
    """

    def __init__(self, ctx: CallContext) -> None:
        self._progress = ctx.progress
        self._output = ctx.progress.output if isinstance(ctx.progress, HearsOutput) else None
        self._told = 0
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

    def __call__(self, stream: str, piece: str | bytes) -> None:
        name: StreamName = "stderr" if stream == "stderr" else "stdout"  # a kernel may say anything
        text = _CONTROLS.sub("", self._decoders[name].decode(piece) if isinstance(piece, bytes) else piece)
        if self._output is not None:
            if text:
                self._output(name, text)
            return
        end = text[-_LONGEST:].strip()
        if end and self._told < _MOST:
            self._told += 1
            self._progress(end)


def pieces_for(ctx: CallContext) -> Pieces | None:
    """Return the `Pieces` of this call's listener, or None without a listener."""
    return None if ctx.progress is no_progress else Pieces(ctx)
