"""`system_utility` reports facts, and checks whether the parts of the engine work."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from builtin_tools.system.diagnostics import format_fact
from builtin_tools.system_utility import system_utility
from engine.contract.context import CallContext, Produced
from engine.stores.records import Records
from sandbox.namespace.backend import NamespaceSandbox


async def ask(ctx: CallContext, action: str) -> Produced:
    produced = await system_utility.run(ctx, {"action": action})
    assert isinstance(produced, Produced)
    return produced


@pytest.mark.spec("TOOL-3")
async def test_everything_is_healthy_if_everything_works(ctx: CallContext, box: NamespaceSandbox) -> None:
    produced = await ask(replace(ctx, sandbox=box), "health")
    assert produced.value["healthy"], produced.message
    assert {check["name"] for check in produced.value["checks"]} == {"sandbox", "workspace", "records", "disk"}


@pytest.mark.spec("TOOL-3", "BOX-2")
async def test_a_sandbox_that_cannot_run_is_unhealthy_with_advice(ctx: CallContext) -> None:
    produced = await ask(ctx, "health")
    assert not produced.value["healthy"]
    assert "FAIL sandbox: No box can be made here. This is a test." in str(produced.message)
    assert "ok   workspace" in str(produced.message)


async def test_damaged_records_are_unhealthy(ctx: CallContext, tmp_path: Path) -> None:
    ctx.need(Records).close()
    (tmp_path / "records.db").write_bytes(b"not a database " * 1000)
    message = str((await ask(ctx, "health")).message)
    assert "FAIL records" in message
    assert "records.db: the database is damaged" in message


async def test_the_health_check_leaves_no_file(ctx: CallContext) -> None:
    await ask(ctx, "health")
    assert list(ctx.workspace.root.glob("*")) == []


@pytest.mark.spec("TOOL-3")
async def test_diagnostics_name_the_protections_and_nothing_personal(
    ctx: CallContext, box: NamespaceSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "t0ps3cret")
    produced = await ask(replace(ctx, sandbox=box), "diagnostics")
    assert produced.value["sandbox"]["backend"] == "namespace"
    assert "enforced" in produced.value["sandbox"].values()
    assert produced.value["memory"]["total"] > produced.value["memory"]["available"] > 0
    text = str(produced.message) + repr(produced.value)
    assert "t0ps3cret" not in text
    assert socket.gethostname() not in text


@pytest.mark.parametrize(
    ("value", "text"), [(1234567, "1,234,567"), (True, "True"), ([0.5, 1], "0.5 1"), ({"free": 2000}, "free 2,000")]
)
def test_facts_are_formatted_for_people(value: object, text: str) -> None:
    assert format_fact(value) == text
