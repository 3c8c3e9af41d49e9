"""`RecordedBridge`: answers the requests of a skill over its bridge from a recording, as in a real call.

Admission repeats a few calls of the tests exactly as an agent makes them. Their tools answer from here, so that no real
tool is called, and a skill that treats a recording in its own process otherwise is noticed.
"""

import json
from typing import Any

from acquired_skills.in_box.recorded_tools import RecordedAnswers, failure


class RecordedBridge:
    """The answers of one box. The box is not trusted."""

    def __init__(self, recorded: RecordedAnswers) -> None:
        self._recorded = recorded

    async def answer(self, payload: bytes) -> bytes:
        """Answer one request. Never raises."""
        number: Any = None
        try:
            request = json.loads(payload)
            number = request.get("id")
            fields = self._recorded.answer(request)
        except (ValueError, AttributeError, TypeError, RecursionError):
            number, fields = None, failure("invalid_request", "The request is not one of the client's.")
        return json.dumps({"id": number, **fields}).encode()
