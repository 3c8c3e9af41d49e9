"""HTTP modules used through an engine, with a server that fails in many ways."""

import asyncio
import gzip
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from engine import Engine
from engine.app.people import People
from engine.app.settings import Settings
from engine.contract.failure import FailureClass
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.remote.http_module import ANSWER_BYTES
from tests.eventually import eventually
from tests.remote.elsewhere import (
    WEATHER,
    Answer,
    Asked,
    Elsewhere,
    answered,
    cut_off,
    dribbled,
    elsewhere,
    endless,
    manifest_of,
    raw,
    silent,
    tool_of,
)

DEADLINE_S = 60
CITY = {"city": "Oslo"}


@asynccontextmanager
async def engine_of(home: Path, people: People | None = None, **settings: Any) -> AsyncIterator[Engine]:
    chosen = Settings.model_validate(settings)
    async with asyncio.timeout(DEADLINE_S):
        async with Engine.open(home, settings=chosen, packs=False, environ={}, people=people) as engine:
            yield engine


@asynccontextmanager
async def with_weather(
    home: Path, people: People | None = None, **modules: Any
) -> AsyncIterator[tuple[Engine, Elsewhere]]:
    policy = modules.pop("policy", {})
    async with elsewhere(WEATHER) as server:
        section = {"module_services": {"weather": server.url}, **modules}
        async with engine_of(home, people, modules=section, policy=policy) as engine:
            yield engine, server


def failed(result: ToolResult) -> tuple[FailureClass, str, bool]:
    assert not result.success
    assert result.failure is not None
    return result.failure.failure_class, result.failure.reason, result.failure.may_have_started


@pytest.mark.spec("MOD-1")
async def test_a_tool_of_a_module_is_listed_and_called_with_the_turns_user(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, server):
        specs = {spec.name: spec for spec in await engine.get_active_tool_definitions()}
        result = await engine.call("weather.now", CITY, Turn(user="ada"))
        assert server.asked_for("/execute")[0].json == {"tool_name": "weather.now", "arguments": CITY, "user_id": "ada"}
    assert specs["weather.now"].parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "unit": {"type": "string", "description": "C or F.", "enum": ["C", "F"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert result.success
    assert result.output["arguments"] == CITY


@pytest.mark.spec("MOD-1")
async def test_a_name_is_split_at_its_first_dot_and_arguments_are_validated_before_the_request(
    tmp_path: Path,
) -> None:
    async with with_weather(tmp_path) as (engine, server):
        assert (await engine.call("weather.set.alarm", {"at": 7})).success
        wrong = await engine.call("weather.set.alarm", {"at": "seven"})
        assert failed(wrong) == (FailureClass.DIAGNOSTIC, "invalid_arguments", False)
        assert len(server.asked_for("/execute")) == 1


@pytest.mark.spec("MOD-1")
async def test_a_tool_of_an_unknown_module_is_refused_with_the_modules_name(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, server):
        result = await engine.call("wether.now", CITY)
        assert result.error.startswith("Unknown module: wether")
        assert "weather" not in result.error  # who guesses at names is not told those that are configured
        assert failed(result) == (FailureClass.DIAGNOSTIC, "unknown_module", False)
        assert server.asked == []
        nothing = await engine.call("weather.", CITY)
        assert nothing.error.startswith("Invalid tool name format: weather.. Expected 'module.tool_name'.")
        near = await engine.call("weather.nou", CITY)
        assert "weather.now" in near.error


@pytest.mark.spec("MOD-4")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (500, (FailureClass.DIAGNOSTIC, "server_error", True)),  # might pass, but a repeat may do it twice
        (503, (FailureClass.DIAGNOSTIC, "server_error", True)),
        (429, (FailureClass.DIAGNOSTIC, "rate_limited", True)),
        (401, (FailureClass.FATAL, "denied", True)),
        (403, (FailureClass.FATAL, "denied", True)),
        (404, (FailureClass.DIAGNOSTIC, "not_found", True)),
    ],
)
async def test_an_error_status_is_reported_and_classified(
    tmp_path: Path, status: int, expected: tuple[FailureClass, str, bool]
) -> None:
    async with with_weather(tmp_path) as (engine, server):
        server.execute = raw(status, b"out of order", {"retry-after": "7"})
        result = await engine.call("weather.now", CITY)
        assert result.error.startswith(f"Module returned status {status}: out of order")
        assert failed(result) == expected
        assert len(server.asked_for("/execute")) == 1


