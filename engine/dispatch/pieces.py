"""What the code of a call prints, told to whoever waits while it runs."""

import codecs
import re

from engine.contract.context import CallContext, HearsOutput, no_progress
from engine.contract.events import StreamName

_LONGEST = 1000  # characters of one piece, for who hears progress alone
_MOST = 500  # pieces of one call, for the same
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")  # a terminal may show it


class Pieces:
    """Called with each piece of a stream, as text or as bytes of UTF-8, which may be cut anywhere.

    Who hears output gets all of it. Who hears progress alone gets of a long piece its end, which says how far it is.
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
    """For the listener of this call; None when nobody listens."""
    return None if ctx.progress is no_progress else Pieces(ctx)
