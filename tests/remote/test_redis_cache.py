"""Manifests are cached in a real Redis server, started for these tests."""

import asyncio
import contextlib
import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio as redis

from engine import Engine
from engine.app.settings import Settings
from engine.remote.cache import MOST_BYTES
from tests.eventually import eventually
from tests.remote.elsewhere import WEATHER, elsewhere, manifest_of, tool_of

DEADLINE_S = 60
pytestmark = [pytest.mark.services, pytest.mark.spec("MOD-3")]
KEY = "module_manifest:weather"


@asynccontextmanager
async def redis_server(folder: Path) -> AsyncIterator[int]:
    """Start a Redis server and yield its port."""
    program = shutil.which("redis-server")
    assert program is not None, "install redis-server, or run make test-services"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    process = await asyncio.create_subprocess_exec(program, *options, stdout=asyncio.subprocess.DEVNULL)
    try:
        await eventually(lambda: listens(port))
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@asynccontextmanager
async def engine_of(home: Path, url: str, port: int) -> AsyncIterator[Engine]:
    section = {"module_services": {"weather": url}, "redis_url": f"redis://127.0.0.1:{port}/0"}
    settings = Settings.model_validate({"modules": section})
    async with asyncio.timeout(DEADLINE_S):
        async with Engine.open(home, settings=settings, packs=False, environ={}) as engine:
            yield engine


async def listed(engine: Engine) -> set[str]:
    return {spec.name for spec in await engine.get_active_tool_definitions() if spec.name.startswith("weather.")}


async def test_engines_on_two_homes_share_a_manifest_that_expires_in_redis(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as port, redis.Redis(port=port) as client:
        async with elsewhere(WEATHER) as server:
            url = server.url
            async with engine_of(tmp_path / "one", url, port) as engine:
                assert len(await listed(engine)) == 2
            assert 0 < await client.ttl(KEY) <= 3600
        async with engine_of(tmp_path / "two", url, port) as engine:  # the module is down
            assert len(await listed(engine)) == 2
        assert not (tmp_path / "two" / "cache" / "manifests").exists()


async def test_invalid_manifests_in_redis_are_ignored(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as port, redis.Redis(port=port) as client, elsewhere(WEATHER) as server:
        forged = {"identity": "x", "fetched_at": "yesterday", "manifest": WEATHER}
        early = {**forged, "fetched_at": "0001-01-01T00:00:00+14:00"}  # overflows in UTC
        damaged = [b"{", b" " * (MOST_BYTES + 1), b"\xff", *(json.dumps(each).encode() for each in (forged, early))]
        for number, bad in enumerate(damaged):
            await client.set(KEY, bad)
            async with engine_of(tmp_path / str(number), server.url, port) as engine:
                assert len(await listed(engine)) == 2
            assert json.loads(await client.get(KEY)) == WEATHER


async def test_the_redis_value_is_the_plain_manifest_and_values_of_other_programs_are_read(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as port, redis.Redis(port=port) as client:
        async with elsewhere(WEATHER) as server:
            url = server.url
            async with engine_of(tmp_path / "one", url, port) as engine:
                assert len(await listed(engine)) == 2
            assert json.loads(await client.get(KEY)) == WEATHER
        other = manifest_of("weather", tool_of("weather.then"))
        for number, seconds in enumerate((1800, None)):  # as another program has it, with an end or without
            await client.set(KEY, json.dumps(other, indent=1), ex=seconds)
            async with engine_of(tmp_path / f"other{number}", url, port) as engine:  # the module is down
                assert await listed(engine) == {"weather.then"}
        await client.delete("module_manifest_source:weather")
        await client.set(KEY, json.dumps(WEATHER), ex=1800)
        async with engine_of(tmp_path / "three", url, port) as engine:
            assert await listed(engine) == {"weather.now", "weather.set.alarm"}


async def test_an_entry_fetched_from_another_location_under_the_same_name_is_not_used(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as port:
        async with elsewhere(WEATHER) as server, engine_of(tmp_path / "one", server.url, port) as engine:
            assert len(await listed(engine)) == 2
        async with engine_of(tmp_path / "two", "http://127.0.0.1:9", port) as engine:
            assert await listed(engine) == set()


async def test_an_unreachable_redis_only_causes_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with elsewhere(WEATHER) as server:
        async with redis_server(tmp_path) as port:
            pass
        async with engine_of(tmp_path, server.url, port) as engine:
            assert len(await listed(engine)) == 2
            assert (await engine.call("weather.now", {"city": "Oslo"})).success
    assert "Redis returned no valid manifest of the module weather" in caplog.text
