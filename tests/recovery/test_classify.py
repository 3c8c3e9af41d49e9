"""One table classifies all errors."""

import errno
import socket
import ssl
from datetime import UTC, datetime, timedelta
from urllib.error import HTTPError, URLError

import httpx
import httpx2
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.context import MissingService
from engine.contract.failure import ConfigError, FailureClass, ToolFailure
from engine.recovery.classify import TABLE, FailureFacts, classify
from engine.recovery.http_facts import LONGEST_WAIT_S, parse_retry_after
from sandbox.contract import Busy, SandboxError, UnresolvedRequirements

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
RETRYABLE, FATAL = FailureClass.RETRYABLE, FailureClass.FATAL
DIAGNOSTIC, UNKNOWN = FailureClass.DIAGNOSTIC, FailureClass.UNKNOWN


def status(code, library=httpx, **headers):
    request = library.Request("GET", "http://x.test")
    response = library.Response(code, headers=headers, request=request)
    return library.HTTPStatusError("bad", request=request, response=response)


def openai_status(code):
    import openai  # takes a second, in every process that collects tests

    request = httpx2.Request("GET", "http://x.test")
    response = httpx2.Response(code, request=request, headers={"retry-after-ms": "1500"})
    return openai.APIStatusError("bad", response=response, body=None)


def pydantic_error():
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


def caused_by(cause):
    error = RuntimeError("wrapped")
    error.__cause__ = cause
    return error


CASES = [
    (ToolFailure("x", failure_class=FATAL, reason="mine"), FATAL, "mine"),
    (MissingService("no SkillLibrary"), FATAL, "missing_service"),
    (ConfigError("bad file"), FATAL, "configuration"),
    (SandboxError("fork failed"), RETRYABLE, "sandbox_failed"),
    (SandboxError("no user namespaces.", remedy="Run sysctl …"), FATAL, "sandbox_unavailable"),
    (Busy("full", retry_after=2.5), RETRYABLE, "busy"),
    (UnresolvedRequirements("no six==99"), DIAGNOSTIC, "unresolved_requirements"),
    (UnresolvedRequirements("'-e .' is an option.", remedy="Give names."), DIAGNOSTIC, "unresolved_requirements"),
    (status(429), RETRYABLE, "rate_limited"),
    (status(503, httpx2), RETRYABLE, "server_error"),
    (status(500), RETRYABLE, "server_error"),
    (status(501), FATAL, "not_supported"),
    (status(401), FATAL, "denied"),
    (status(403, httpx2), FATAL, "denied"),
    (status(404), DIAGNOSTIC, "not_found"),
    (status(400), DIAGNOSTIC, "http_400"),
    (status(422), DIAGNOSTIC, "http_422"),
    (HTTPError("http://x.test", 503, "down", {}, None), RETRYABLE, "server_error"),
    (URLError("no route"), RETRYABLE, "unreachable"),
    (httpx.ConnectError("refused"), RETRYABLE, "unreachable"),
    (httpx.ReadTimeout("slow"), RETRYABLE, "timeout"),
    (httpx2.ConnectTimeout("slow"), RETRYABLE, "timeout"),
    (httpx.RemoteProtocolError("cut"), RETRYABLE, "unreachable"),
    (httpx.UnsupportedProtocol("ftp"), DIAGNOSTIC, "invalid_url"),
    (httpx.InvalidURL("x"), DIAGNOSTIC, "invalid_url"),
    (httpx.TooManyRedirects("loop"), DIAGNOSTIC, "bad_response"),
    (PermissionError(errno.EACCES, "no"), FATAL, "denied"),
    (OSError(errno.EROFS, "read-only"), FATAL, "denied"),
    (FileNotFoundError("a.txt"), DIAGNOSTIC, "not_found"),
    (FileExistsError("a.txt"), DIAGNOSTIC, "exists"),
    (IsADirectoryError("a"), DIAGNOSTIC, "invalid_path"),
    (OSError(errno.ENOSPC, "full"), DIAGNOSTIC, "no_space"),
    (OSError(errno.EMFILE, "too many"), RETRYABLE, "busy"),
    (OSError(errno.EBUSY, "busy"), RETRYABLE, "busy"),
    (BlockingIOError("later"), RETRYABLE, "busy"),
    (OSError("no number"), UNKNOWN, "unexpected"),
    (ConnectionRefusedError("refused"), RETRYABLE, "unreachable"),
    (ConnectionResetError("reset"), RETRYABLE, "unreachable"),
    (BrokenPipeError("pipe"), RETRYABLE, "unreachable"),
    (TimeoutError("slow"), RETRYABLE, "timeout"),
    (socket.gaierror(socket.EAI_AGAIN, "later"), RETRYABLE, "name_resolution"),
    (socket.gaierror(socket.EAI_NONAME, "unknown"), DIAGNOSTIC, "host_not_found"),
    (ssl.SSLCertVerificationError("bad certificate"), FATAL, "denied"),
    (ssl.SSLError("cut"), RETRYABLE, "unreachable"),
    (pydantic_error(), DIAGNOSTIC, "invalid_data"),
    (ValueError("x"), DIAGNOSTIC, "invalid_value"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), DIAGNOSTIC, "invalid_value"),
    (ZeroDivisionError("x"), DIAGNOSTIC, "invalid_value"),
    (NotImplementedError("x"), FATAL, "not_supported"),
    (KeyError("x"), UNKNOWN, "unexpected"),
    (TypeError("x"), UNKNOWN, "unexpected"),
    (MemoryError(), UNKNOWN, "unexpected"),
    (caused_by(ConnectionResetError("x")), RETRYABLE, "unreachable"),
    (caused_by(KeyError("x")), UNKNOWN, "unexpected"),
    (ExceptionGroup("g", [TimeoutError(), ConnectionResetError()]), RETRYABLE, "timeout"),
    (ExceptionGroup("g", [TimeoutError(), PermissionError()]), FATAL, "denied"),
    (ExceptionGroup("g", [ExceptionGroup("h", [ValueError()])]), DIAGNOSTIC, "invalid_value"),
]


