"""`Interned`: assigns small, reference-counted numbers to strings, so that arrays can be indexed by them."""

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]


class Interned:
    """Assigns numbers to strings. A string keeps its number while it is held; afterwards the number may be reused."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._text_at: list[str] = []
        self._holders = array("I")
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return the length of an array that the numbers can index: the highest number ever assigned, plus one."""
        return len(self._text_at)

    def get(self, text: str) -> int | None:
        return self._number_of.get(text)

    def hold(self, texts: Iterable[str]) -> tuple[Ints, list[tuple[int, str]]]:
        """Hold strings, and assign a number to each one that has none.

        Returns:
            The number of each string, and the new numbers with their strings.
        """
        numbers: list[int] = []
        new: list[tuple[int, str]] = []
        for text in texts:
            number = self._number_of.get(text)
            if number is None:
                number = self._take()
                self._number_of[text] = number
                self._text_at[number] = text
                new.append((number, text))
            self._holders[number] += 1
            numbers.append(number)
        return np.array(numbers, dtype=np.uint32), new

    def release(self, numbers: Ints) -> None:
        """Release numbers that `hold` returned."""
        for number in numbers.tolist():
            self._holders[number] -= 1
            if not self._holders[number]:
                del self._number_of[self._text_at[number]]
                self._text_at[number] = ""
                self._free.append(number)

    def holders(self, numbers: Ints) -> npt.NDArray[np.float32]:
        """Return how many times each number is held."""
        return np.frombuffer(self._holders, dtype=np.uint32)[numbers].astype(np.float32)

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self._text_at.append("")
        self._holders.append(0)
        return len(self._text_at) - 1
