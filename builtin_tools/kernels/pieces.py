"""What a cell prints, told to whoever waits while it runs."""

import re
from collections.abc import Callable

_LONGEST = 1000  # characters of one piece
_MOST = 500  # pieces of one cell
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")  # a terminal may show it


class Pieces:
    """Called with each piece of a stream. Of a long one its end is told, which says how far the cell is."""

    def __init__(self, progress: Callable[..., None]) -> None:
        self._progress = progress
        self._told = 0

    def __call__(self, _stream: str, text: str) -> None:
        piece = _CONTROLS.sub("", text[-_LONGEST:]).strip()
        if piece and self._told < _MOST:
            self._told += 1
            self._progress(piece)
