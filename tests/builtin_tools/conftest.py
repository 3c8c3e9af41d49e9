"""Fixtures for the built-in tools, with a real workspace folder, real records and real boxes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from builtin_tools.download_rules import DownloadRules
from builtin_tools.scratchpad import Scratchpad
from engine.contract.context import CallContext
from engine.contract.turn import Turn
from engine.stores.clock import SystemClock
from engine.stores.records import Records
from engine.stores.workspace import FolderWorkspace
from sandbox.contract import Job, OnOutput, Outcome, Protections, SandboxError
from sandbox.namespace.backend import NamespaceSandbox


class NoSandbox:
    """A sandbox that cannot run anything, for tools that must work without one."""

    name = "none"

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        raise SandboxError("No box can be made here.", remedy="This is a test.")

    async def report(self) -> Protections:
        return Protections("none", ())

    async def aclose(self) -> None: ...


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records.open(f"sqlite:///{tmp_path / 'records.db'}")
    yield opened
    opened.close()


@pytest.fixture
def ctx(tmp_path: Path, records: Records) -> CallContext:
    """Return the context of a call, without a working sandbox, a model or an image client."""
    clock = SystemClock()
    return CallContext(
        turn=Turn(user="ada", agent="main"),
        call_id="call-1",
        sandbox=NoSandbox(),
        workspace=FolderWorkspace(tmp_path / "workspace"),
        clock=clock,
        services={
            Records: records,
            Scratchpad: Scratchpad.open(records, clock),
            DownloadRules: DownloadRules(allow=("127.0.0.1",)),
        },
    )


@pytest.fixture
async def box() -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox() as sandbox:
        yield sandbox
