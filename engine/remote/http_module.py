"""`HttpModule`: a module that speaks HTTP (MOD-1): `GET {url}/manifest`, `POST {url}/execute`.

Requests are direct: no proxy from the environment, no redirects, no cookies. Retries are made elsewhere (MOD-4), so
errors are raised in a form that `engine.recovery` can classify.
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
ERROR_BYTES = 2_000  # of the body of an error response
CONNECT_S = 10.0
DENIED = frozenset({401, 403, 407})
# The call's deadline is so much later than ours, so that whoever waits reads our text and not the pipeline's. It is
# also the wait asked for after a time-out, which makes a repeat that has no time left not begin.
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

        timeout_s: of one call. token: sent as a bearer token. tls: one context for many modules, since creating one
            takes tens
        of milliseconds. trusted: believe what it says its tools change.
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
                "accept-encoding": "identity",  # limits apply to what is read; compressed bodies could expand
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
        """Fetch the manifest as it was sent. httpx.HTTPError and ToolFailure (access denied) propagate.

        Raises:
            ManifestError: The status is not 200, or the body is not a manifest.
        """
        async with self._client.stream("GET", f"{self._url}/manifest") as response:
            if response.status_code in DENIED:
                raise not_let_in(self._name, response.status_code, "token")
            try:
                await refuse_failure(response)
            except httpx.HTTPStatusError as error:
                raise ManifestError(str(error)) from error
            if response.status_code != HTTPStatus.OK:
                raise ManifestError(f"Module returned status {response.status_code}, and a manifest comes with 200")
            try:
                return parse(await read(response, MANIFEST_BYTES))
            except (TooLarge, ValueError) as error:
                raise ManifestError(f"the manifest cannot be read: {error}") from error

    def read(self, manifest: Any) -> Offer:
        return read_manifest(self._name, manifest, timeout_s=self._timeout_s + GRACE_S, trusted=self._trusted)

    async def run(self, spec: ToolSpec, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Make one attempt.

        Raises:
            ToolFailure: The module reports a failure.
            httpx.HTTPStatusError: The response is an error response.
        """
        asked = {"tool_name": spec.name, "arguments": dict(arguments), "user_id": ctx.turn.user}
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._execute(asked)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise ToolFailure(
                timed_out(self._timeout_s),
                failure_class=FailureClass.RETRYABLE,
                reason="timeout",
                retry_after=GRACE_S,
                end="timeout",
            ) from error
        except httpx.HTTPStatusError:
            raise  # classified by its status, with Retry-After
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            forged = "CERTIFICATE_VERIFY_FAILED" in str(error)  # httpx does not expose the original error
            failure_class, reason = (
                (FailureClass.FATAL, "denied") if forged else (FailureClass.RETRYABLE, "unreachable")
            )
            log.warning("module_unreachable module=%s error=%s", self._name, first_of(error))
            said = f"the module {self._name} does not answer"
            raise failed(said, failure_class, reason, may_have_started=False) from error
        except httpx.TransportError as error:
            raise failed(error, FailureClass.RETRYABLE, "unreachable") from error
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

    async def _execute(self, asked: Mapping[str, Any]) -> ExecuteResponse:
        body = json.dumps(asked).encode()
        headers = {"content-type": "application/json"}
        async with self._client.stream("POST", f"{self._url}/execute", content=body, headers=headers) as response:
            await refuse_failure(response)
            found = parse(await read(response, ANSWER_BYTES))
        try:
            return ExecuteResponse.model_validate(found)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise ValueError(one_line(f"the answer cannot be used: {place}: {first['msg']}")) from error


def failed(
    error: Exception | str, failure_class: FailureClass, reason: str, *, may_have_started: bool = True
) -> ToolFailure:
    said = one_line(str(error)) or type(error).__name__
    text = f"Tool execution error: {said}"
    return ToolFailure(text, failure_class=failure_class, reason=reason, may_have_started=may_have_started)


def not_let_in(module: str, status: int, by: str) -> ToolFailure:
    """Return the failure of a denied request. by: the setting that the operator must correct."""
    text = f"the module {module} denied access (status {status}); check its {by} in the configuration"
    return refusal(text, "denied", FailureClass.FATAL)


class Unavailable(httpx.HTTPStatusError):
    """Status 503. The call is retried once if the module declares the tool read-only (MOD-4)."""

    most_repeats = 1


async def refuse_failure(response: httpx.Response) -> None:
    """Check the status.

    Raises:
        httpx.HTTPStatusError: It is not 2xx. Redirects are errors, because a module is where it is configured.
    """
    if response.is_success:
        return
    try:
        said = clean((await read(response, ERROR_BYTES, cut=True)).decode("utf-8", "replace"), ERROR_BYTES)
    except (httpx.HTTPError, TooLarge):
        said = ""
    if response.is_redirect:
        said = "a redirect, which is not followed; configure the URL it leads to if that is the module"
    text = f"Module returned status {response.status_code}: {said or response.reason_phrase}"
    kind = Unavailable if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE else httpx.HTTPStatusError
    raise kind(text, request=response.request, response=response)


async def read(response: httpx.Response, limit: int, *, cut: bool = False) -> bytes:
    """Return the body, up to `limit` bytes.

    Raises:
        TooLarge: It is larger, and must not be cut.
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


def parse(body: bytes) -> Any:
    """Parse an answer.

    Raises:
        ValueError: It is not strict JSON.
    """
    try:
        return read_json(body)
    except JsonError as error:
        raise ValueError(f"the body is not JSON: {one_line(str(error), 120)}") from error
