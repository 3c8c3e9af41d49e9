"""`News`: what a call tells while it runs, kept until its client takes it, and bounded: a tool is never held up."""

import asyncio
import contextlib
import threading
from collections import deque
from typing import Any, TypeAlias

MOST_PIECES = 256
MOST_CHARACTERS = 1 << 20

Piece: TypeAlias = tuple[str, dict[str, Any]]  # the name of the event, and its data


class News:
    """The listener of one call, for any thread; its reader is in the event loop it was made in.

    What does not fit pushes the oldest out, and `missed` says how many there were.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: deque[tuple[int, Piece]] = deque()
        self._characters = 0
        self._missed = 0
        self._stirred = asyncio.Event()

    def __call__(self, message: str = "", fraction: float | None = None) -> None:
        """What a tool calls as ``ctx.progress``."""
        self.tell("progress", {"message": message, "fraction": fraction}, len(message))

    def output(self, stream: str, text: str) -> None:
        """A piece of what the tool's code printed."""
        self.tell("output", {"stream": stream, "text": text}, len(text))

    def tell(self, event: str, data: dict[str, Any], characters: int = 0) -> None:
        with self._lock:
            self._pieces.append((characters, (event, data)))
            self._characters += characters
            while len(self._pieces) > MOST_PIECES or self._characters > MOST_CHARACTERS:
                self._characters -= self._pieces.popleft()[0]
                self._missed += 1
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
            self._loop.call_soon_threadsafe(self._stirred.set)

    def take(self) -> list[Piece]:
        """All there is, in order."""
        with self._lock:
            taken: list[Piece] = [("missed", {"events": self._missed})] if self._missed else []
            taken += [piece for _, piece in self._pieces]
            self._pieces.clear()
            self._characters = self._missed = 0
        return taken

    def stir(self) -> None:
        """Wake the reader: there is something, or there will be nothing more."""
        self._stirred.set()

    async def wait(self, seconds: float) -> None:
        """Until there may be something to take, or so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        self._stirred.clear()
