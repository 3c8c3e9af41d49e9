"""Programs pass placeholders to tools. The tools outside get the values, and the programs never do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.app.engine import Engine
from engine.app.settings import Settings
from engine.contract.context import CallContext
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

pytestmark = [pytest.mark.spec("CODE-7"), pytest.mark.slow]
VALUE = "tok-en+value/42"
RECEIVED: list[str] = []


@tool()
async def fetch_weather(ctx: CallContext, key: str) -> dict[str, str]:
    """Fetch the weather, and return the key as well."""
    RECEIVED.append(key)
    return {"weather": "rain", "key": key}


@tool()
async def send_anywhere(ctx: CallContext, text: str) -> str:
    """Return the text."""
    RECEIVED.append(text)
    return text


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    RECEIVED.clear()
    settings = Settings.model_validate({"secrets": {"TOKEN": {"from": "env:TOKEN", "tools": ["fetch_weather"]}}})
    source = StaticSource("test", [fetch_weather, send_anywhere])
    async with Engine.open(tmp_path / "home", settings=settings, sources=[source], environ={"TOKEN": VALUE}) as opened:
        yield opened


PYTHON = """
from knackbox import secrets, tools
answer = tools.fetch_weather(key=secrets.TOKEN)
other = tools.send_anywhere(text=secrets.TOKEN)
print(secrets.TOKEN, dir(secrets), answer, other)
try:
    secrets.OTHER
except AttributeError as problem:
    print(problem)
answer["key"] == other == secrets.TOKEN
"""
NODE = """
import {secrets, tools} from "knackbox";
const answer = await tools.fetch_weather({key: secrets.TOKEN});
const other = await tools.send_anywhere({text: secrets.TOKEN});
console.log(answer.key === other && other === secrets.TOKEN, answer, secrets.OTHER);
"""


async def test_a_python_program_uses_a_secret_by_name(engine: Engine) -> None:
    result = await engine.call("execute", {"language": "python", "code": PYTHON})
    assert result.success, result.error
    assert result.output["value"] is True
    assert RECEIVED[0] == VALUE
    assert RECEIVED[1].startswith("knackbox-secret-TOKEN-")
    assert "There is no secret called OTHER" in result.output["stdout"]
    assert VALUE not in repr(result)


async def test_a_node_program_uses_a_secret_by_name(engine: Engine) -> None:
    result = await engine.call("execute", {"language": "node", "code": NODE})
    assert result.success, result.error
    assert result.output["stdout"].startswith("true ")
    assert RECEIVED[0] == VALUE
    assert VALUE not in repr(result)


async def test_a_document_that_contains_a_value_is_kept_without_it(engine: Engine, tmp_path: Path) -> None:
    text = f"# Notes\n\nThe key of the weather service is {VALUE}, as agreed.\n\n# Later\n\nMore text follows here.\n"
    (tmp_path / "home" / "workspace").mkdir(exist_ok=True)
    (tmp_path / "home" / "workspace" / "notes.md").write_text(text)
    stored = await engine.call("knowledge_base", {"action": "ingest_document", "source": "notes.md"})
    assert stored.success, stored.error
    found = await engine.call("recall", {"query": "key of the weather service"})
    assert "as agreed" in repr(found.output)
    assert VALUE not in repr(found)
    (tmp_path / "home" / "workspace" / "notes.md").unlink()
    (await engine.audit())
    kept = [p for p in (tmp_path / "home").rglob("*") if p.is_file() and VALUE.encode() in p.read_bytes()]
    assert kept == []


async def test_code_that_contains_a_value_runs_with_the_placeholder(engine: Engine) -> None:
    result = await engine.call("execute", {"language": "python", "code": f"len('{VALUE}'), '{VALUE}'[:5]"})
    assert result.success, result.error
    assert result.output["value"] == [len("knackbox-secret-TOKEN-") + 32, "knack"]
