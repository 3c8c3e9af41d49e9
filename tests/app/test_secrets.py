"""Values of secrets reach the tools that may have them, and nothing else that an engine returns, logs or stores."""

import asyncio
import base64
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import Engine
from engine.app.config import load_settings
from engine.app.conversation import open_conversation
from engine.app.home import Home
from engine.app.sandbox_choice import chosen_sandbox
from engine.app.secret_sources import SecretMissing, exposure, read_source
from engine.app.secrets import open_secrets, placeholder_key
from engine.app.settings import ModelSettings, Settings
from engine.contract.context import CallContext, Produced
from engine.contract.events import OutputPiece, Progress
from engine.contract.failure import ConfigError, FailureClass, ToolFailure
from engine.contract.result import ToolCall, ToolContext, ToolResult
from engine.contract.spec import Annotations
from engine.contract.turn import Turn
from engine.dispatch.call_secrets import CallSecrets
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from sandbox.secrets.secret import PLACEHOLDER, Secret
from tests.agent.scripted_model import calls, says, serving
from tests.skills.parts import NoSandbox

pytestmark = pytest.mark.spec("CODE-7")
VALUE = 'tok/"en+value=&42'
ENVIRON = {"API_TOKEN": VALUE}
RECEIVED: list[str] = []


@tool(annotations=Annotations(destructive=True))
async def fetch_weather(ctx: CallContext, key: str, how: str = "returns") -> Produced[Any]:
    """Fetch the weather with a key, and return or report the key in some way."""
    RECEIVED.append(key)
    ctx.audit["key"] = {"used": key, "object": Path(key)}
    ctx.progress(f"using {key}", 0.5)
    logging.getLogger("knackbox.test").warning("the key is %s", key)
    if how == "raises":
        raise ValueError(f"the server rejected {key!r}")
    if how == "fails":
        raise ToolFailure(f"bad key {key}", failure_class=FailureClass.DIAGNOSTIC, reason="bad_key", output={"k": key})
    if how == "large":
        return Produced({"lines": [key] * 20_000}, key * 20_000)
    coded = base64.b64encode(f"user:{key}".encode()).decode()
    return Produced({"key": key, key: [key, coded]}, f"used {key} and {coded}", (f"created:{key}",))


@tool()
async def send_anywhere(ctx: CallContext, text: str) -> str:
    """Return the text."""
    RECEIVED.append(text)
    return text


@tool(requires=("sandbox",))
async def run_code(ctx: CallContext, code: str) -> str:
    """Run code in a box."""
    RECEIVED.append(code)
    return code


@pytest.fixture(autouse=True)
def nothing_received() -> None:
    RECEIVED.clear()


def settings(source: str = "env:API_TOKEN", **more: Any) -> Settings:
    table = {"from": source, "hosts": ["api.test:443"], "tools": ["fetch_weather", "run_code"]}
    return Settings.model_validate({"secrets": {"TOKEN": table}, **more})


@asynccontextmanager
async def opened(home: Path, chosen: Settings | None = None, **options: Any) -> AsyncIterator[Engine]:
    source = StaticSource("test", [fetch_weather, send_anywhere, run_code])
    given: dict[str, Any] = {"sources": [source], "packs": False, "environ": ENVIRON, "sandbox": NoSandbox()}
    async with Engine.open(home, settings=chosen or settings(), **given | options) as engine:
        yield engine


def placeholder(engine: Engine) -> str:
    return engine.need(CallSecrets).placeholders(["fetch_weather"])["TOKEN"]


def kept(home: Path, value: str = VALUE) -> list[str]:
    """Return the files below a home that contain a form of the value."""
    parts = (value[:10], value[-10:], value.encode().hex(), base64.b64encode(value.encode()).decode()[:14])
    return [
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and any(part.encode() in path.read_bytes() for part in parts)
    ]


