"""The pack gives tools one client, which costs nothing before its first request."""

import subprocess
import sys
from pathlib import Path

import pytest

from builtin_tools.web.contract import WebClient
from engine import Engine
from engine.contract.context import CallContext
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.builtin_tools.http_server import Answer, reply, serving

pytestmark = [pytest.mark.spec("WEB-1"), pytest.mark.slow]


@tool(category="test")
async def fetch_text(ctx: CallContext, url: str) -> dict[str, str]:
    """Fetch a text.

    Args:
        url: Its address.
    """
    got = await ctx.need(WebClient).get(url, circuit=ctx.call_id)  # type: ignore[type-abstract]
    return {"text": got.data.decode(), "route": got.route}


def text(data: bytes) -> Answer:
    return lambda handler, _: reply(handler, 200, data, {"Content-Type": "text/plain"})


async def test_a_tool_sends_its_requests_over_the_configured_route(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[packs.web]\nroute = "direct"\nallow = ["127.0.0.1"]\n')
    with serving({"/robots.txt": text(b"User-agent: *\nAllow: /\n"), "/": text(b"hello")}) as server:
        async with Engine.open(home=tmp_path, sources=[StaticSource("mine", [fetch_text])]) as engine:
            result = await engine.call("fetch_text", {"url": server.url("/")})
        assert [seen.path for seen in server.seen] == ["/robots.txt", "/"]
    assert result.output == {"text": "hello", "route": "direct"}, result.error


def test_opening_an_engine_neither_imports_the_client_nor_starts_tor(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from engine import Engine\n"
        "async def main():\n"
        f"    async with Engine.open(home={str(tmp_path)!r}):\n"
        "        print([name for name in sys.modules if name.startswith(('httpx_socks', 'builtin_tools.web.route.client'))])\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert ran.stdout.strip() == "[]"
    assert not (tmp_path / "tor").exists()
