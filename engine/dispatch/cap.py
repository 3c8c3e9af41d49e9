"""The output cap: a model gets the head and the tail of a long text, and the path of the whole."""

import logging
import re
from pathlib import PurePosixPath

from engine.contract.context import Workspace

_log = logging.getLogger("knackbox.dispatch")

# Bytes of UTF-8 shown to the model of one result; about 4,000 tokens.
DEFAULT_CAP = 16 << 10
FOLDER = PurePosixPath(".knackbox/outputs")

# Room kept for the line between head and tail, and no name of a file longer than common filesystems allow.
_NOTICE_BYTES = 400
_LONGEST_NAME = 100


class OutputCap:
    """Cuts texts longer than `cap` bytes and spills the whole to the workspace."""

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        if cap < 2 * _NOTICE_BYTES:
            raise ValueError(f"An output cap of {cap} bytes leaves no room for text; use at least {2 * _NOTICE_BYTES}.")
        self._cap = cap

    def fits(self, text: str) -> bool:
        """Whether the text may go to the model as it is."""
        return len(text) * 4 <= self._cap or len(text.encode("utf-8", "replace")) <= self._cap

    def cut(self, text: str, call_id: str, workspace: Workspace) -> str:
        """Head, a line saying what was dropped and where the whole is, tail: at most `cap` bytes together.

        Blocks: it writes a file. When that fails the line says so; what was kept is shown all the same.
        """
        data = text.encode("utf-8", "replace")
        if len(data) <= self._cap:
            return text
        room = self._cap - _NOTICE_BYTES
        head = data[: room - room // 2].decode("utf-8", "ignore")
        tail = data[-(room // 2) :].decode("utf-8", "ignore")
        dropped = len(data) - len(head.encode()) - len(tail.encode())
        try:
            where = f"the whole ({len(data)} bytes) is in {self._spill(data, call_id, workspace)}"
        except (OSError, ValueError) as error:
            _log.warning("The output of call %s could not be kept: %s", call_id, error)
            where = f"the whole ({len(data)} bytes) could not be kept: {str(error)[:150]}"
        return f"{head}\n[… {dropped} bytes dropped; {where} …]\n{tail}"

    def _spill(self, data: bytes, call_id: str, workspace: Workspace) -> str:
        # Ids come from models and clients: as a file name they hold letters, digits, - and _ only.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:_LONGEST_NAME] or "call"
        path, number = FOLDER / f"{name}.txt", 1
        while (workspace.root / path).exists():  # an id used again must not replace what an earlier message points to
            number += 1
            path = FOLDER / f"{name}-{number}.txt"
        workspace.write(str(path), data)
        return str(path)
