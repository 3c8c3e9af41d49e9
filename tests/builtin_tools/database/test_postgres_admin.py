"""`postgres_admin` reads, describes, explains and, if a person has allowed it, changes a real PostgreSQL database."""

import csv
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyarrow import parquet

from engine import Engine
from engine.app.people import People
from engine.contract.failure import FailureClass
from engine.contract.turn import Turn
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from tests.builtin_tools.database.cluster import Cluster
from tests.builtin_tools.database.conftest import Opener

pytestmark = [pytest.mark.services, pytest.mark.spec("TOOL-12")]


class Person:
    """Approves or refuses every request, after doing something else."""

    def __init__(self, *, approves: bool = True, first: Any = None) -> None:
        self.asked: list[ApprovalRequest] = []
        self._approves = approves
        self._first = first

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        if self._first is not None:
            self._first()
        return ApprovalAnswer(approved=self._approves, digest=request.digest, by="Ada")


async def call(engine: Engine, action: str, **arguments: Any) -> Any:
    return await engine.call("postgres_admin", {"action": action, **arguments})


def workspace(tmp_path: Path) -> Path:
    return tmp_path / "home" / "workspace"


async def test_a_query_returns_its_first_rows_with_types_and_as_an_aligned_table(opened: Opener) -> None:
    sql = "SELECT id, amount, status = 'paid' AS paid, NULL AS nothing, 0.5::float8 AS half FROM orders ORDER BY id"
    async with opened() as engine:
        result = await call(engine, "query", sql=sql, rows=3)
    assert result.output["columns"] == ["id", "amount", "paid", "nothing", "half"]
    assert result.output["rows"][2] == [3, "3.00", True, None, 0.5]
    assert result.output["complete"] is False
    lines = result.text.splitlines()
    assert lines[0] == "id | amount | paid  | nothing | half"
    assert lines[4] == " 3 | 3.00   | true  |    NULL |  0.5"
    assert "Set `path` to save all rows" in lines[-1]


async def test_a_value_with_line_ends_and_escape_sequences_stays_on_its_line(opened: Opener) -> None:
    async with opened() as engine:
        result = await call(engine, "query", sql="SELECT E'a\\nb\\x1b[2J' AS text")
    assert result.text.splitlines()[2] == r"a\nb\x1b[2J"


async def test_all_rows_are_saved_as_csv_in_which_null_and_the_empty_text_differ(
    opened: Opener, tmp_path: Path
) -> None:
    sql = """SELECT n, CASE n WHEN 1 THEN NULL WHEN 2 THEN '' WHEN 3 THEN E'a,"b"\\nc' ELSE 'ä' END AS t
             FROM generate_series(1, 500) AS n"""
    async with opened() as engine:
        result = await call(engine, "query", sql=sql, path="out/all.csv", rows=1)
    data = (workspace(tmp_path) / "out" / "all.csv").read_text("utf-8")
    assert data.startswith('n,t\n1,\n2,""\n3,"a,""b""\nc"\n4,ä\n')
    assert len(list(csv.reader(data.splitlines(keepends=True)))) == 501
    assert (result.output["row_count"], result.output["complete"], result.output["path"]) == (500, True, "out/all.csv")
    assert result.side_effects == ("created:out/all.csv",)


async def test_all_rows_are_saved_as_parquet_with_types(opened: Opener, tmp_path: Path) -> None:
    sql = """SELECT n::int4 AS n, n, n / 2.0::float8 AS f, n % 2 = 0 AS even, date '2026-01-01' + n AS day, bytea '\\x00ff' AS raw,
             timestamptz '2026-01-01 00:00+01' AS at, n::numeric AS exact, ARRAY[n] AS list FROM generate_series(1, 3) AS n"""
    async with opened() as engine:
        result = await call(engine, "query", sql=sql, path="all.parquet")
    assert result.success, result.text
    table = parquet.read_table(workspace(tmp_path) / "all.parquet")
    assert table.column_names == ["n", "n_2", "f", "even", "day", "raw", "at", "exact", "list"]
    first = table.to_pylist()[0]
    assert (first["n"], first["f"], first["even"], first["raw"], first["exact"], first["list"]) == (
        1, 0.5, False, b"\x00\xff", "1", "{1}",
    )  # fmt: skip
    assert first["at"].isoformat() == "2025-12-31T23:00:00+00:00"


async def test_a_value_that_parquet_cannot_hold_is_a_failure_and_leaves_no_file(opened: Opener, tmp_path: Path) -> None:
    async with opened() as engine:
        result = await call(engine, "query", sql="SELECT 'infinity'::timestamp AS at", path="at.parquet")
    assert result.failure.reason == "not_storable"
    assert "use `.csv`" in result.text
    assert not list(workspace(tmp_path).iterdir())


