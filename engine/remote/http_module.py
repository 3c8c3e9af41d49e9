"""`HttpModule`: a module that speaks HTTP (MOD-1): `GET {url}/manifest`, `POST {url}/execute`.

Requests are direct: no proxy from the environment, no redirects, no cookies. Retries are left to `engine.recovery`
(MOD-4), so errors are raised in a form that it can classify.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.contract.canonical import digest
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.contract.spec import ToolSpec
from engine.contract.strict_json import JsonError, read_json
from engine.remote.manifest import read_manifest
from engine.remote.module import ManifestError, Offer, log, timed_out
from engine.remote.states import Kind
from engine.remote.text import clean, first_of, one_line

MANIFEST_BYTES = 1 << 20
ANSWER_BYTES = 8 << 20
ERROR_BYTES = 2_000  # at most this much of an error response's body is read
CONNECT_S = 10.0
DENIED = frozenset({401, 403, 407})
# The call's deadline is this many seconds later than the request's deadline, so that the caller receives this module's
# message and not the pipeline's. After a time-out, a retry would have to wait equally long. No more time than that is
# left, so no retry is started.
GRACE_S = 0.5
_CHUNK = 64 * 1024


class TooLarge(Exception):
    """The response is larger than allowed."""


class ExecuteResponse(BaseModel):
    """The response to `POST /execute`."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    tool_name: Annotated[str, Field(max_length=256)]
    success: bool
    result: Any = None
    error: str | None = None


class HttpModule:
    """One HTTP module. Connections are reused between calls."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        timeout_s: float,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        trusted: bool = False,
    ) -> None:
        """Create the module.

        Args:
            name: The name of the module in the configuration.
            url: The URL below which ``manifest`` and ``execute`` are found.
            timeout_s: The deadline of one call, in seconds.
            token: The bearer token to send.
            tls: A TLS context for all modules to share, since creating one takes tens of milliseconds.
            trusted: Whether to believe what the module says about the effects of its tools.
        """
        self._trusted = trusted
        self._name = name
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            verify=tls or ssl.create_default_context(),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            headers={
                "accept": "application/json",
                "accept-encoding": "identity",  # size limits apply to the bytes as received
                **({"authorization": f"Bearer {token}"} if token else {}),
            },
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def kind(self) -> Kind:
        return "http"

    @property
    def where(self) -> str:
        shown = httpx.URL(self._url)
        return str(shown.copy_with(username=None, password=None, query=None, fragment=None))

    @property
    def identity(self) -> str:
        return digest(["http", self._name, self._url])

    async def fetch(self) -> Any:
        """Fetch the manifest, and return it as received.

        Raises:
            ManifestError: The status is not 200, or the body is not a manifest.
            ToolFailure: The module denied access.
            httpx.HTTPError: The module could not be reached.
        """
        try:
            return await self._exchange("GET", "manifest", MANIFEST_BYTES, only=HTTPStatus.OK)
        except httpx.HTTPStatusError as error:
            if error.response.status_code in DENIED:
                raise not_let_in(self._name, error.response.status_code, "token") from error
            raise ManifestError(str(error)) from error
        except (TooLarge, ValueError) as error:
            raise ManifestError(f"the manifest cannot be read: {error}") from error

    def read(self, manifest: Any) -> Offer:
        return read_manifest(self._name, manifest, timeout_s=self._timeout_s + GRACE_S, trusted=self._trusted)

    async def run(self, spec: ToolSpec, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Call the tool once.

        Raises:
            ToolFailure: The module reports a failure.
            httpx.HTTPStatusError: The response is an error response.
        """
        asked = {"tool_name": spec.name, "arguments": dict(arguments), "user_id": ctx.turn.user}
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._exchange("POST", "execute", ANSWER_BYTES, json.dumps(asked).encode())
            answer = ExecuteResponse.model_validate(found)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise ToolFailure(
                timed_out(self._timeout_s),
                failure_class=FailureClass.RETRYABLE,
                reason="timeout",
                retry_after=GRACE_S,
                end="timeout",
            ) from error
        except httpx.HTTPStatusError:
            raise  # this error is classified by its status and Retry-After
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            forged = "CERTIFICATE_VERIFY_FAILED" in str(error)  # httpx does not expose the original exception
            failure_class, reason = (
                (FailureClass.FATAL, "denied") if forged else (FailureClass.RETRYABLE, "unreachable")
            )
            log.warning("module_unreachable module=%s error=%s", self._name, first_of(error))
            said = f"the module {self._name} does not answer"
            raise failed(said, failure_class, reason, may_have_started=False) from error
        except httpx.TransportError as error:
            raise failed(error, FailureClass.RETRYABLE, "unreachable") from error
        except ValidationError as error:
            raise failed(_unusable(error), FailureClass.DIAGNOSTIC, "bad_response") from error
        except (TooLarge, ValueError) as error:
            raise failed(error, FailureClass.DIAGNOSTIC, "bad_response") from error
        if answer.tool_name != spec.name:
            raise failed("the answer names another tool", FailureClass.DIAGNOSTIC, "bad_response")
        if not answer.success:
            raise ToolFailure(clean(answer.error or "", ERROR_BYTES) or "Tool execution error: no reason was given")
        return answer.result

    def watch(self, changed: Callable[[], None]) -> None:
        """Do nothing: HTTP modules do not send notifications."""

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _exchange(
        self, method: str, path: str, limit: int, body: bytes | None = None, *, only: HTTPStatus | None = None
    ) -> Any:
        """Make one request, and return the JSON of its response.

        Raises:
            httpx.HTTPStatusError: The status is not `only`, or not 2xx if `only` is not given.
            TooLarge: The body is larger than `limit` bytes.
            ValueError: The body is not strict JSON.
        """
        headers = {} if body is None else {"content-type": "application/json"}
        async with self._client.stream(method, f"{self._url}/{path}", content=body, headers=headers) as response:
            if not response.is_success or only not in {None, response.status_code}:
                raise await _status_error(response)
            data = await read(response, limit)
        try:
            return read_json(data)
        except JsonError as error:
            raise ValueError(f"the body is not JSON: {one_line(str(error), 120)}") from error


