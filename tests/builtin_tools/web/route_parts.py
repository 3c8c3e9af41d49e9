"""Creates web clients for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builtin_tools.web.route.assembly import routed_client
from builtin_tools.web.route.client import RoutedClient
from builtin_tools.web.settings import WebSettings
from engine.app.home import Home
from engine.contract.failure import ToolFailure
from engine.stores.clock import SystemClock
from sandbox.contract import Sandbox
from tests.builtin_tools.conftest import NoSandbox

FAST: dict[str, Any] = {"requests_per_s": 100.0, "burst": 100}


@asynccontextmanager
async def web_client(home: Home, sandbox: Sandbox | None = None, **settings: Any) -> AsyncIterator[RoutedClient]:
    """Return a client with these settings. Without a sandbox, robots.txt is not requested unless `robots` is set."""
    given = {**FAST, "robots": sandbox is not None, **settings}
    client = routed_client(WebSettings.model_validate(given), home, sandbox or NoSandbox(), SystemClock())
    try:
        yield client
    finally:
        await client.aclose()


async def refused(client: RoutedClient, url: str, circuit: str = "task", **options: Any) -> ToolFailure:
    """Return the failure of a request that must fail."""
    with pytest.raises(ToolFailure) as caught:
        await client.get(url, circuit=circuit, **options)
    assert not caught.value.may_have_started
    return caught.value
