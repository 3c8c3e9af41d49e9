"""`provider_failure`: what an error of a model's provider means for the tool that asked it."""

from datetime import UTC, datetime
from http import HTTPStatus

from engine.contract.failure import FailureClass, ToolFailure
from engine.recovery.classify import FailureFacts, classify
from engine.recovery.http_facts import retry_after_of, status_of

# Status codes of a provider that has not begun the work, so the call may be retried.
_NOT_BEGUN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_CORRECTABLE = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})


def provider_failure(text: str, error: BaseException, reason: str) -> ToolFailure:
    """The failure to raise, from `error`.

    RETRYABLE when it may pass (429, 5xx, a lost connection, a time-out), with the time the provider asked to wait.
    DIAGNOSTIC when the model can ask differently. Else FATAL: the provider does not let us in, or is not configured
    rightly. reason: of a FATAL failure.
    """
    chain = _chain(error)
    status = next((code for each in chain if (code := status_of(each)) is not None), None)
    if status in _CORRECTABLE:
        return ToolFailure(text, failure_class=FailureClass.DIAGNOSTIC, reason=reason)
    found = classify(error, FailureFacts())
    if found.failure_class is not FailureClass.RETRYABLE:
        return ToolFailure(text, failure_class=FailureClass.FATAL, reason=reason)
    now = datetime.now(UTC)
    wait = next((asked for each in chain if (asked := retry_after_of(each, now)) is not None), None)
    return ToolFailure(
        text,
        failure_class=FailureClass.RETRYABLE,
        reason=found.reason,
        retry_after=wait,
        may_have_started=status not in _NOT_BEGUN,
    )


def _chain(error: BaseException) -> list[BaseException]:
    """The error and its explicit causes: clients wrap what the provider answered."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__
    return chain
