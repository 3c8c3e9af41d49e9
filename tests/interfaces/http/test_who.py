"""Only the token determines who makes a request. Nothing else in the request can change that."""

import asyncio
import hmac
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from engine import Engine
from engine.app.home import Home
from engine.app.people import People
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from engine.contract.spec import Annotations
from engine.interfaces.http import tokens as module
from engine.interfaces.http.app import build_app
from engine.interfaces.http.approver import HttpApprover
from engine.interfaces.http.edge import BodyLimits, HostNames
from engine.interfaces.http.route_context import RouteContext
from engine.interfaces.http.running_calls import RunningCalls
from engine.interfaces.http.tokens import PREFIX, Caller, Tokens
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.clock import SystemClock
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import ManualClock
from tests.eventually import eventually
from tests.interfaces.http.servers import PLAIN, Server

pytestmark = [pytest.mark.spec("FACE-3")]

ANNA = Caller("anna", "anna", caps=frozenset({"keys"}), modules=frozenset({"weather"}), agent="helper")
GUEST = Caller("guest", "gus", "guest")
ADMIN = Caller("admin", "ada", "admin")


async def call(client: httpx.AsyncClient, name: str, /, **arguments: Any) -> dict[str, Any]:
    answer = await client.post("/api/call", json={"name": name, "arguments": arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_call_runs_as_the_caller_of_its_token(server: Server) -> None:
    async with server.client(ANNA) as client:
        result = await call(client, "whoami")
        assert result["output"] == {
            "user": "anna",
            "agent": "helper",
            "permission": "user",
            "caps": ["keys"],
            "modules": ["weather"],
            "band": "GREEN",
        }
        assert (await call(client, "with_keys"))["output"] == "done"


@pytest.mark.spec("MOD-5")
async def test_a_user_id_in_a_body_is_ignored(server: Server) -> None:
    async with server.client(GUEST) as client:
        body = {"tool_name": "knackbox.whoami", "arguments": {}, "user_id": "ada", "permission": "owner"}
        answer = (await client.post("/execute", json=body)).json()
        assert answer["result"]["user"] == "gus"
        assert answer["result"]["permission"] == "guest"


@pytest.mark.parametrize("field", ["user", "user_id", "permission", "modules", "caps", "agent", "allowed"])
async def test_a_client_cannot_set_fields_that_the_token_determines(server: Server, field: str) -> None:
    async with server.client(GUEST) as client:
        answer = await client.post("/api/call", json={"name": "whoami", field: "owner"})
        assert answer.status_code == 422
        assert field in answer.json()["detail"]
        assert (await client.get("/api/tools", params={field: "owner"})).status_code == 422


async def test_a_guest_can_neither_see_nor_use_what_needs_a_higher_permission(server: Server) -> None:
    async with server.client(GUEST) as client:
        denied = await call(client, "admins_alone")
        assert not denied["success"]
        assert denied["failure"]["reason"] == "denied"
        assert (await call(client, "execute_tool", name="admins_alone", tool_args={}))["failure"]["reason"] == "denied"
        body = {"tool_name": "knackbox.admins_alone"}
        assert not (await client.post("/execute", json=body)).json()["success"]
        names = {each["name"] for each in (await client.get("/api/tools")).json()["tools"]}
        assert "whoami" in names
        assert "admins_alone" not in names
        assert (await client.get("/api/tools/admins_alone")).status_code == 404
        manifest = (await client.get("/manifest")).json()
        assert "knackbox.admins_alone" not in {each["name"] for each in manifest["tools"]}
        for path in ("/api/audit", "/api/approvals"):
            assert (await client.get(path)).status_code == 403
        assert (await client.post("/refresh-tools")).status_code == 403
    async with server.client(ADMIN) as client:
        assert (await call(client, "admins_alone"))["output"] == "done"

        async def five_rows() -> bool:
            return len((await client.get("/api/audit", params={"limit": 5})).json()["calls"]) == 5

        await eventually(five_rows)  # calls that only read are recorded a little later
        assert (await client.post("/refresh-tools")).status_code == 200


async def test_a_band_can_only_be_made_stricter(server: Server) -> None:
    async with server.client(GUEST) as client:
        answer = await client.post("/api/call", json={"name": "dangerous", "band": "RED"})
        assert answer.json()["failure"]["reason"] == "denied"
        shown = (await client.get("/api/tools", params={"band": "RED"})).json()["tools"]
        assert "dangerous" not in {each["name"] for each in shown}


@pytest.mark.parametrize(
    "limits",
    [{"access": {"allow_list": "few"}}, {"policy": {"band": "RED"}}],
    ids=["ceiling", "band"],
)
async def test_tools_forbidden_by_the_operator_are_not_described(tmp_path: Path, limits: dict[str, Any]) -> None:
    (tmp_path / "allow_lists.yaml").write_text("lists:\n  few:\n    tools: [plain]\n")

    @tool(annotations=Annotations(read_only=True))
    async def plain() -> None:
        """Do no harm."""

    @tool(safety_class="HIGH")
    async def forbidden() -> None:
        """Do what nobody may here."""

    approver = HttpApprover()
    async with Engine.open(
        tmp_path,
        settings=Settings.model_validate(limits),
        sources=[StaticSource("tests", [plain, forbidden])],
        packs=False,
        environ={},
        people=People(approver=approver),
    ) as engine:
        tokens = Tokens(engine.services.records, engine.services.clock)
        context = RouteContext(engine, RunningCalls(engine, 1, tokens.still_valid), approver, "here")
        app = build_app(context, tokens.lookup, HostNames(frozenset({"localhost"})), BodyLimits(1_000, 1.0))
        headers = {"Authorization": f"Bearer {tokens.add(ADMIN)}"}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            assert (await client.get("/api/tools/plain")).json()["name"] == "plain"
            assert (await client.get("/api/tools/forbidden")).status_code == 404
            assert "forbidden" not in (await client.get("/api/tools")).text


def test_a_caller_is_valid_as_long_as_its_token_exists(tmp_path: Path) -> None:
    records = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    tokens = Tokens(records, SystemClock())
    found = tokens.find(tokens.add(GUEST))
    assert found is not None
    assert tokens.still_valid(found)
    assert not tokens.still_valid(GUEST)  # not found by a token
    assert not tokens.still_valid(replace(found, permission="owner"))
    tokens.remove(GUEST.name)
    assert not tokens.still_valid(found)
    again = tokens.find(tokens.add(GUEST))
    assert again == found
    assert not tokens.still_valid(found)
    records.close()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer nobody",
        f"Bearer {PREFIX}",
        "Bearer \xe4\xff",
        "Basic YTpi",
        "Bearer ' OR 1=1 --",
    ],
)
@pytest.mark.parametrize("path", ["/manifest", "/api/tools", "/openapi.json", "/nothing", "/health/", "//health", "/"])
async def test_without_a_valid_token_every_path_returns_401(server: Server, header: str | None, path: str) -> None:
    async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
        assert not header or len(header) < 8 or header not in answer.text