async def test_a_query_with_more_rows_than_the_limit_is_reported_as_incomplete(opened: Opener) -> None:
    async with opened(max_rows=10) as engine:
        result = await call(engine, "query", sql="SELECT * FROM orders", path="some.csv")
    assert (result.output["row_count"], result.output["complete"]) == (10, False)
    assert "The file is incomplete" in result.text


async def test_a_file_stops_at_its_size_limit(opened: Opener, tmp_path: Path) -> None:
    sql = "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"
    async with opened(max_file_bytes=100_000) as engine:
        result = await call(engine, "query", sql=sql, path="big.csv")
    assert result.output["complete"] is False
    assert 100_000 < (workspace(tmp_path) / "big.csv").stat().st_size < 103_000


async def test_a_row_that_is_too_large_ends_the_query(opened: Opener, tmp_path: Path) -> None:
    async with opened(max_row_bytes=10_000) as engine:
        result = await call(engine, "query", sql="SELECT repeat('x', 20000)", path="big.csv")
    assert result.failure.reason == "row_too_large"
    assert not list(workspace(tmp_path).iterdir())


async def test_a_statement_that_is_too_slow_is_ended_by_the_database(opened: Opener) -> None:
    async with opened(statement_timeout_s=0.2) as engine:
        result = await call(engine, "query", sql="SELECT pg_sleep(60)")
        # The timer runs already when the statement changes the setting.
        sly = await call(engine, "query", sql="SELECT set_config('statement_timeout', '0', false), pg_sleep(60)")
        rows = "SELECT set_config('statement_timeout', '0', false), pg_sleep(0.1) FROM generate_series(1, 600)"
        slow_rows = await call(engine, "query", sql=rows, path="rows.csv")
    assert [each.failure.reason for each in (result, sly, slow_rows)] == ["timeout"] * 3


async def test_an_error_in_a_statement_shows_the_place(opened: Opener) -> None:
    async with opened() as engine:
        result = await call(engine, "query", sql="SELECT id,\n  nam\nFROM customers")
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC
    assert 'column "nam" does not exist' in result.error
    assert "line 2, at 'nam FROM customers'" in result.error


async def test_the_schema_is_compact_ddl_with_sizes_indexes_and_comments(opened: Opener) -> None:
    async with opened() as engine:
        result = await call(engine, "schema", name="orders")
        others = await call(engine, "schema", name="public.c*")
        none = await call(engine, "schema", name="100%")
    assert "public.orders: table, about" in result.text
    for part in (
        "id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,",
        "status status DEFAULT 'new'::status,",
        "CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES customers(id)",
        "CONSTRAINT orders_amount_check CHECK (amount >= 0::numeric)",
        "CREATE INDEX orders_by_customer ON public.orders USING btree (customer_id);  -- ",
        "CREATE TYPE status AS ENUM ('new', 'paid', 'sent');",
    ):
        assert part in result.text
    assert others.output["tables"] == ["public.customers"]
    assert "Who buys." in others.text
    assert "email text,  -- Checked at registration." in others.text
    assert none.text == "No table or view matches '100%'."


async def test_a_large_schema_is_bounded_and_names_the_other_tables(opened: Opener, postgres: Cluster) -> None:
    made = "DO $$ BEGIN FOR n IN 1..300 LOOP EXECUTE format('CREATE TABLE many.table_%s (id int, name text)', n); END LOOP; END $$"
    postgres.run("CREATE SCHEMA many", made)
    try:
        async with opened() as engine:
            result = await call(engine, "schema", name="many.*")
    finally:
        postgres.run("DROP SCHEMA many CASCADE")
    assert len(result.text) < 16_000
    assert len(result.output["tables"]) == 300
    assert f"[{result.output['shown']} of 300 described" in result.text


async def test_a_plan_is_shown_and_measured_if_asked_for(opened: Opener) -> None:
    async with opened() as engine:
        plan = await call(engine, "explain", sql="SELECT * FROM orders WHERE customer_id = 3")
        measured = await call(engine, "explain", sql="SELECT * FROM orders WHERE customer_id = 3", analyze=True)
    assert "Scan" in plan.text
    assert "actual time" not in plan.text
    assert plan.output["executed"] is False
    assert "actual time" in measured.text
    assert measured.output["executed"] is True