@pytest.mark.spec("FAIL-1")
@pytest.mark.parametrize(("error", "failure_class", "reason"), CASES, ids=lambda each: repr(each)[:60])
def test_each_error_has_one_class_and_reason(error, failure_class, reason):
    failure = classify(error, FailureFacts(now=NOW))
    assert (failure.failure_class, failure.reason) == (failure_class, reason)


@pytest.mark.spec("FAIL-1")
def test_an_error_of_a_model_client_is_classified_by_its_status():
    failure = classify(openai_status(429), FailureFacts(now=NOW))
    assert (failure.failure_class, failure.reason) == (RETRYABLE, "rate_limited")


@pytest.mark.spec("FAIL-1")
def test_the_classification_by_the_tool_itself_takes_precedence():
    error = ToolFailure("x", failure_class=RETRYABLE, reason="mine", retry_after=3, may_have_started=False)
    failure = classify(error, FailureFacts())
    assert (failure.retry_after, failure.may_have_started, failure.replay_safe) == (3, False, True)
    assert ToolFailure in TABLE[0].kinds


@pytest.mark.spec("FAIL-1", "FAIL-2")
def test_only_errors_that_know_it_report_that_nothing_was_started():
    assert not classify(SandboxError("busy"), FailureFacts()).may_have_started
    assert classify(SandboxError("died", may_have_started=True), FailureFacts()).may_have_started
    assert classify(
        ConnectionRefusedError(), FailureFacts()
    ).may_have_started  # the tool may have done things before it
    assert not classify(ConnectionRefusedError(), FailureFacts(started=False)).may_have_started


@pytest.mark.spec("FAIL-1")
def test_a_retry_is_safe_if_the_tool_is_replay_safe_or_nothing_was_started():
    assert classify(TimeoutError(), FailureFacts(replay_safe=True)).replay_safe
    assert classify(TimeoutError(), FailureFacts(started=False)).replay_safe
    assert not classify(TimeoutError(), FailureFacts()).replay_safe


@pytest.mark.spec("FAIL-1")
def test_retry_after_is_read_from_seconds_dates_and_milliseconds():
    when = NOW + timedelta(seconds=90)
    date = when.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert classify(status(503, **{"Retry-After": "7"}), FailureFacts(now=NOW)).retry_after == 7
    assert classify(status(429, httpx2, **{"Retry-After": date}), FailureFacts(now=NOW)).retry_after == 90
    assert classify(openai_status(429), FailureFacts(now=NOW)).retry_after == 1.5
    assert classify(HTTPError("u", 503, "x", {"RETRY-AFTER": "4"}, None), FailureFacts(now=NOW)).retry_after == 4
    assert classify(status(404, **{"Retry-After": "7"}), FailureFacts(now=NOW)).retry_after is None


@given(st.text(max_size=60) | st.none(), st.text(max_size=10) | st.none())
def test_an_invalid_retry_after_is_ignored(value, milliseconds):
    wait = parse_retry_after(value, milliseconds, NOW)
    assert wait is None or 0 <= wait <= LONGEST_WAIT_S


def test_a_wait_is_never_negative_unlimited_or_nan():
    assert parse_retry_after("-5", None, NOW) == 0
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT", None, NOW) == 0
    assert parse_retry_after("inf", None, NOW) == LONGEST_WAIT_S
    assert parse_retry_after("nan", None, NOW) is None


def test_a_cycle_of_causes_does_not_hang_the_classification():
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first, FailureFacts()).failure_class is UNKNOWN


@pytest.mark.spec("BOX-7", "BOX-11")
def test_a_full_queue_gives_a_retry_time_and_neither_it_nor_missing_packages_count_as_started():
    busy = classify(Busy("Every box is in use.", retry_after=2.5), FailureFacts())
    assert (busy.retry_after, busy.may_have_started, busy.replay_safe) == (2.5, False, True)
    unresolved = classify(UnresolvedRequirements("no six==99"), FailureFacts())
    assert (unresolved.retry_after, unresolved.may_have_started) == (None, False)