def reading(**more: Any) -> dict[str, Any]:
    return manifest_of("weather", tool_of("weather.now", **more))


@pytest.mark.spec("MOD-4", "FAIL-2")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "hint", [{"read_only": True}, {"annotations": {"read_only": True}}], ids=["own", "annotations"]
)
async def test_a_503_is_retried_once_if_the_manifest_declares_the_tool_read_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hint: dict[str, Any], trusted: bool
) -> None:
    trust = {"trusted_modules": ["weather"]} if trusted else {}
    async with with_weather(tmp_path, **trust) as (engine, server):
        server.manifest = answered(reading(**hint))
        server.execute = raw(503, b"busy", {"retry-after": "0"})
        result = await engine.call("weather.now", {})
        assert failed(result)[:2] == (FailureClass.RETRYABLE, "server_error")
        assert result.audit.attempts == len(server.asked_for("/execute")) == 2
        assert caplog.text.count("tool_call_failed_retrying tool=weather.now") == 1

        async def once_down(asked: Asked, writer: asyncio.StreamWriter) -> None:
            server.execute = answered({"tool_name": "weather.now", "success": True, "result": "sun"})
            await raw(503, b"busy", {"retry-after": "0"})(asked, writer)

        server.execute = once_down
        again = await engine.call("weather.now", {})
        assert (again.success, again.output, again.audit.attempts) == (True, "sun", 2)


@pytest.mark.spec("MOD-4")
async def test_a_503_of_a_tool_that_is_not_declared_read_only_is_not_retried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = {"annotations": {"read_only": True, "destructive": True}}
    for number, hint in enumerate(({}, {"read_only": False}, {"read_only": "yes"}, {"annotations": 7}, both)):
        async with with_weather(tmp_path / str(number)) as (engine, server):
            server.manifest = answered(reading(**hint))
            server.execute = raw(503, b"busy")
            assert failed(await engine.call("weather.now", {}))[0] is FailureClass.DIAGNOSTIC
            assert len(server.asked_for("/execute")) == 1
    assert "tool_call_failed_retrying" not in caplog.text


@pytest.mark.spec("MOD-1")
async def test_hints_of_a_manifest_are_believed_only_if_the_module_is_trusted(tmp_path: Path) -> None:
    hints = {"read_only": True, "idempotent": True, "destructive": False}
    tools = [
        tool_of("weather.now", annotations=hints),
        tool_of("weather.set", annotations={"requires_confirmation": True}),
        tool_of("weather.old", annotations={"readOnlyHint": True}),
        tool_of("weather.odd", annotations={"read_only": True, "destructive": True}),
    ]
    found: dict[bool, dict[str, Annotations]] = {}
    for trusted in (True, False):
        trust = {"trusted_modules": ["weather"]} if trusted else {}
        async with with_weather(tmp_path / str(trusted), **trust) as (engine, server):
            server.manifest = answered(manifest_of("weather", *tools))
            specs = await engine.get_active_tool_definitions()
            found[trusted] = {spec.name: spec.annotations for spec in specs if spec.name.startswith("weather.")}
    assert found[True] == {
        "weather.now": Annotations(read_only=True, idempotent=True),
        "weather.set": Annotations(destructive=True, requires_confirmation=True),
        "weather.old": Annotations(read_only=True),
        "weather.odd": Annotations(destructive=True),
    }
    assert set(found[False].values()) == {
        Annotations(destructive=True),
        Annotations(destructive=True, requires_confirmation=True),
    }
    with pytest.raises(ValueError, match="trusted_modules names wether"):
        Settings.model_validate({"modules": {"trusted_modules": ["wether"]}})


@pytest.mark.spec("MOD-4")
@pytest.mark.parametrize("status", [201, 204, 301, 401, 404, 500, 503])
async def test_a_manifest_with_a_status_other_than_200_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    async with with_weather(tmp_path) as (engine, server):
        server.manifest = raw(status, b"" if status == 204 else json.dumps(WEATHER).encode())
        assert "weather.now" not in names(await engine.get_active_tool_definitions())
        (state,) = engine.modules.states()
        assert str(status) in state.error
    assert "module_manifest_error module=weather" in caplog.text
    assert "module_unreachable" not in caplog.text


