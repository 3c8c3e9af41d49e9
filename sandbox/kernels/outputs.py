"""`Outputs`: collects the outputs of one cell from a kernel's messages, within a limit.

The messages come from untrusted code: only fields of known types are used.
"""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sandbox.contract import CodeError, End
from sandbox.kernels.spec import Cell, Output, StateLoss

Message = dict[str, Any]
OnStream = Callable[[str, str], None]
"""Called with printed output: the name of the stream, and the text."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MOST = 2000  # outputs per cell, since each takes more memory than its bytes
_LONGEST = {"name": 100, "ename": 1000, "display_id": 1000}  # characters of fields that do not count towards the limit
_KINDS = {"execute_result": "result", "display_data": "display"}


class Outputs:
    """The outputs of one cell.

    Attributes:
        items: The outputs, in order.
        error: The exception that ended the cell.
        seen: The bytes of output that were received.
        dropped: The bytes that were received but not kept.
    """

    def __init__(self, kept: int, on_stream: OnStream | None = None) -> None:
        """Create an empty collection.

        Args:
            kept: How many bytes of output to keep, counted as text or JSON.
            on_stream: Called with printed output as it arrives.
        """
        self._room = kept
        self._on_stream = on_stream
        self.items: list[Output] = []
        self._clear_next = False
        self.seen = 0
        self.dropped = 0
        self.error: CodeError | None = None

    def cell(self, end: End, count: object = None, *, wall_s: float, state_lost: StateLoss | None = None) -> Cell:
        """Return the result of the cell. `count` is the number that the kernel assigned to the cell."""
        return Cell(
            end=end,
            outputs=tuple(self.items),
            error=self.error,
            count=count if type(count) is int else None,
            kept_bytes=sum(map(_size, self.items)),
            dropped_bytes=self.dropped,
            wall_s=wall_s,
            state_lost=state_lost,
        )

    def take(self, kind: str, content: Message) -> None:
        """Process one message of the iopub channel. Ignore messages that are not outputs."""
        if kind == "stream":
            output = Output("stream", name=_text(content, "name"), text=_text(content, "text"))
            self._add(output)
            if self._on_stream is not None:
                self._on_stream(output.name, output.text)
        elif kind in _KINDS:
            self._add(self._bundle(kind, content))
        elif kind == "update_display_data":
            self._update(self._bundle("display_data", content))
        elif kind == "error":
            self._fail(content)
        elif kind == "clear_output":
            self._clear_next = bool(content.get("wait"))
            if not self._clear_next:
                self.items.clear()

    @staticmethod
    def _bundle(kind: str, content: Message) -> Output:
        transient = _mapping(content, "transient")
        return Output(
            "result" if kind == "execute_result" else "display",
            data=_mapping(content, "data"),
            metadata=_mapping(content, "metadata"),
            display_id=_text(transient, "display_id"),
        )

    def _add(self, output: Output) -> None:
        if self._clear_next:
            self.items.clear()
            self._clear_next = False
        if not self._fits(output):
            return
        last = self.items[-1] if self.items else None
        if last is not None and output.kind == last.kind == "stream" and output.name == last.name:
            self.items[-1] = replace(last, text=last.text + output.text)
        elif len(self.items) < _MOST:
            self.items.append(output)
        else:
            self.dropped += _size(output)

    def _update(self, output: Output) -> None:
        for index, item in enumerate(self.items):
            if output.display_id and item.display_id == output.display_id and self._fits(output):
                self.items[index] = replace(item, data=output.data, metadata=output.metadata)

    def _fits(self, output: Output) -> bool:
        size = _size(output)
        self.seen += size
        if size > self._room:
            self.dropped += size
            return False
        self._room -= size
        return True

    def _fail(self, content: Message) -> None:
        lines = content.get("traceback")
        traceback = tuple(_plain(str(line)) for line in lines) if isinstance(lines, list) else ()
        kind, message = _text(content, "ename"), _text(content, "evalue")
        size = sum(map(len, traceback)) + len(message)
        self.seen += size
        if self.error is not None:  # a cell has at most one error, so this one is forged
            self.dropped += size
            return
        if size > self._room:
            self.dropped += size
            traceback, message = (), message[: min(len(message), 1000)]
        self.error = CodeError(kind, message, _COLOURS.sub("", "\n".join(traceback)))
        self.items.append(Output("error", name=kind, text=message, traceback=traceback))


def _size(output: Output) -> int:
    if output.kind == "stream":
        return len(output.text)
    if output.kind == "error":
        return len(output.text) + sum(map(len, output.traceback))
    return _weight(output.data) + _weight(output.metadata)


def _weight(value: Any) -> int:
    """Estimate the length of the value as JSON, without serializing it, since an image has millions of characters."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return 2 + sum(_weight(key) + _weight(each) + 2 for key, each in value.items())
    if isinstance(value, list):
        return 2 + sum(_weight(each) + 1 for each in value)
    return len(str(value))


def _text(content: Message, field: str) -> str:
    found = content.get(field)
    return _plain(found[: _LONGEST.get(field)]) if isinstance(found, str) else ""


def _mapping(content: Message, field: str) -> Message:
    found = content.get(field)
    return _plain(found) if isinstance(found, dict) else {}


def _plain(value: Any) -> Any:
    """Return the value without unpaired surrogates, NaN and infinity, which some JSON and UTF-8 parsers reject."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
