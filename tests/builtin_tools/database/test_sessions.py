"""Statements end with their call: when it is cancelled, and when the engine is killed. Memory does not grow with rows."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.builtin_tools.database.cluster import Cluster
from tests.builtin_tools.database.conftest import Opener
from tests.eventually import eventually, eventually_sync

REPOSITORY = Path(__file__).parents[3]
MOST_GROWTH_KB = 96 << 10  # row groups of Parquet files and buffers; the rows have several hundred MB
pytestmark = [pytest.mark.services, pytest.mark.spec("TOOL-12"), pytest.mark.timeout(500)]


def running(postgres: Cluster, marker: str) -> int:
    """Return the number of other sessions whose statement contains the marker, and that run or hold a transaction."""
    return int(
        postgres.value(
            f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%{marker}%' AND application_name = 'knackbox'"
        )
    )


SLOW = {
    "while the first row is computed": "SELECT pg_sleep(300) /* {} */",
    "while rows arrive": "SELECT pg_sleep(0.001), repeat('x', 100) FROM generate_series(1, 1000000) /* {} */",
    "although it has switched off its limits": (
        "SELECT set_config('statement_timeout', '0', false), set_config('client_connection_check_interval', '0', false),"
        " pg_sleep(0.2) FROM generate_series(1, 2000) /* {} */"
    ),
}


@pytest.mark.parametrize("when", SLOW)
async def test_a_cancelled_call_ends_the_statement_in_the_database_and_leaves_no_file(
    opened: Opener, postgres: Cluster, tmp_path: Path, when: str
) -> None:
    async with opened(statement_timeout_s=300) as engine:
        call = asyncio.create_task(
            engine.call("postgres_admin", {"action": "query", "sql": SLOW[when].format("stop"), "path": "a.csv"})
        )
        await eventually(lambda: asyncio.to_thread(running, postgres, "FETCH"))
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert call.cancelled()
        await eventually(lambda: asyncio.to_thread(lambda: not running(postgres, "FETCH")), deadline_s=20)
    assert not list((tmp_path / "home" / "workspace").iterdir())


async def test_calls_beyond_the_number_of_sessions_wait_and_can_be_cancelled(opened: Opener, postgres: Cluster) -> None:
    sleep = {"action": "query", "sql": "SELECT pg_sleep(300)"}
    async with opened(max_sessions=1) as engine:
        first = asyncio.create_task(engine.call("postgres_admin", sleep))
        await eventually(lambda: asyncio.to_thread(running, postgres, "FETCH"))
        second = asyncio.create_task(engine.call("postgres_admin", sleep))
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        await asyncio.wait({first, second}, timeout=30)
        third = await engine.call("postgres_admin", {"action": "query", "sql": "SELECT 1"})
    assert first.cancelled()
    assert second.cancelled()
    assert third.success


def start(pack: dict[str, Any], home: Path, arguments: dict[str, Any], warm: str = "") -> "subprocess.Popen[str]":
    program = [sys.executable, "-m", "tests.builtin_tools.database.victim_engine"]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        program, cwd=REPOSITORY, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"pack": pack, "home": str(home), "arguments": arguments, "warm": warm}))
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.parametrize("when", SLOW)
def test_a_killed_engine_leaves_no_statement_behind(postgres: Cluster, tmp_path: Path, when: str) -> None:
    limit_s = 300 if "limits" not in when else 10  # its rows are only sent when there are enough of them
    arguments = {"action": "query", "sql": SLOW[when].format("kill"), "path": "a.csv"}
    process = start({"dsn": postgres.reader, "statement_timeout_s": limit_s}, tmp_path, arguments)
    try:
        eventually_sync(lambda: running(postgres, "FETCH"))
    finally:
        process.kill()
        process.wait(20)
    eventually_sync(lambda: not running(postgres, "FETCH"), deadline_s=30)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("kind", "count"), [("csv", 10_000_000), ("parquet", 10_000_000)])
def test_millions_of_rows_are_saved_in_bounded_memory(postgres: Cluster, tmp_path: Path, kind: str, count: int) -> None:
    sql = f"SELECT n, n % 1000 AS customer, 'row number ' || n AS text FROM generate_series(1, {count}) AS n"
    arguments = {"action": "query", "sql": sql, "path": f"all.{kind}", "rows": 5}
    pack = {"dsn": postgres.reader, "statement_timeout_s": 900}
    process = start(pack, tmp_path, arguments, f"warm.{kind}")
    written, _ = process.communicate(timeout=950)
    report = json.loads(written)
    assert not report["error"]
    assert (report["output"]["row_count"], report["output"]["complete"]) == (count, True)
    grown = report["after_kb"] - report["before_kb"]
    print(f"{kind}: {report['output']['bytes']:,} bytes, memory grew by {grown:,} kB to {report['after_kb']:,} kB")
    assert grown < MOST_GROWTH_KB
    assert last_number(tmp_path / "workspace" / f"all.{kind}") == count


def last_number(path: Path) -> int:
    """Return the value of the column n in the last row of a file."""
    if path.suffix == ".parquet":
        file = parquet.ParquetFile(path)
        return int(file.read_row_group(file.num_row_groups - 1, ["n"])["n"][-1].as_py())
    with path.open("rb") as rows:
        rows.seek(-200, os.SEEK_END)
        return int(rows.read().splitlines()[-1].partition(b",")[0])