async def test_activity_shows_which_session_blocks_which(opened: Opener, postgres: Cluster) -> None:
    blocker = psycopg.connect(postgres.writer, application_name="web")
    waiter = psycopg.connect(postgres.writer, application_name="report")
    try:
        blocker.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        waiter.pgconn.send_query(b"SELECT count(*) FROM orders")
        async with opened() as engine:
            result = await call(engine, "activity")
            while f"└── {waiter.info.backend_pid}" not in result.text:  # ends with the timeout of the test
                result = await call(engine, "activity")
    finally:
        blocker.close()
        waiter.close()
    lines = result.text.splitlines()
    assert lines[0] == "Blocked sessions, each below the one that it waits for:"
    assert lines[1].startswith(f"  {blocker.info.backend_pid if not blocker.closed else ''}"[:2])
    assert "(web): idle in transaction for" in lines[1]
    assert "(report): waits for AccessShareLock on orders, active for" in lines[2]
    assert lines[2].endswith("SELECT count(*) FROM orders")


async def test_without_a_dsn_the_tool_is_not_listed_and_a_call_says_what_to_do(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}) as engine:
        listed = [spec.name for spec in await engine.get_active_tool_definitions(Turn())]
        result = await call(engine, "activity")
    assert "postgres_admin" not in listed
    assert result.failure.reason == "not_configured"


async def test_with_a_dsn_the_tool_is_listed_without_execute(opened: Opener) -> None:
    async with opened() as engine:
        specs = {spec.name: spec for spec in await engine.get_active_tool_definitions(Turn())}
        refused = await call(engine, "execute", sql="DELETE FROM orders")
    assert specs["postgres_admin"].parameters["properties"]["action"]["enum"] == [
        "query",
        "schema",
        "explain",
        "activity",
    ]
    assert not specs["postgres_admin"].annotations.destructive
    assert "execute(sql)" not in specs["postgres_admin"].description
    assert refused.failure.reason == "invalid_arguments"


@pytest.mark.parametrize(
    ("grant", "says"),
    [
        ("GRANT UPDATE (name) ON customers TO reader", "can change tables (customers)"),
        ("GRANT pg_read_server_files TO reader", "can use files or programs of the database's machine"),
        ("GRANT pg_signal_backend TO reader", "can end other sessions"),
        ("GRANT EXECUTE ON FUNCTION pg_reload_conf() TO reader", "can execute functions"),
        ("GRANT pg_read_all_data TO reader", "can read the password hashes"),
        ("ALTER ROLE reader CREATEROLE", "can create roles"),
        ("ALTER ROLE reader NOINHERIT; GRANT writer TO reader", "can change tables"),
        ("ALTER ROLE reader NOINHERIT; GRANT postgres TO reader", "is a superuser, or can become one"),
    ],
)
async def test_a_role_with_more_rights_than_reading_runs_no_statement_of_an_agent(
    opened: Opener, postgres: Cluster, grant: str, says: str
) -> None:
    undo = {
        "GRANT": grant.rpartition("; ")[2].replace("GRANT", "REVOKE").replace(" TO ", " FROM "),
        "ALTER": "ALTER ROLE reader NOCREATEROLE",
    }
    postgres.run(grant)
    try:
        async with opened() as engine:
            result = await call(engine, "query", sql="SELECT 1")
            explained = await call(engine, "explain", sql="SELECT 1")
            described = await call(engine, "schema")
    finally:
        postgres.run(undo["GRANT" if "GRANT" in grant else "ALTER"], "ALTER ROLE reader INHERIT")
    assert (result.failure.reason, explained.failure.reason) == ("role_has_rights", "role_has_rights")
    assert says in result.error
    assert "CREATE ROLE knackbox_reader" in result.error
    assert described.success  # runs only our own statements


async def test_a_superuser_is_refused_even_if_everything_is_accepted(opened: Opener, postgres: Cluster) -> None:
    everything = ["writes", "functions", "roles", "replication", "signals", "secrets"]
    writes = {"allow_writes": True, "write_dsn": postgres.superuser}
    async with opened(
        dsn=postgres.superuser, accept_rights=everything, people=People(approver=Person()), **writes
    ) as engine:
        result = await call(engine, "query", sql="SELECT 1")
        executed = await call(engine, "execute", sql="SELECT 1")
    assert result.failure.reason == executed.failure.reason == "role_has_rights"


async def test_execute_shows_the_statement_and_the_rows_and_changes_them_after_approval(
    opened: Opener, postgres: Cluster
) -> None:
    person = Person(first=lambda: counts.append(postgres.value(paid)))
    paid, counts = "SELECT count(*) FROM orders WHERE status = 'sent'", list[int]()
    sql = "UPDATE orders SET status = 'sent' WHERE id <= 7"
    async with opened(people=People(approver=person), allow_writes=True, write_dsn=postgres.writer) as engine:
        spec = {spec.name: spec for spec in await engine.get_active_tool_definitions(Turn())}["postgres_admin"]
        result = await call(engine, "execute", sql=sql)
    assert spec.annotations.destructive
    assert (result.success, result.output) == (True, {"command": "UPDATE 7", "rows_affected": 7})
    [asked] = person.asked
    assert asked.arguments == {
        "action": "execute", "sql": sql, "rows_affected": 7, "database": "shop", "role": "writer",
    }  # fmt: skip
    assert counts == [0]  # nothing was kept before the approval
    assert postgres.value(paid) == 7
    postgres.run("UPDATE orders SET status = 'new' WHERE status = 'sent'")


