"""`OutputCap`: shortens long texts for a model to head and tail, and stores the full text in the workspace."""

import logging
import re
from pathlib import PurePosixPath

from engine.contract.context import Workspace

_log = logging.getLogger("knackbox.dispatch")

# Bytes of UTF-8 of one result shown to the model; about 4,000 tokens.
DEFAULT_CAP = 16 << 10
FOLDER = PurePosixPath(".knackbox/outputs")

# Space reserved for the line between head and tail; the longest file name, below the limits of common file systems.
_NOTICE_BYTES = 400
_LONGEST_NAME = 100


class OutputCap:
    """Shortens texts longer than `cap` bytes and writes the full text to the workspace."""

    def __init__(self, cap: int = DEFAULT_CAP) -> None:
        if cap < 2 * _NOTICE_BYTES:
            raise ValueError(f"An output cap of {cap} bytes leaves no room for text; use at least {2 * _NOTICE_BYTES}.")
        self._cap = cap

    def fits(self, text: str) -> bool:
        """Whether the text is short enough to be passed to the model unchanged."""
        return len(text) * 4 <= self._cap or len(text.encode("utf-8", "replace")) <= self._cap

    def cut(self, text: str, call_id: str, workspace: Workspace) -> str:
        """Return head, a notice of what was dropped and where the full text is, and tail: at most `cap` bytes.

        Blocks, because it writes a file. If that fails, the notice says so.
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
        # Ids come from models and clients, so only letters, digits, - and _ are kept for the file name.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:_LONGEST_NAME] or "call"
        path, number = FOLDER / f"{name}.txt", 1
        while (
            workspace.root / path
        ).exists():  # a repeated id must not overwrite a file that an earlier message refers to
            number += 1
            path = FOLDER / f"{name}-{number}.txt"
        workspace.write(str(path), data)
        return str(path)
