"""`StreamReplacer`: replaces byte strings in a stream, also where they are split between two chunks."""

import re
from collections.abc import Callable, Iterable

Replacement = Callable[[re.Match[bytes]], bytes]


class Needles:
    """The byte strings that a stream is searched for. Compiled once and shared by all streams."""

    def __init__(self, groups: Iterable[Iterable[bytes]], *, ignore_case: bool = False) -> None:
        """Compile the strings.

        Args:
            groups: The strings of each group. A match's `lastindex` is the number of its group, from 1.
            ignore_case: Whether the case of ASCII letters is ignored.
        """
        known = [sorted(set(group), key=len, reverse=True) for group in groups]
        flags = re.IGNORECASE if ignore_case else 0
        alternatives = (b"(" + b"|".join(map(re.escape, group)) + b")" for group in known)
        self.pattern = re.compile(b"|".join(alternatives), flags)
        self._ignore_case = ignore_case
        texts = [text.lower() if ignore_case else text for group in known for text in group]
        self._texts = tuple(dict.fromkeys(texts))
        self._beginnings = frozenset(text[:size] for text in texts for size in range(1, len(text)))
        self.longest = max(map(len, texts))

    def replace(self, data: bytes, replacement: Replacement) -> bytes:
        """Return the data with every string replaced."""
        return self.pattern.sub(replacement, data) if self.found_in(data) else data

    def found_in(self, data: bytes) -> bool:
        """Return whether the data contains one of the strings. This is much faster than the pattern."""
        if self._ignore_case:
            data = data.lower()
        return any(text in data for text in self._texts)

    def split_end(self, data: bytes, start: int = 0) -> int:
        """Return the position from which the end of `data` may be the beginning of a string; its length if none."""
        tail_start = max(start, len(data) - self.longest + 1)
        tail = data[tail_start:]
        if self._ignore_case:
            tail = tail.lower()
        for at in range(len(tail)):
            if tail[at:] in self._beginnings:
                return tail_start + at
        return len(data)


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
        matches = self._needles.pattern.finditer(data) if self._needles.found_in(data) else ()
        for match in matches:
            if match.start() >= keep:  # more bytes may make it a longer match
                break
            passed += [data[at : match.start()], self._replacement(match)]
            at = match.end()
            if at > keep:
                keep = self._needles.split_end(data, at)
        passed.append(data[at:keep])
        self._held = data[max(at, keep) :]
        return b"".join(passed)

    def end(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return self._needles.replace(held, self._replacement)