async def test_a_request_with_two_tokens_is_refused(server: Server) -> None:
    token = server.token(ANNA)
    async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
        twice = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
        assert (await client.get("/manifest", headers=twice)).status_code == 401
        assert (await client.get("/manifest", params={"token": token})).status_code == 401


async def test_health_needs_no_token_and_returns_only_status_and_version(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, **PLAIN) as client:
        assert set((await client.get("/health")).json()) == {"status", "version"}


async def test_a_running_server_refuses_a_removed_token(server: Server) -> None:
    async with server.client(Caller("brief", "bo")) as client:
        assert (await client.get("/manifest")).status_code == 200
        assert server.tokens.remove("brief")
        assert (await client.get("/manifest")).status_code == 401


def test_only_the_hash_of_a_token_is_stored(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    records = Records.open(home.records_url)
    tokens = Tokens(records, SystemClock())
    made = tokens.add(ANNA)
    assert tokens.find(made) == ANNA
    assert len(made) >= len(PREFIX) + 43
    again = Tokens(other := Records.open(home.records_url), SystemClock())
    assert again.find(made) == ANNA
    assert tokens.remove("anna")
    assert not tokens.remove("anna")
    assert again.find(made) is None
    assert again.all() == []
    tokens.add(GUEST)
    for each in (records, other):
        each.close()
    kept = b"".join(path.read_bytes() for path in home.root.rglob("*") if path.is_file())
    assert b"guest" in kept
    assert made.encode() not in kept
    assert made.removeprefix(PREFIX).encode() not in kept
    assert home.root.stat().st_mode & 0o077 == 0


def test_every_token_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    tokens = Tokens(records, SystemClock())
    made = [tokens.add(Caller(name, "user")) for name in ("a", "b", "c")]
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest

    def recording(one: str, other: str) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(module.hmac, "compare_digest", recording)
    for given in (made[0], "nobody's"):
        compared.clear()
        tokens.find(given)
        assert len(compared) == 3
        assert all(given not in pair for pair in compared)
    records.close()


def test_the_creation_time_of_a_token_comes_from_the_given_clock(tmp_path: Path) -> None:
    records = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    Tokens(records, ManualClock()).add(GUEST)
    with records.read() as connection:
        assert connection.execute(text("select made from http_tokens")).scalar() == "2026-01-02T03:04:05+00:00"
    records.close()


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-a", "a" * 65, "é", "a\n"])
def test_an_invalid_token_name_is_refused(tmp_path: Path, name: str) -> None:
    records = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    with pytest.raises(ConfigError, match="is not a valid token name"):
        Tokens(records, SystemClock()).add(Caller(name, "user"))
    records.close()


def test_a_taken_token_name_and_an_unprintable_user_are_refused(tmp_path: Path) -> None:
    records = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    tokens = Tokens(records, SystemClock())
    tokens.add(Caller("one", "user"))
    with pytest.raises(ConfigError, match="already a token called one"):
        tokens.add(Caller("one", "other"))
    for user in ("", "a\nb", "x" * 201):
        with pytest.raises(ConfigError, match="printable"):
            tokens.add(Caller("two", user))
    records.close()


async def test_a_token_that_another_process_removed_is_not_found_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'records.db'}"
    with closing(Records.open(url)) as own, closing(Records.open(url)) as other:
        tokens, elsewhere = Tokens(own, SystemClock()), Tokens(other, SystemClock())
        made = await asyncio.to_thread(elsewhere.add, ANNA)
        assert await tokens.lookup(made) == ANNA
        assert await tokens.lookup(made) == ANNA  # now without a thread
        assert await asyncio.to_thread(elsewhere.remove, ANNA.name)
        assert await tokens.lookup(made) is None
