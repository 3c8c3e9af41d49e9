"""Skills that declare packages and destinations, from the proposal to a call that reaches a real server."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import Proposal
from acquired_skills.tools.skill_tool import skill_tool
from engine import Engine
from engine.contract.failure import FailureClass
from engine.contract.result import ToolResult
from sandbox.contract import Destination, UnresolvedRequirements
from sandbox.egress.rules import EgressRules
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.builtin_tools.http_server import Server, reply, serving
from tests.interfaces.cli import run_as_process
from tests.sandbox.egress.parts import Names
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS, context, opened_library

pytestmark = pytest.mark.spec("BOX-10", "BOX-11")


@dataclass(frozen=True)
class Place:
    """A home for all tests of the module, an allowed server, and a server that is not allowed."""

    home: Path
    allowed: Server
    other: Server

    @property
    def environ(self) -> dict[str, str]:
        return {
            "KNACKBOX_EGRESS_ALLOW": f"127.0.0.1:{self.allowed.port}",
            "KNACKBOX_EGRESS_ALLOW_PRIVATE": "127.0.0.1",
            "KNACKBOX_SKILLS_PACKAGES": "*",
            **ENVIRON_WITHOUT_MUTANTS,
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    answers = {"/greeting": lambda handler, _: reply(handler, 200, b"hello")}
    with serving(answers) as allowed, serving(answers) as other:
        yield Place(tmp_path_factory.mktemp("home"), allowed, other)


def fetching(place: Place, name: str, dependencies: str = '"requests>=2.32"') -> Proposal:
    """Return a skill that gets a text over HTTP, with a test that makes a real request."""
    code = f'''# /// script
# requires-python = ">=3.11"
# dependencies = [{dependencies}]
#
# [tool.knackbox]
# destinations = ["127.0.0.1:{place.allowed.port}"]
# ///
import requests


def {name}(url: str) -> str:
    """Get a text.

    Args:
        url: where it is.
    """
    answer = requests.get(url, timeout=5)
    answer.raise_for_status()
    return answer.text
'''
    tests = f"from {name} import {name}\n\n\ndef test_it():\n    assert {name}({place.allowed.url('/greeting')!r}) == 'hello'\n"
    return Proposal(name, "Gets a text over HTTP.", code, tests)


async def create(engine: Engine, offered: Proposal) -> ToolResult:
    arguments = {"name": offered.name, "description": offered.description, "code": offered.code, "tests": offered.tests}
    return await engine.call("create_skill", arguments)


@asynccontextmanager
async def opened(place: Place, **changed: str) -> AsyncIterator[Engine]:
    async with Engine.open(place.home, environ={**place.environ, **changed}) as engine:
        yield engine


async def test_a_skill_uses_the_package_and_reaches_the_server_it_declares_and_no_other(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nowhere"))
    async with opened(place) as engine:
        made = await create(engine, fetching(place, "fetch_text"))
        assert made.success, made.error
        assert made.output["dependencies"] == ["requests>=2.32"]
        before = len(place.allowed.seen)
        got = await engine.call("fetch_text", {"url": place.allowed.url("/greeting")})
        assert (got.success, got.output) == (True, "hello"), got.error
        assert len(place.allowed.seen) == before + 1
        for elsewhere in (place.other.url("/greeting"), place.other.url("/greeting", host="localhost")):
            assert not (await engine.call("fetch_text", {"url": elsewhere})).success
        assert place.other.seen == []
        shown = await engine.call("manage_skills", {"action": "show", "name": "fetch_text"})
        assert f"Needs packages: requests>=2.32; connects to: 127.0.0.1:{place.allowed.port}" in shown.text
    assert len(list((place.home / "cache" / "environments").glob("*/complete.json"))) == 1
    assert not (tmp_path / "nowhere").exists()


async def test_a_destination_that_the_operator_removes_is_refused_with_the_reason(place: Place) -> None:
    async with opened(place) as engine:
        assert (await create(engine, fetching(place, "fetch_again"))).success
    url = place.allowed.url("/greeting")
    before = len(place.allowed.seen)
    async with opened(place, KNACKBOX_EGRESS_ALLOW="") as engine:
        refused = await engine.call("fetch_again", {"url": url})
        proposed = await create(engine, fetching(place, "fetch_anew"))
    assert refused.failure is not None
    assert (refused.failure.failure_class, refused.failure.reason) == (FailureClass.FATAL, "destination_not_allowed")
    for told in (refused.error, proposed.error):
        assert f"127.0.0.1:{place.allowed.port}, which the operator of this engine has not allowed" in told
        assert f'`allow = ["127.0.0.1:{place.allowed.port}"]` in `[egress]`' in told
    async with opened(place, KNACKBOX_EGRESS_ALLOW_PRIVATE="") as engine:
        private = await engine.call("fetch_again", {"url": url})
    assert "it is a loopback address" in private.error
    assert "`allow_private` under `[egress]`" in private.error
    assert len(place.allowed.seen) == before


@pytest.mark.spec("SKILL-12")
async def test_types_are_converted_in_the_environment_of_the_skill_too(place: Place) -> None:
    code = '''# /// script
# dependencies = ["requests>=2.32"]
# ///
from datetime import date

import requests


def day_after(day: date) -> tuple[date, bool]:
    """The next day, and whether requests is there.

    Args:
        day: to start from.
    """
    return date.fromordinal(day.toordinal() + 1), hasattr(requests, "get")
'''
    tests = "from datetime import date\nfrom day_after import day_after\n\n\ndef test_it():\n    assert day_after(date(2026, 1, 31)) == (date(2026, 2, 1), True)\n"
    async with opened(place) as engine:
        made = await create(engine, Proposal("day_after", "Gives the day after a day.", code, tests))
        assert made.success, made.error
        assert (await engine.call("day_after", {"day": "2026-02-28"})).output == ["2026-03-01", True]


async def test_packages_that_cannot_be_installed_are_refused_with_the_installers_message(place: Place) -> None:
    async with opened(place) as engine:
        refused = await create(engine, fetching(place, "fetch_never", '"six==99.0"'))
        assert refused.failure is not None
        assert (refused.failure.failure_class, refused.failure.reason) == (FailureClass.DIAGNOSTIC, "proposal_refused")
        assert "[dependencies]" in refused.error
        assert "there is no version of six==99.0" in refused.error
        assert (await create(engine, fetching(place, "fetch_once"))).success
        library = engine.need(SkillLibrary)
        gone = replace(await library.get("fetch_once"), environment=("six==99.0",))
        with pytest.raises(UnresolvedRequirements, match=r"no version of six==99\.0"):
            await skill_tool(gone, library).run(context(library, engine.sandbox, place.home), {"url": "x"})


async def test_an_undeclared_package_is_missing_in_the_environment(place: Place) -> None:
    offered = fetching(place, "fetch_more")
    async with opened(place) as engine:
        refused = await create(engine, replace(offered, code=offered.code.replace("import requests", "import numpy")))
    assert "No module named 'numpy'" in refused.error
    assert "declare it in a PEP 723 block" in refused.error


async def test_a_program_without_proxy_support_reaches_only_the_declared_name_and_port(
    place: Place, tmp_path: Path
) -> None:
    code = f'''# /// script
# [tool.knackbox]
# destinations = ["api.test:{place.allowed.port}"]
# ///
import socket


def ask(port: int) -> str:
    """Ask the server at a port.

    Args:
        port: of api.test.
    """
    with socket.create_connection(("api.test", port), timeout=5) as connection:
        connection.sendall(b"GET /greeting HTTP/1.0\\r\\n\\r\\n")
        return connection.makefile().read().split("\\n")[-1]
'''
    tests = f"from ask import ask\n\n\ndef test_it():\n    assert ask({place.allowed.port}) == 'hello'\n"
    asked_of_other = len(place.other.seen)
    config = NamespaceConfig(warm=1, egress=EgressRules(allow_private=frozenset({"api.test"})))
    allowed = frozenset({Destination("api.test", place.allowed.port)})
    (tmp_path / "home").mkdir()
    async with (
        NamespaceSandbox(config, resolver=Names({"api.test": [["127.0.0.1"]]})) as box,
        opened_library(tmp_path / "home", box, allowed=allowed) as library,
    ):
        made = await library.create(Proposal("ask", "Asks a server for a greeting.", code, tests))
        assert (made.dependencies, made.environment) == ((), ())

        async def called(port: int) -> Any:
            return await skill_tool(made, library).run(context(library, box, tmp_path / "w"), {"port": port})

        assert await called(place.allowed.port) == "hello"
        with pytest.raises(Exception, match="ConnectionRefusedError"):
            await called(place.other.port)
    assert len(place.other.seen) == asked_of_other


@pytest.mark.spec("FACE-1")
def test_the_command_line_adds_and_calls_the_skill_and_the_doctor_shows_the_settings(
    place: Place, tmp_path: Path
) -> None:
    offered = fetching(place, "fetch_here")
    (tmp_path / "fetch_here.py").write_text(offered.code)
    (tmp_path / "tests.py").write_text(offered.tests)
    port = place.allowed.port
    home = {"KNACKBOX_HOME": str(place.home)}
    add = ("skills", "add", str(tmp_path / "fetch_here.py"), "--tests", str(tmp_path / "tests.py"))
    refused = run_as_process(*add, "-d", "Gets a text over HTTP.", environ=home)
    assert (refused.code, "[destinations]" in refused.err) == (1, True)
    settings = f'[skills]\npackages = ["requests"]\n[egress]\nallow = ["127.0.0.1:{port}"]\nallow_private = ["127.0.0.1"]\n[environments]\ncap_bytes = 1073741824\n'
    (place.home / "config.toml").write_text(settings)
    try:
        assert run_as_process(*add, "-d", "Gets a text over HTTP.", environ=home).code == 0
        url = json.dumps({"url": place.allowed.url("/greeting")})
        assert run_as_process("call", "fetch_here", "--args", url, environ=home).out == "hello\n"
        assert f"connects to: 127.0.0.1:{port}" in run_as_process("skills", "show", "fetch_here", environ=home).out
        checks = run_as_process("doctor", "--json", environ=home).last["checks"]
    finally:
        (place.home / "config.toml").unlink()
    told = {check["name"]: check["detail"] for check in checks}
    assert told["destinations"] == f"127.0.0.1:{port}"
    assert told["private addresses"] == "127.0.0.1"
    assert told["environments"].startswith(f"{place.home / 'cache' / 'environments'}: ")
    assert told["environments"].endswith("of at most 1,024 MiB")
