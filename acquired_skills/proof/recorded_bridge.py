"""`RecordedBridge`: answers the requests of a skill over its bridge from a recording, as in a real call.

Admission repeats a few calls of the tests exactly as an agent makes them. Their tools answer from here, so that no real
tool is called, and a skill that treats a recording in its own process otherwise is noticed.
"""

import asyncio
import json
from typing import Any

from acquired_skills.in_box.recorded_tools import RecordedAnswers, failure

_LONG = 64 << 10  # bytes of a request that is parsed in a thread
MOST_BYTES = 8 << 20  # of all requests of one box together


class RecordedBridge:
    """The answers of one box. The box is not trusted."""

    def __init__(self, recorded: RecordedAnswers) -> None:
        self._recorded = recorded
        self._bytes = 0

    async def answer(self, payload: bytes) -> bytes:
        """Answer one request. Never raises, except if it is cancelled."""
        self._bytes += len(payload)
        if self._bytes > MOST_BYTES:
            return json.dumps({"id": None, **failure("too_large", "The skill has sent too much.")}).encode()
        return self._answer(payload) if len(payload) < _LONG else await asyncio.to_thread(self._answer, payload)

    def _answer(self, payload: bytes) -> bytes:
        number: Any = None
        try:
            request = json.loads(payload)
            number = request.get("id")
            fields = self._recorded.answer(request)
        except (ValueError, AttributeError, TypeError, RecursionError):
            number, fields = None, failure("invalid_request", "The request is not one of the client's.")
        return json.dumps({"id": number, **fields}).encode()
