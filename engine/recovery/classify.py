"""`classify`: classifies errors with one ordered table. The first matching rule decides.

Errors of libraries that are slow to import are matched by name, so that the table does not import these libraries. Such
a name consists of the top-level package and the class: ``"httpx.TimeoutException"``. The rule for `ToolFailure` comes
first, because a tool can classify its own failures best.
"""

import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from engine.contract.context import MissingService
from engine.contract.failure import ConfigError, Failure, FailureClass, ToolFailure, ToolNotFound
from engine.recovery.http_facts import retry_after_of, status_of
from sandbox.contract import Busy, SandboxError, UnresolvedRequirements

RETRYABLE, FATAL, DIAGNOSTIC, UNKNOWN = (
    FailureClass.RETRYABLE,
    FailureClass.FATAL,
    FailureClass.DIAGNOSTIC,
    FailureClass.UNKNOWN,
)


@dataclass(frozen=True, slots=True)
class FailureFacts:
    """What the engine knows about the call that failed.

    Attributes:
        replay_safe: Whether the spec allows repeating a call even if its effect may already have happened.
        started: Whether the tool's own code started to run.
        out_of_time: Whether the call's deadline has passed.
        now: The wall-clock time, for a ``Retry-After`` that is given as a date.
    """

    replay_safe: bool = False
    started: bool = True
    out_of_time: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


