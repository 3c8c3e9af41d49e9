"""Web pages may do nothing, unless the operator allows their origin or turns the docs on."""

from collections.abc import Iterator

import httpx
import pytest

from engine.app.settings import HttpSettings
from engine.interfaces.http.tokens import Caller
from tests.interfaces.http.servers import PLAIN, Server, running

pytestmark = [pytest.mark.spec("FACE-15")]

ME = Caller("page", "pia")
FRIEND = "https://app.example.com"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture(scope="module")
def friendly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("home"), f'[http]\ncors_origins = ["{FRIEND}"]\n') as server:
        yield server


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("fastapi_swagger")
    with running(tmp_path_factory.mktemp("home"), "[http]\ndocs = true\n") as server:
        yield server


async def test_a_page_of_an_allowed_origin_may_send_requests_and_read_responses(friendly: Server) -> None:
    async with friendly.client(ME) as client:
        preflight = await client.options("/api/call", headers={"Origin": FRIEND, **PREFLIGHT})
        answer = await client.post("/api/call", json={"name": "whoami"}, headers={"Origin": FRIEND})
        refused = await client.post("/api/call", headers={"Origin": FRIEND, "Authorization": "Bearer wrong"})
    assert preflight.status_code == 200
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    assert answer.json()["success"]
    assert refused.status_code == 401
    for each in (preflight, answer, refused):
        assert each.headers["access-control-allow-origin"] == FRIEND
        assert "origin" in each.headers["vary"].lower()
        assert "access-control-allow-credentials" not in each.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "http://app.example.com", f"{FRIEND}.evil.example", "null"])
async def test_pages_of_all_other_origins_are_refused(friendly: Server, origin: str) -> None:
    async with friendly.client(ME) as client:
        preflight = await client.options("/api/call", headers={"Origin": origin, **PREFLIGHT})
        answer = await client.post("/api/call", json={"name": "whoami"}, headers={"Origin": origin})
    for each in (preflight, answer):
        assert each.status_code == 403
        assert "cors_origins" in each.json()["detail"]
        assert "access-control-allow-origin" not in each.headers


async def test_an_allowed_origin_does_not_allow_another_host_name(friendly: Server) -> None:
    async with friendly.client(ME) as client:
        for method in ("OPTIONS", "POST"):
            headers = {"Origin": FRIEND, "Host": "evil.example", **PREFLIGHT}
            assert (await client.request(method, "/api/call", headers=headers)).status_code == 421


async def test_the_docs_need_no_token_and_load_nothing_from_other_servers(documented: Server) -> None:
    async with httpx.AsyncClient(base_url=documented.url, **PLAIN) as client:
        page = await client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert "https:" not in page.text
        policy = page.headers.get_list("content-security-policy")
        assert len(policy) == 1
        assert "script-src 'self'" in policy[0]
        for path in ("/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/docs/start.js", "/openapi.json"):
            assert path == "/openapi.json" or path in page.text
            assert (await client.get(path)).status_code == 200
        assert (await client.post("/api/call", json={"name": "whoami"})).status_code == 401
        assert (await client.get("/api/tools")).status_code == 401


async def test_calls_from_the_docs_need_the_same_origin_and_a_token(documented: Server) -> None:
    async with documented.client(ME) as client:
        own = await client.post("/api/call", json={"name": "whoami"}, headers={"Origin": documented.url})
        other = await client.post("/api/call", json={"name": "whoami"}, headers={"Origin": "http://127.0.0.1:1"})
    assert own.json()["success"]
    assert other.status_code == 403


async def test_there_are_no_docs_without_the_setting(server: Server) -> None:
    async with server.client(ME) as client:
        assert (await client.get("/docs")).status_code == 404
    async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
        assert (await client.get("/openapi.json")).status_code == 401


@pytest.mark.parametrize(
    "origin", ["*", "https://app.example.com/", "app.example.com", "HTTPS://app.example.com", "null"]
)
def test_an_invalid_origin_in_the_configuration_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        HttpSettings(cors_origins=(origin,))
    assert HttpSettings(cors_origins=("http://localhost:3000",)).cors_origins == ("http://localhost:3000",)
