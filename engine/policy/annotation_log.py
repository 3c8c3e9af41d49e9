"""`AnnotationLog`: what each call may do, in the log of the process (ACCESS-10). Off where a turn says so."""

import contextlib
import logging

from engine.contract.guard import Guard, GuardRequest

_log = logging.getLogger("knackbox.annotations")


class AnnotationLog(Guard):
    """A guard that refuses nothing. Nothing is put together unless somebody listens at the level INFO."""

    def admit(self, request: GuardRequest) -> None:
        """One line for the call."""
        if request.turn.log_tool_annotations and _log.isEnabledFor(logging.INFO):
            with contextlib.suppress(Exception):  # a handler is other people's code; a call must not fail of it
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