@pytest.mark.parametrize("how", ["returns", "raises", "fails", "large"])
async def test_a_listed_tool_receives_the_value_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    events: list[object] = []
    async with opened(tmp_path) as engine:
        arguments = {"key": placeholder(engine), "how": how}
        events = [event async for event in engine.stream("fetch_weather", arguments)]
        rows = await engine.audit()
    result = events[-1]
    assert isinstance(result, ToolResult)
    assert RECEIVED[0] == VALUE
    assert result.success == (how in {"returns", "large"})
    assert any(isinstance(event, Progress) and "knackbox-secret-TOKEN" in event.message for event in events)
    shown = repr((events, rows, caplog.text, [record.args for record in caplog.records]))
    assert "knackbox-secret-TOKEN" in shown
    for form in (VALUE, VALUE[:10], VALUE[-10:], repr(VALUE)[1:-1], base64.b64encode(VALUE.encode()).decode()[:14]):
        assert form not in shown
    assert kept(tmp_path) == []


async def test_a_traceback_in_the_log_has_no_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path):
        try:
            int(f"could not use {VALUE}")
        except ValueError:
            logging.getLogger("anything").exception("failed with %(key)s", {"key": VALUE})
    assert "Traceback" in caplog.text
    assert "could not use knackbox-secret-TOKEN" in caplog.text
    assert VALUE not in caplog.text