@pytest.mark.spec("MOD-4")
async def test_a_refused_connection_counts_as_not_started_and_is_retried(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, _):
        await engine.list_tools()
        async with closed_port() as port:
            server_url = f"http://127.0.0.1:{port}"
            async with engine_of(tmp_path / "b", modules={"module_services": {"weather": server_url}}) as other:
                await planted(engine, other)
                result = await other.call("weather.now", CITY)
    assert failed(result) == (FailureClass.RETRYABLE, "unreachable", False)
    assert "Tool execution error: " in result.error
    assert result.audit.attempts == 3


@pytest.mark.spec("MOD-4")
async def test_nothing_is_sent_to_a_module_with_an_untrusted_certificate(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, _), impostor(tmp_path) as (port, heard):
        await engine.list_tools()
        services = {"weather": f"https://127.0.0.1:{port}"}
        async with engine_of(tmp_path / "b", modules={"module_services": services}) as other:
            await planted(engine, other)
            result = await other.call("weather.now", CITY)
    assert failed(result) == (FailureClass.FATAL, "denied", False)
    assert heard == []


@pytest.mark.spec("MOD-4")
@pytest.mark.parametrize("answer", [silent, dribbled], ids=["says nothing", "says too little"])
async def test_a_call_that_times_out_may_have_happened(tmp_path: Path, answer: Answer) -> None:
    async with with_weather(tmp_path, module_timeout=2.0) as (engine, server):
        server.execute = answer
        result = await engine.call("weather.now", CITY)
        assert result.error.startswith("Tool execution timed out (2s).")
        assert failed(result)[1:] == ("timeout", True)
        assert result.audit.end == "timeout"
        assert len(server.asked_for("/execute")) == 1


@pytest.mark.spec("MOD-4")
async def test_slow_modules_have_the_longer_timeout(tmp_path: Path) -> None:
    services = {"weather": "http://127.0.0.1:9", "research": "http://127.0.0.1:9"}
    modules = Settings.model_validate({"modules": {"module_services": services, "slow_modules": ["research"]}}).modules
    from engine.app.modules import timeout_of

    assert (timeout_of("weather", modules), timeout_of("research", modules)) == (30.0, 120.0)


BAD_ANSWERS: dict[str, Answer] = {
    "not json": raw(200, b"<html>"),
    "not utf-8": raw(200, b'{"tool_name": "\xff"}'),
    "a list": answered([]),
    "no success": answered({"tool_name": "weather.now"}),
    "success is a word": answered({"tool_name": "weather.now", "success": "yes"}),
    "another tool": answered({"tool_name": "weather.then", "success": True}),
    "nested without end": raw(200, b"[" * 200_000),
    "not a number": raw(200, b'{"tool_name": "weather.now", "success": true, "result": NaN}'),
    "huge": raw(200, b" " * (ANSWER_BYTES + 1)),
    "endless": endless,
    "compressed": raw(200, gzip.compress(b" " * 1_000_000), {"content-encoding": "gzip"}),
}


@pytest.mark.spec("MOD-1")
@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
async def test_an_invalid_answer_is_a_failure_with_a_one_line_message(tmp_path: Path, answer: Answer) -> None:
    async with with_weather(tmp_path) as (engine, server):
        server.execute = answer
        result = await engine.call("weather.now", CITY)
        assert result.error.startswith("Tool execution error: ")
        assert len(result.error) < 500
        assert failed(result) == (FailureClass.DIAGNOSTIC, "bad_response", True)


@pytest.mark.spec("MOD-1", "MOD-4")
async def test_a_call_whose_answer_is_incomplete_may_have_happened(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, server):
        server.execute = cut_off
        result = await engine.call("weather.now", CITY)
        assert failed(result)[1:] == ("unreachable", True)
        assert len(server.asked_for("/execute")) == 1


@pytest.mark.spec("MOD-1")
async def test_a_failure_reported_by_the_module_is_diagnostic(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, server):
        server.execute = answered({"tool_name": "weather.now", "success": False, "error": "No such city.\x1b[2J"})
        result = await engine.call("weather.now", CITY)
        assert result.error == "No such city.[2J."  # no escape sequence reaches a terminal
        assert failed(result) == (FailureClass.DIAGNOSTIC, "tool_failed", True)


