"""`AnnotationLog`: logs the annotations of each call (ACCESS-10), unless the turn disables it."""

import contextlib
import logging

from engine.contract.guard import Guard, GuardRequest

_log = logging.getLogger("knackbox.annotations")


class AnnotationLog(Guard):
    """A guard that admits every call. Does nothing unless the logger is enabled for INFO."""

    def admit(self, request: GuardRequest) -> None:
        """Log one line for the call."""
        if request.turn.log_tool_annotations and _log.isEnabledFor(logging.INFO):
            with contextlib.suppress(Exception):  # handlers are foreign code and must not make a call fail
                _note(request)


def _note(request: GuardRequest) -> None:
    hints = request.spec.annotations
    _log.info(
        "call %s of %s by %s/%s: read_only=%s destructive=%s idempotent=%s requires_confirmation=%s",
        request.call_id,
        request.spec.name,
        request.turn.user,
        request.turn.agent,
        hints.read_only,
        hints.destructive,
        hints.idempotent,
        hints.requires_confirmation,
    )