async def test_a_tool_that_is_not_listed_gets_the_placeholder(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        held = placeholder(engine)
        result = await engine.call("send_anywhere", {"text": f"<{held}>"})
    assert [f"<{held}>"] == RECEIVED
    assert result.output == f"<{held}>"


async def test_a_tool_that_runs_code_in_boxes_gets_the_placeholder_even_if_it_is_listed(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        held = placeholder(engine)
        assert (await engine.call("run_code", {"code": f"print('{held}')"})).success
    assert [f"print('{held}')"] == RECEIVED


async def test_a_value_that_somebody_writes_into_arguments_becomes_the_placeholder(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        held = placeholder(engine)
        told = await engine.call("send_anywhere", {"text": f"my key is {VALUE}"})
        listed = await engine.call("fetch_weather", {"key": VALUE})
        large = await engine.call("send_anywhere", {"text": VALUE * 100_000})
        rows = await engine.audit()
    assert RECEIVED[0] == f"my key is {held}"
    assert RECEIVED[1] == VALUE
    assert RECEIVED[2] == held * 100_000
    assert VALUE not in repr((told, listed, large.message, rows))
    assert kept(tmp_path) == []


async def test_the_message_that_led_to_a_call_is_redacted_for_the_tool(tmp_path: Path) -> None:
    secret = Secret("TOKEN", "knackbox-secret-TOKEN-" + "0" * 32, VALUE)
    context = ToolContext(raw_arg=VALUE, user_message=f"use {VALUE}", user="ada")
    hidden = CallSecrets([secret], {}).hidden(ToolCall("x", {"a": 1}, context=context))
    assert VALUE not in repr(hidden)
    assert hidden.context is not None
    assert hidden.context.user == "ada"


async def test_the_query_of_a_turn_has_no_value(tmp_path: Path) -> None:
    queries: list[str | None] = []

    class Asked(StaticSource):
        async def tools(self, turn: Turn) -> Any:
            queries.append(turn.query)
            return await super().tools(turn)

    async with opened(tmp_path, sources=[Asked("asked", [send_anywhere])]) as engine:
        await engine.list_tools(Turn(query=f"use {VALUE}"))
        await engine.list_tools(query=f"use {VALUE}")
    assert len(queries) == 2
    assert all(query is not None and query.startswith("use knackbox-secret-TOKEN-") for query in queries)


async def test_a_cancelled_call_with_large_arguments_records_no_value(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        calling = asyncio.ensure_future(engine.call("send_anywhere", {"text": [VALUE] * 30_000}))
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait({calling})
        await engine.audit()
    assert kept(tmp_path) == []


async def test_output_of_a_tool_is_redacted_as_it_is_streamed(tmp_path: Path) -> None:
    @tool()
    async def prints(ctx: CallContext, key: str) -> str:
        """Print the key."""
        ctx.progress.output("stdout", f"key: {key}\n")  # type: ignore[attr-defined]
        return "done"

    chosen = Settings.model_validate({"secrets": {"TOKEN": {"from": "env:API_TOKEN", "tools": ["prints"]}}})
    async with opened(tmp_path, chosen, sources=[StaticSource("test", [prints])]) as engine:
        held = engine.need(CallSecrets).placeholders(["prints"])["TOKEN"]
        events = [event async for event in engine.stream("prints", {"key": held})]
    assert OutputPiece("stdout", f"key: {held}\n") in events
    assert VALUE not in repr(events)


async def test_a_missing_value_fails_the_call_that_needs_it_with_the_remedy(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        held = placeholder(engine)
    async with opened(tmp_path, environ={}) as engine:
        assert engine.need(CallSecrets).placeholders(["fetch_weather"]) == {}
        failed = await engine.call("fetch_weather", {"key": held})
        other = await engine.call("send_anywhere", {"text": held})
    assert failed.failure is not None
    assert failed.failure.reason == "secret_missing"
    assert "API_TOKEN is not set" in failed.error
    assert [held] == RECEIVED
    assert other.success


async def test_placeholders_stay_the_same_for_one_home_and_differ_between_homes(tmp_path: Path) -> None:
    found = []
    for home in ("a", "a", "b"):
        async with opened(tmp_path / home) as engine:
            found.append(placeholder(engine))
    assert found[0] == found[1] != found[2]
    assert PLACEHOLDER.fullmatch(found[0])
    key = Home(tmp_path / "a").placeholder_key
    assert key.stat().st_mode & 0o777 == 0o600
    key.write_bytes(b"short")
    with pytest.raises(ConfigError, match="Remove it"):
        placeholder_key(key)


async def test_without_secrets_no_key_is_made_and_no_service_is_offered(tmp_path: Path) -> None:
    async with opened(tmp_path, Settings()) as engine:
        assert engine.services.redactor is None
        assert (await engine.call("send_anywhere", {"text": VALUE})).output == VALUE
    assert not Home(tmp_path).placeholder_key.exists()


@pytest.mark.slow
async def test_transcripts_of_runs_contain_placeholders_only(tmp_path: Path) -> None:
    """A person types a value, the model repeats it, and a tool returns it."""
    script = [
        calls(("send_anywhere", {"text": f"said {VALUE}"}), text=f"You said {VALUE}."),
        says(f"Done with {VALUE}."),
    ]
    async with serving(*script) as model:
        chosen = settings(model=ModelSettings(name="scripted", base_url=model.base_url).model_dump())
        async with opened(tmp_path, chosen) as engine, open_conversation(engine) as conversation:
            report = await conversation.run(f"Use {VALUE}, please.")
            held = placeholder(engine)
            rows = engine.runs.recent()
            entries = [entry.entry for row in rows for entry in engine.runs.entries(row.id)]
    assert report.finish.value == "answer"
    assert [f"said {held}"] == RECEIVED
    assert held in rows[0].message
    assert any(held in entry for entry in entries)
    assert VALUE not in repr(entries)
    assert kept(tmp_path) == []


@pytest.mark.slow
async def test_the_memory_does_not_keep_values(tmp_path: Path) -> None:
    async with opened(tmp_path, packs=True) as engine:
        told = await engine.call("knowledge_base", {"action": "insert_fact", "text": f"The key is {VALUE}."})
        lesson = await engine.call("learn_skill", {"mistake": f"Sent {VALUE}.", "fix": "Use the name of the secret."})
        found = await engine.call("recall", {"query": "the key"})
    assert told.success, told.error
    assert lesson.success, lesson.error
    assert VALUE not in repr(found)
    assert "knackbox-secret-TOKEN" in repr(found)
    assert kept(tmp_path) == []


def file_source(folder: Path) -> str:
    path = folder / "token"
    path.write_text(f"{VALUE}\n")
    path.chmod(0o600)
    return f"file:{path}"


def test_values_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    assert read_source("env:API_TOKEN", ENVIRON) == VALUE
    source = file_source(tmp_path)
    assert read_source(source, {}) == VALUE
    assert exposure(source) == ""
    (tmp_path / "token").chmod(0o644)
    assert "chmod 600" in exposure(source)


def test_values_come_from_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")

    class Ring(keyring.backend.KeyringBackend):  # type: ignore[name-defined, misc]
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return VALUE if (service, username) == ("weather", "me") else None

        def set_password(self, service: str, username: str, password: str) -> None:
            raise NotImplementedError

    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    try:
        assert read_source("keyring:weather/me", {}) == VALUE
        with pytest.raises(SecretMissing, match="keyring set weather you"):
            read_source("keyring:weather/you", {})
    finally:
        keyring.set_keyring(before)


def fifo(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return f"file:{folder / 'pipe'}"


def huge(folder: Path) -> str:
    (folder / "huge").write_bytes(b"x" * (1 << 20))
    return f"file:{folder / 'huge'}"


def binary(folder: Path) -> str:
    (folder / "binary").write_bytes(b"\xff" * 20)
    return f"file:{folder / 'binary'}"


@pytest.mark.parametrize(
    ("source_of", "problem"),
    [
        (lambda folder: "env:NOT_SET", "is not set"),
        (lambda folder: f"file:{folder}/none", "cannot be read"),
        (lambda folder: f"file:{folder}", "cannot be read"),
        (fifo, "not a regular file"),
        (huge, "over 64 KiB"),
        (binary, "not text in UTF-8"),
    ],
)
def test_a_value_that_cannot_be_read_is_reported_with_a_remedy(
    tmp_path: Path, source_of: Callable[[Path], str], problem: str
) -> None:
    with pytest.raises(SecretMissing, match=problem):
        read_source(source_of(tmp_path), {})


@pytest.mark.parametrize("value", ["short", "two\nlines of text", " begins with a space", "p" * 9000])
def test_a_value_that_cannot_be_a_secret_is_a_problem_without_the_value(tmp_path: Path, value: str) -> None:
    opened = open_secrets(Home(tmp_path), settings().secrets, {"API_TOKEN": value})
    assert opened.found == ()
    (state,) = opened.states
    assert state.problem.startswith("The value of TOKEN ")
    assert value not in state.problem.replace("a shorter one", "")


@pytest.mark.parametrize(
    "text",
    [
        f"from = '{VALUE}'",
        f"from = 'env:{VALUE}'",
        f"from = ['{VALUE}']",
        f"value = '{VALUE}'",
        f"from = 'env:A'\nhosts = ['{VALUE}']",
        f"from = 'env:A'\ntools = '{VALUE}'",
    ],
)
def test_a_mistake_in_the_configuration_does_not_show_a_value(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    home.config.write_text(f"[secrets.TOKEN]\n{text}\n")
    with pytest.raises(ConfigError, match=r"secrets\.TOKEN") as caught:
        load_settings(home, {})
    assert VALUE not in str(caught.value)


def test_hosts_are_canonical_and_contradictions_are_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.config.write_text(
        "[secrets.A]\nfrom = 'env:API_TOKEN'\nhosts = ['API.Example.com.:443', 'http://[::1]:80']\n"
        "[secrets.B]\nfrom = 'env:API_TOKEN'\nhosts = ['http://api.example.com:443']\n"
    )
    chosen = load_settings(home, {})
    assert chosen.secrets["A"].hosts == ("api.example.com:443", "http://[::1]:80")
    with pytest.raises(ConfigError, match="List it in one way"):
        open_secrets(home, chosen.secrets, ENVIRON)


def test_settings_do_not_contain_values() -> None:
    assert VALUE not in repr(settings())
    assert "TOKEN" in settings().model_dump_json()


def test_commands_that_need_only_the_sandbox_give_it_the_secrets(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert chosen_sandbox(home, ENVIRON)[1].secrets == ()
    home.create()
    home.config.write_text("[secrets.TOKEN]\nfrom = 'env:API_TOKEN'\nhosts = ['api.test:443']\n")
    (found,) = chosen_sandbox(home, ENVIRON)[1].secrets
    assert (found.name, found.value) == ("TOKEN", VALUE)
    assert str(found.hosts[0]) == "api.test:443"
