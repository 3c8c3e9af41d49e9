"""`StreamReplacer`: replaces byte strings in a stream, also where they are split between two chunks."""

from collections.abc import Callable, Iterable

Replacement = Callable[[int, bytes], bytes]  # receives the number of the string's group, and what was found


class Needles:
    """The byte strings that a stream is searched for, in groups. Shared by all streams.

    Searching for each string in turn is fifty times as fast as one regular expression for all of them. At one position
    the longest string counts.
    """

    def __init__(self, groups: Iterable[Iterable[bytes]], *, ignore_case: bool = False) -> None:
        """Prepare the strings.

        Args:
            groups: The strings of each group. A string that is in several groups belongs to the first.
            ignore_case: Whether the case of ASCII letters is ignored.
        """
        self._ignore_case = ignore_case
        self._groups: dict[bytes, int] = {}
        for number, group in enumerate(groups):
            for text in group:
                self._groups.setdefault(self._folded(text), number)
        self._beginnings = frozenset(text[:size] for text in self._groups for size in range(1, len(text)))
        self.longest = max(map(len, self._groups))

    def spans(self, data: bytes) -> list[tuple[int, int, int]]:
        """Return (start, end, group) of each string in the data, in order and without overlaps."""
        folded = self._folded(data)
        found = []
        for text, group in self._groups.items():
            at = folded.find(text)
            while at >= 0:
                found.append((at, -len(text), group))
                at = folded.find(text, at + 1)
        chosen: list[tuple[int, int, int]] = []
        end = 0
        for start, length, group in sorted(found):
            if start >= end:
                end = start - length
                chosen.append((start, end, group))
        return chosen

    def replace(self, data: bytes, replacement: Replacement) -> bytes:
        """Return the data with every string replaced."""
        spans = self.spans(data)
        if not spans:
            return data
        parts = []
        at = 0
        for start, end, group in spans:
            parts += [data[at:start], replacement(group, data[start:end])]
            at = end
        return b"".join((*parts, data[at:]))

    def split_end(self, data: bytes, start: int = 0) -> int:
        """Return where the end of `data` may begin one of the strings; the length of `data` if it cannot."""
        tail_start = max(start, len(data) - self.longest + 1)
        tail = self._folded(data[tail_start:])
        for at in range(len(tail)):
            if tail[at:] in self._beginnings:
                return tail_start + at
        return len(data)

    def _folded(self, data: bytes) -> bytes:
        return data.lower() if self._ignore_case else data


class StreamReplacer:
    """Replaces strings in one stream. Holds back only bytes that may be the beginning of a string."""

    def __init__(self, needles: Needles, replacement: Replacement) -> None:
        self._needles = needles
        self._replacement = replacement
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Add a chunk, and return what can be passed on."""
        data = self._held + data
        keep = self._needles.split_end(data)
        passed = []
        at = 0
        for start, end, group in self._needles.spans(data):
            if start >= keep:  # more bytes may make it a longer string
                break
            passed += [data[at:start], self._replacement(group, data[start:end])]
            at = end
            if at > keep:
                keep = self._needles.split_end(data, at)
        passed.append(data[at:keep])
        self._held = data[max(at, keep) :]
        return b"".join(passed)

    def end(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return self._needles.replace(held, self._replacement)