def _unusable(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the body"
    return one_line(f"the answer cannot be used: {place}: {first['msg']}")


def failed(
    error: Exception | str, failure_class: FailureClass, reason: str, *, may_have_started: bool = True
) -> ToolFailure:
    said = one_line(str(error)) or type(error).__name__
    text = f"Tool execution error: {said}"
    return ToolFailure(text, failure_class=failure_class, reason=reason, may_have_started=may_have_started)


def not_let_in(module: str, status: int, by: str) -> ToolFailure:
    """Return the failure for a request to which the module denied access.

    Args:
        module: The module.
        status: The HTTP status.
        by: The setting that the operator should check.
    """
    text = f"the module {module} denied access (status {status}); check its {by} in the configuration"
    return refusal(text, "denied", FailureClass.FATAL)


class Unavailable(httpx.HTTPStatusError):
    """The module answered with status 503. If it declares the tool read-only, the call is retried once (MOD-4)."""

    most_repeats = 1


async def _status_error(response: httpx.Response) -> httpx.HTTPStatusError:
    """Return the error for a response with an unexpected status. Redirects are errors, because none is followed."""
    try:
        said = clean((await read(response, ERROR_BYTES, cut=True)).decode("utf-8", "replace"), ERROR_BYTES)
    except (httpx.HTTPError, TooLarge):
        said = ""
    if response.is_redirect:
        said = "a redirect, which is not followed; if it leads to the module, configure its target as the URL"
    text = f"Module returned status {response.status_code}: {said or response.reason_phrase}"
    kind = Unavailable if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE else httpx.HTTPStatusError
    return kind(text, request=response.request, response=response)


async def read(response: httpx.Response, limit: int, *, cut: bool = False) -> bytes:
    """Return the body of a response.

    Args:
        response: The response.
        limit: The maximum size in bytes.
        cut: Whether a larger body is truncated.

    Raises:
        TooLarge: The body is larger, and `cut` is False.
    """
    if response.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
        raise TooLarge("the body is compressed, which was not requested")
    body = bytearray()
    async for chunk in response.aiter_raw(_CHUNK):
        body += chunk
        if len(body) > limit:
            if cut:
                return bytes(body[:limit])
            raise TooLarge(f"the body is larger than {limit:,} bytes")
    return bytes(body)