Decide = Callable[[BaseException, FailureFacts], Failure | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the classification table.

    Attributes:
        kinds: Exception classes, or their names.
        decide: Function that returns the failure, or None to leave the decision to later rules.
    """

    kinds: tuple[type[BaseException] | str, ...]
    decide: Decide

    def fits(self, error: BaseException) -> bool:
        return any(isinstance(error, kind) if isinstance(kind, type) else kind in _names(error) for kind in self.kinds)


def classify(error: BaseException, facts: FailureFacts) -> Failure:
    """Return the failure for an error.

    An error that no rule matches is classified by its explicit cause (``raise … from …``), or else as UNKNOWN.

    `may_have_started` of the failure is False only if nothing can have happened: the tool's code did not start, or the
    error says that nothing happened (`ToolFailure`, `SandboxError`). A refused connection does not prove this, because
    the tool may have done something before it tried to connect.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        for rule in TABLE:
            failure = rule.decide(current, facts) if rule.fits(current) else None
            if failure is not None:
                return _with_facts(failure, facts)
        current = current.__cause__
    return _with_facts(Failure(UNKNOWN, "unexpected"), facts)


def _with_facts(failure: Failure, facts: FailureFacts) -> Failure:
    may_have_started = failure.may_have_started and facts.started
    return replace(failure, may_have_started=may_have_started, replay_safe=facts.replay_safe or not may_have_started)


def _names(error: BaseException) -> frozenset[str]:
    return frozenset(f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in type(error).__mro__)


def always(failure_class: FailureClass, reason: str) -> Decide:
    failure = Failure(failure_class, reason)
    return lambda _error, _facts: failure


def _as_the_tool_says(error: BaseException, _facts: FailureFacts) -> Failure | None:
    if not isinstance(error, ToolFailure):
        return None
    return Failure(error.failure_class, error.reason, error.retry_after, error.may_have_started)


def _deadline(_error: BaseException, facts: FailureFacts) -> Failure | None:
    return Failure(RETRYABLE, "timeout") if facts.out_of_time else None


def _sandbox(error: BaseException, _facts: FailureFacts) -> Failure | None:
    """Classify an error of the sandbox. If it names a remedy, a person must act; otherwise a retry may succeed."""
    if not isinstance(error, SandboxError):
        return None
    if error.remedy:
        return Failure(FATAL, "sandbox_unavailable", None, error.may_have_started)
    return Failure(RETRYABLE, "sandbox_failed", None, error.may_have_started)


def _busy(error: BaseException, _facts: FailureFacts) -> Failure | None:
    return Failure(RETRYABLE, "busy", error.retry_after, error.may_have_started) if isinstance(error, Busy) else None


def _unresolved(error: BaseException, _facts: FailureFacts) -> Failure | None:
    """Classify an error in a list of required packages. The message says what the author of the list can correct."""
    if not isinstance(error, UnresolvedRequirements):
        return None
    return Failure(DIAGNOSTIC, "unresolved_requirements", None, error.may_have_started)


_BY_STATUS = {
    401: (FATAL, "denied"),
    402: (FATAL, "payment_required"),
    403: (FATAL, "denied"),
    404: (DIAGNOSTIC, "not_found"),
    407: (FATAL, "denied"),
    408: (RETRYABLE, "timeout"),
    409: (DIAGNOSTIC, "conflict"),
    410: (DIAGNOSTIC, "not_found"),
    423: (RETRYABLE, "locked"),
    425: (RETRYABLE, "too_early"),
    429: (RETRYABLE, "rate_limited"),
    451: (FATAL, "denied"),
    501: (FATAL, "not_supported"),
    505: (FATAL, "not_supported"),
}
_SERVER_ERROR = 500


def _http_status(error: BaseException, facts: FailureFacts) -> Failure | None:
    status = status_of(error)
    if status is None:
        return None
    default = (RETRYABLE, "server_error") if status >= _SERVER_ERROR else (DIAGNOSTIC, f"http_{status}")
    failure_class, reason = _BY_STATUS.get(status, default)
    retry_after = retry_after_of(error, facts.now) if failure_class is RETRYABLE else None
    return Failure(failure_class, reason, retry_after)


def _name_resolution(error: BaseException, _facts: FailureFacts) -> Failure | None:
    code = error.errno if isinstance(error, OSError) else None
    return Failure(RETRYABLE, "name_resolution") if code == socket.EAI_AGAIN else Failure(DIAGNOSTIC, "host_not_found")


_BY_ERRNO = {
    errno.EPERM: (FATAL, "denied"),
    errno.EACCES: (FATAL, "denied"),
    errno.EROFS: (FATAL, "denied"),
    errno.ENOSPC: (DIAGNOSTIC, "no_space"),
    errno.EDQUOT: (DIAGNOSTIC, "no_space"),
    errno.EFBIG: (DIAGNOSTIC, "too_large"),
    errno.ENAMETOOLONG: (DIAGNOSTIC, "invalid_path"),
    errno.EINVAL: (DIAGNOSTIC, "invalid_value"),
    errno.ELOOP: (DIAGNOSTIC, "invalid_path"),
    errno.ENOTEMPTY: (DIAGNOSTIC, "not_empty"),
    errno.EXDEV: (DIAGNOSTIC, "invalid_path"),
    errno.EAGAIN: (RETRYABLE, "busy"),
    errno.EBUSY: (RETRYABLE, "busy"),
    errno.EINTR: (RETRYABLE, "busy"),
    errno.EMFILE: (RETRYABLE, "busy"),
    errno.ENFILE: (RETRYABLE, "busy"),
    errno.ENOMEM: (RETRYABLE, "busy"),
    errno.ENETDOWN: (RETRYABLE, "unreachable"),
    errno.ENETUNREACH: (RETRYABLE, "unreachable"),
    errno.EHOSTUNREACH: (RETRYABLE, "unreachable"),
}


def _os_error(error: BaseException, _facts: FailureFacts) -> Failure | None:
    code = error.errno if isinstance(error, OSError) else None
    entry = _BY_ERRNO.get(code) if code is not None else None
    return Failure(*entry) if entry is not None else None


def _group(error: BaseException, facts: FailureFacts) -> Failure | None:
    """Classify an exception group by its first error that is not RETRYABLE, or as RETRYABLE if all errors are."""
    failures = [classify(each, facts) for each in _leaves(error)]
    worse = [each for each in failures if each.failure_class is not RETRYABLE]
    if worse:
        return worse[0]
    waits = [each.retry_after for each in failures if each.retry_after is not None]
    started = any(each.may_have_started for each in failures)
    return replace(failures[0], retry_after=max(waits, default=None), may_have_started=started) if failures else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _clients(*names: str) -> tuple[str, ...]:
    """Return the full names that exceptions such as `HTTPStatusError` have in httpx and in its successor, httpx2."""
    return tuple(f"{library}.{name}" for name in names for library in ("httpx", "httpx2"))


TABLE: tuple[Rule, ...] = (
    Rule((ToolFailure,), _as_the_tool_says),
    Rule((TimeoutError,), _deadline),
    Rule((BaseExceptionGroup,), _group),
    Rule((Busy,), _busy),
    Rule((UnresolvedRequirements,), _unresolved),
    Rule((SandboxError,), _sandbox),
    Rule((MissingService,), always(FATAL, "missing_service")),
    Rule((ToolNotFound,), always(DIAGNOSTIC, "unknown_tool")),
    Rule((ConfigError,), always(FATAL, "configuration")),
    # HTTP: error responses first, then connection errors.
    Rule(
        (
            *_clients("HTTPStatusError"),
            "openai.APIStatusError",
            "anthropic.APIStatusError",
            "google.APIError",
            "pydantic_ai.ModelHTTPError",
            "requests.HTTPError",
            "aiohttp.ClientResponseError",
            "urllib.HTTPError",
        ),
        _http_status,
    ),
    Rule(
        (*_clients("TimeoutException"), "openai.APITimeoutError", "anthropic.APITimeoutError"),
        always(RETRYABLE, "timeout"),
    ),
    Rule(_clients("UnsupportedProtocol", "InvalidURL", "LocalProtocolError"), always(DIAGNOSTIC, "invalid_url")),
    Rule(_clients("TooManyRedirects", "DecodingError"), always(DIAGNOSTIC, "bad_response")),
    Rule(
        (
            *_clients("TransportError"),
            "openai.APIConnectionError",
            "anthropic.APIConnectionError",
            "pydantic_ai.ModelConnectionError",
            "requests.ConnectionError",
            "requests.Timeout",
            "aiohttp.ClientConnectionError",
        ),
        always(RETRYABLE, "unreachable"),
    ),
    # The operating system, special cases before general ones.
    Rule((ssl.SSLCertVerificationError,), always(FATAL, "denied")),
    Rule((socket.gaierror,), _name_resolution),
    Rule((PermissionError,), always(FATAL, "denied")),
    Rule((FileNotFoundError,), always(DIAGNOSTIC, "not_found")),
    Rule((FileExistsError,), always(DIAGNOSTIC, "exists")),
    Rule((IsADirectoryError, NotADirectoryError), always(DIAGNOSTIC, "invalid_path")),
    Rule((TimeoutError,), always(RETRYABLE, "timeout")),
    Rule((ConnectionError, ssl.SSLError), always(RETRYABLE, "unreachable")),
    Rule((BlockingIOError, InterruptedError), always(RETRYABLE, "busy")),
    Rule(("urllib.URLError",), always(RETRYABLE, "unreachable")),
    Rule((OSError,), _os_error),
    # Errors caused by the arguments or the data; their text is meant for readers.
    Rule(("pydantic_core.ValidationError",), always(DIAGNOSTIC, "invalid_data")),
    Rule((NotImplementedError,), always(FATAL, "not_supported")),
    Rule((ValueError, EOFError, ArithmeticError), always(DIAGNOSTIC, "invalid_value")),
)