@pytest.mark.parametrize("mode", ["off", "destructive"])
async def test_execute_changes_nothing_without_approval(opened: Opener, postgres: Cluster, mode: str) -> None:
    writes = {"allow_writes": True, "write_dsn": postgres.writer}
    person = Person(approves=False)
    before = postgres.value("SELECT count(*) FROM orders")
    async with opened(people=People(approver=person), **writes) as engine:
        refused = await call(engine, "execute", sql="DELETE FROM orders")
    async with opened(**writes) as engine:
        unanswered = await call(engine, "execute", sql="DELETE FROM orders")
    assert refused.failure.reason == unanswered.failure.reason == "not_approved"
    assert len(person.asked) == 1
    assert postgres.value("SELECT count(*) FROM orders") == before


async def test_a_change_that_affects_other_rows_than_approved_is_rolled_back(opened: Opener, postgres: Cluster) -> None:
    person = Person(first=lambda: postgres.run("INSERT INTO customers (name) VALUES ('Eve')"))
    async with opened(people=People(approver=person), allow_writes=True, write_dsn=postgres.writer) as engine:
        result = await call(engine, "execute", sql="UPDATE customers SET email = NULL")
    assert result.failure.reason == "rows_differ"
    assert postgres.value("SELECT count(*) FROM customers WHERE email IS NOT NULL") == 20
    postgres.run("DELETE FROM customers WHERE name = 'Eve'")


async def test_a_statement_without_rows_is_only_parsed_before_the_approval(opened: Opener, postgres: Cluster) -> None:
    person = Person(first=lambda: there.append(postgres.value("SELECT to_regclass('planned')")))
    there: list[Any] = []
    async with opened(people=People(approver=person), allow_writes=True, write_dsn=postgres.writer) as engine:
        made = await call(engine, "execute", sql="CREATE TABLE planned (id int)")
        wrong = await call(engine, "execute", sql="CREATE TABEL planned (id int)")
        two = await call(engine, "execute", sql="DELETE FROM planned; DROP TABLE planned")
        program = await call(engine, "execute", sql="COPY planned TO PROGRAM 'true'")
        vacuum = await call(engine, "execute", sql="VACUUM planned")
        dropped = await call(engine, "execute", sql="DROP TABLE planned")
    assert made.success, made.text
    assert there[0] is None
    assert "not counted" in person.asked[0].arguments["rows_affected"]
    assert wrong.failure.reason == two.failure.reason == "sql_error"
    assert program.failure.reason == "no_right"
    assert (vacuum.success, dropped.success) == (True, True), vacuum.text
    assert len(person.asked) == 4  # not for the two that the server does not accept


async def test_the_measured_plan_of_a_change_needs_the_same_approval_and_changes_nothing(
    opened: Opener, postgres: Cluster
) -> None:
    person = Person()
    before = postgres.value("SELECT count(*) FROM orders")
    async with opened(people=People(approver=person), allow_writes=True, write_dsn=postgres.writer) as engine:
        plan = await call(engine, "explain", sql="DELETE FROM orders")
        assert not person.asked
        measured = await call(engine, "explain", sql="DELETE FROM orders", analyze=True)
    assert "Delete on orders" in plan.text
    assert "actual time" in measured.text
    assert person.asked[0].arguments["rows_affected"] == before
    assert postgres.value("SELECT count(*) FROM orders") == before


async def test_execute_is_refused_in_a_trial(opened: Opener, postgres: Cluster) -> None:
    async with opened(people=People(approver=Person()), allow_writes=True, write_dsn=postgres.writer) as engine:
        result = await engine.call(
            "postgres_admin", {"action": "execute", "sql": "DELETE FROM orders"}, Turn(trial=True)
        )
    assert not result.success
    assert postgres.value("SELECT count(*) FROM orders") == 200


async def test_a_change_that_cannot_get_its_lock_after_the_approval_does_not_ask_again(
    opened: Opener, postgres: Cluster
) -> None:
    blocker = psycopg.connect(postgres.writer)
    person = Person(first=lambda: blocker.execute("LOCK TABLE customers"))
    writes = {"allow_writes": True, "write_dsn": postgres.writer, "lock_timeout_s": 0.2}
    try:
        async with opened(people=People(approver=person), **writes) as engine:
            result = await call(engine, "execute", sql="UPDATE customers SET name = name")
    finally:
        blocker.close()
    assert result.failure.reason == "busy"
    assert "activity shows which one" in result.error
    assert len(person.asked) == 1
