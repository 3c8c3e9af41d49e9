"""`provider_failure` classifies an error of a model provider for the tool that called the provider."""

from datetime import UTC, datetime
from http import HTTPStatus

from engine.contract.failure import FailureClass, ToolFailure
from engine.recovery.classify import FailureFacts, classify
from engine.recovery.http_facts import retry_after_of, status_of

# Status codes with which a provider reports that it has not begun the work, so the call may be retried.
_NOT_BEGUN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_CORRECTABLE = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})


def provider_failure(text: str, error: BaseException, reason: str) -> ToolFailure:
    """Return the failure to raise for `error`.

    If the error may be transient (429, 5xx, a lost connection, a time-out), the failure is RETRYABLE, with the delay
    that the provider requested. If the request can be corrected, it is DIAGNOSTIC. Otherwise the provider denies access
    or is misconfigured, and the failure is FATAL. In the last two cases the failure has the given `reason`.
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
    """Return the error and its causes, because clients wrap the exception with the response in other exceptions."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__
    return chain