@pytest.mark.spec("MOD-1")
async def test_a_redirect_is_not_followed_so_the_token_is_sent_nowhere_else(tmp_path: Path) -> None:
    async with elsewhere(WEATHER) as other:
        async with with_weather(tmp_path, module_tokens={"weather": "s3cret"}) as (engine, server):
            await engine.list_tools()
            assert server.asked[0].headers["authorization"] == "Bearer s3cret"
            server.execute = raw(307, b"", {"location": f"{other.url}/execute"})
            result = await engine.call("weather.now", CITY)
            assert result.error.startswith("Module returned status 307: a redirect")
        assert other.asked == []


@pytest.mark.spec("MOD-1")
async def test_a_proxy_set_in_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with elsewhere(WEATHER) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with with_weather(tmp_path) as (engine, _):
            assert (await engine.call("weather.now", CITY)).success
        assert proxy.asked == []


@pytest.mark.spec("MOD-1")
async def test_cancelling_a_call_aborts_the_request(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, server):
        reached = asyncio.Event()

        async def held(asked: Asked, writer: asyncio.StreamWriter) -> None:
            reached.set()
            while True:  # a client that is gone shows when one writes to it
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)

        server.execute = held
        task = asyncio.create_task(engine.call("weather.now", CITY))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(lambda: bool(server.broken))


@pytest.mark.spec("MOD-1", "ACCESS-1")
async def test_permissions_approval_and_allowed_modules_apply_to_module_tools(tmp_path: Path) -> None:
    asked: list[str] = []

    class No:
        async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
            asked.append(request.tool.name)
            return ApprovalAnswer(False, request.digest, "no")

    tools = [tool_of("weather.a", required_permission="admin"), tool_of("weather.b", required_permission="emperor")]
    async with with_weather(tmp_path, People(approver=No()), policy={"approval": "destructive"}) as (engine, server):
        server.manifest = answered(manifest_of("weather", *tools, tool_of("weather.c")))
        for name in ("weather.a", "weather.b"):
            assert failed(await engine.call(name, {}, Turn(permission="user")))[:2] == (FailureClass.FATAL, "denied")
        assert failed(await engine.call("weather.b", {}, Turn(permission="admin")))[1] == "denied"
        assert failed(await engine.call("weather.c", {}, Turn(modules=frozenset({"other"}))))[1] == "denied"
        assert not (await engine.call("weather.c", {})).success
        assert asked == ["weather.c"]
        assert server.asked_for("/execute") == []


@pytest.mark.spec("MOD-1", "FAIL-7")
async def test_the_breaker_opens_for_an_unreachable_module(tmp_path: Path) -> None:
    async with with_weather(tmp_path) as (engine, server):
        server.execute = raw(503, b"")
        results = [await engine.call("weather.now", {"city": str(number)}) for number in range(12)]
        assert any(failed(each)[1] == "resting" for each in results), [failed(each) for each in results]
        assert len(server.asked_for("/execute")) < 12


@pytest.mark.spec("MOD-4")
async def test_a_guest_without_a_persona_may_use_the_configured_modules(tmp_path: Path) -> None:
    guest = Turn(permission="guest")
    async with with_weather(tmp_path / "none") as (engine, _):
        assert "weather.now" not in names(await engine.get_active_tool_definitions(guest))
        assert failed(await engine.call("weather.now", CITY, guest))[1] == "denied"
        persona = Turn(permission="guest", modules=frozenset({"weather"}))
        assert (await engine.call("weather.now", CITY, persona)).success
        assert (await engine.call("weather.now", CITY)).success
    async with with_weather(tmp_path / "some", default_guest_modules=["weather"]) as (engine, _):
        assert "weather.now" in names(await engine.get_active_tool_definitions(guest))
        assert (await engine.call("weather.now", CITY, guest)).success


def names(specs: list[Any]) -> set[str]:
    return {spec.name for spec in specs}


@asynccontextmanager
async def closed_port() -> AsyncIterator[int]:
    """Yield a port on which nothing listens, and which no other process can take in the meantime."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@asynccontextmanager
async def impostor(folder: Path) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run a server with a self-signed certificate. Yield its port, and the lines that it received."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    signed = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    file = folder / "server.pem"
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def planted(engine: Engine, other: Engine) -> None:
    """Put the manifest of the module `weather` into the cache, as if the module had answered before."""
    cached = json.loads((engine.services.home.manifests / "weather.json").read_text())
    url = other.settings.modules.module_services["weather"]
    from engine.remote.http_module import HttpModule

    cached["identity"] = HttpModule("weather", url, timeout_s=1).identity
    folder = other.services.home.manifests
    folder.mkdir(parents=True)
    (folder / "weather.json").write_text(json.dumps(cached))
