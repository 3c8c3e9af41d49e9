"""Attempts to write to a database, or to escape from it, through statements that should only read."""

from dataclasses import dataclass

# What an administrator has left in the database: functions that change data, some under false pretences.
SETTING = """
CREATE FUNCTION public.erase() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN DELETE FROM public.orders; RETURN 1; END $$;
CREATE FUNCTION public.erase_as_owner() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN DELETE FROM public.orders; RETURN 1; END $$;
CREATE FUNCTION public.erase_immutably() RETURNS int LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER AS
    $$ BEGIN DELETE FROM public.orders; RETURN 1; END $$;
CREATE FUNCTION public.erase_read_write() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM public.orders; RETURN 1; END $$;
CREATE FUNCTION public.erase_in_subtransaction() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN
        BEGIN PERFORM set_config('transaction_read_only', 'off', true); DELETE FROM public.orders;
        EXCEPTION WHEN division_by_zero THEN NULL; END;
        RETURN 1;
    END $$;
CREATE PROCEDURE public.erase_and_commit() LANGUAGE plpgsql AS
    $$ BEGIN COMMIT; DELETE FROM public.orders; COMMIT; END $$;
CREATE MATERIALIZED VIEW public.totals AS SELECT count(*) AS orders, random() AS seed FROM public.orders;
SELECT lo_from_bytea(424242, 'planted');
CREATE EXTENSION dblink;
CREATE EXTENSION adminpack;
DO $$ DECLARE each regprocedure; BEGIN
    FOR each IN SELECT oid FROM pg_proc WHERE proname LIKE 'dblink%' LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', each);
    END LOOP;
END $$;
"""

# Everything that an attempt could change. Two equal results mean that nothing has happened.
STATE = """
SELECT (SELECT md5(string_agg(o::text, '|' ORDER BY o.id)) FROM public.orders AS o),
       (SELECT md5(string_agg(c::text, '|' ORDER BY c.id)) FROM public.customers AS c),
       (SELECT md5(string_agg(t::text, '|')) FROM public.totals AS t),
       (SELECT md5(string_agg(concat_ws(',', relname, relkind, relacl, relnatts, reltuples), '|' ORDER BY oid))
        FROM pg_class WHERE relnamespace <> 'pg_toast'::regnamespace),
       (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_extension),
       (SELECT md5(string_agg(a::text, '|' ORDER BY a.oid)) FROM pg_authid AS a),
       (SELECT md5(string_agg(concat_ws(',', setdatabase, setrole, setconfig), '|')) FROM pg_db_role_setting),
       (SELECT count(*) FROM pg_database), (SELECT count(*) FROM pg_description),
       (SELECT count(*) FROM pg_largeobject_metadata), (SELECT last_value FROM public.numbers),
       (SELECT is_called FROM public.numbers),
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
       (SELECT count(*) FROM pg_locks WHERE relation = 'public.orders'::regclass AND mode <> 'AccessShareLock'),
       (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active'),
       (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim'),
       (SELECT count(*) FROM pg_replication_slots), pg_conf_load_time(), trunc((pg_current_wal_lsn() - '0/0'::pg_lsn) / 16777216),
       (SELECT stats_reset FROM pg_stat_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_file_settings WHERE name = 'work_mem'),
       (SELECT string_agg(name, ',') FROM pg_ls_dir('{folder}') AS name)
"""


@dataclass(frozen=True)
class Attempt:
    """One attempt.

    Attributes:
        what: What it tries.
        sql: The statement. {folder} is a folder that the server may write, {victim} the process id of another session,
            {port} the port of the server.
        harmless: Whether `query` may run it, because its effect ends with the transaction or the session.
        leaks: Whether it tries to read what only an administrator may read, instead of changing something.
        control: Whether it changes the state, or leaks, if a superuser runs it without the tool.
    """

    what: str
    sql: str
    harmless: bool = False
    leaks: bool = False
    control: bool = True


_XML = "SELECT query_to_xml({}, true, false, '')"

ATTEMPTS = (
    Attempt("insert a row", "INSERT INTO customers (name) VALUES ('Eve')"),
    Attempt("update rows", "UPDATE orders SET amount = amount + 1"),
    Attempt("delete rows", "DELETE FROM orders"),
    Attempt("delete rows and return them", "DELETE FROM orders RETURNING id"),
    Attempt("merge rows", "MERGE INTO orders AS o USING orders AS s ON o.id = s.id WHEN MATCHED THEN DELETE"),
    Attempt("truncate a table", "TRUNCATE orders"),
    Attempt("delete inside WITH", "WITH gone AS (DELETE FROM orders RETURNING 1) SELECT * FROM gone"),
    Attempt("insert inside WITH", "WITH new AS (INSERT INTO customers (name) VALUES ('Eve') RETURNING 1) SELECT * FROM new"),
    Attempt("update inside a nested WITH", "WITH a AS (WITH b AS (UPDATE orders SET amount = 0 RETURNING 1) SELECT * FROM b) SELECT * FROM a", control=False),
    Attempt("create a table from a query", "SELECT * INTO stolen FROM orders"),
    Attempt("create a table as a query", "CREATE TABLE stolen_too AS SELECT * FROM orders"),
    Attempt("create a table", "CREATE TABLE planted (id int)"),
    Attempt("create a temporary table", "CREATE TEMP TABLE planted_temp (id int)"),
    Attempt("create a temporary table from a query", "SELECT 1 AS one INTO TEMP planted_query"),
    Attempt("drop a view", "DROP VIEW paid_orders"),
    Attempt("add a column", "ALTER TABLE customers ADD COLUMN planted int"),
    Attempt("create an index", "CREATE INDEX planted_index ON orders (amount)"),
    Attempt("create a view", "CREATE VIEW planted_view AS SELECT 1 AS one"),
    Attempt("create a function", "CREATE FUNCTION planted() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
    Attempt("refresh a materialized view", "REFRESH MATERIALIZED VIEW totals"),
    Attempt("change a comment", "COMMENT ON TABLE orders IS 'planted'"),
    Attempt("create a superuser", "CREATE ROLE evil SUPERUSER LOGIN"),
    Attempt("become a superuser", "ALTER ROLE reader SUPERUSER"),
    Attempt("change the password of its role", "ALTER ROLE reader PASSWORD 'planted'"),
    Attempt("grant itself a right", "GRANT ALL ON orders TO reader"),
    Attempt("change the settings of its role", "ALTER ROLE reader SET work_mem = '1GB'"),
    Attempt("create an extension", "CREATE EXTENSION file_fdw"),
    Attempt("create a database", "CREATE DATABASE planted"),
    Attempt("change a setting of the server", "ALTER SYSTEM SET work_mem = '64MB'"),
    Attempt("run a second statement", "SELECT 1; DELETE FROM orders"),
    Attempt("run a second statement after a comment", "SELECT 1 /* ; */ ; -- ;\nDELETE FROM orders"),
    Attempt("end the transaction first", "COMMIT; DELETE FROM orders"),
    Attempt("end the transaction within", "SELECT 1; COMMIT; BEGIN READ WRITE; DELETE FROM orders; COMMIT"),
    Attempt("end the transaction and chain a new one", "ROLLBACK AND CHAIN; DELETE FROM orders", control=False),
    Attempt("make the transaction writable", "SET TRANSACTION READ WRITE; DELETE FROM orders"),
    Attempt("make later transactions writable", "SET default_transaction_read_only = off", control=False),
    Attempt("make the transaction writable with a function", "SELECT set_config('transaction_read_only', 'off', true), " + _XML.format("'DELETE FROM orders RETURNING 1'")[7:], control=False),
    Attempt("become another role", "SET ROLE postgres", control=False),
    Attempt("become another user", "SET SESSION AUTHORIZATION postgres", control=False),
    Attempt("become another role with a function, and read a file", "SELECT set_config('role', 'postgres', false), " + _XML.format("$$SELECT pg_read_file('{folder}/secret')$$")[7:], leaks=True),
    Attempt("become another user with a function", "SELECT set_config('session_authorization', 'postgres', false), pg_read_file('{folder}/secret')", leaks=True),
    Attempt("delete with dynamic SQL", _XML.format("'DELETE FROM orders RETURNING 1'"), control=False),
    Attempt("drop with dynamic SQL", _XML.format("'DROP TABLE orders CASCADE'"), control=False),
    Attempt("delete in a cursor of dynamic SQL", "SELECT cursor_to_xml('knackbox_query', 1, true, false, ''), erase()", control=False),
    Attempt("call a function that deletes", "SELECT erase()"),
    Attempt("call a function that deletes with its owner's rights", "SELECT erase_as_owner()"),
    Attempt("call a function that pretends to be immutable", "SELECT * FROM orders WHERE id = erase_immutably()", control=False),
    Attempt("call a function that makes the transaction writable", "SELECT erase_read_write()", control=False),
    Attempt("call a function that tries it in a subtransaction", "SELECT erase_in_subtransaction()"),
    Attempt("call a procedure that commits", "CALL erase_and_commit()"),
    Attempt("run a block of code", "DO $$ BEGIN DELETE FROM orders; END $$"),
    Attempt("advance a sequence", "SELECT nextval('numbers')"),
    Attempt("set a sequence", "SELECT setval('numbers', 1000)"),
    Attempt("run a program with COPY", "COPY (SELECT 1) TO PROGRAM 'touch {folder}/escaped-1'"),
    Attempt("run a program to read with COPY", "COPY customers (name) FROM PROGRAM 'echo Eve; touch {folder}/escaped-2'"),
    Attempt("write a file with COPY", "COPY orders TO '{folder}/escaped-3'"),
    Attempt("load a file with COPY", "COPY customers (name) FROM '{folder}/secret'"),
    Attempt("load rows from the client with COPY", "COPY customers (name) FROM STDIN", control=False),
    Attempt("send rows to the client with COPY", "COPY orders TO STDOUT", control=False),
    Attempt("write a file from a large object", "SELECT lo_export(424242, '{folder}/escaped-4')"),
    Attempt("load a file into a large object", "SELECT lo_import('{folder}/secret')"),
    Attempt("create a large object", "SELECT lo_create(0)", harmless=True),
    Attempt("write a large object", "SELECT lo_from_bytea(0, 'planted')", harmless=True),
    Attempt("write a file with adminpack", "SELECT pg_file_write('{folder}/escaped-5', 'planted', false)"),
    Attempt("read a file", "SELECT pg_read_file('{folder}/secret')", leaks=True),
    Attempt("read a binary file", "SELECT encode(pg_read_binary_file('{folder}/secret'), 'escape')", leaks=True),
    Attempt("list a folder", "SELECT pg_ls_dir('{folder}')", leaks=True, control=False),
    Attempt("read the hashes of passwords", "SELECT 'secret-of-the-server' FROM pg_authid", leaks=True),
    Attempt("connect to the server again", "SELECT dblink_exec('host=127.0.0.1 port={port} user=postgres password={password} dbname={database}', 'DELETE FROM orders')"),
    Attempt("query over a connection to the server", "SELECT * FROM dblink('host=127.0.0.1 port={port} user=postgres password={password} dbname={database}', 'DELETE FROM orders RETURNING 1') AS t(one int)"),
    Attempt("cancel the statement of another session", "SELECT pg_cancel_backend({victim})"),
    Attempt("end another session", "SELECT pg_terminate_backend({victim})"),
    Attempt("reload the configuration", "SELECT pg_reload_conf()"),
    Attempt("switch the write-ahead log", "SELECT pg_switch_wal()"),
    Attempt("reset statistics", "SELECT pg_stat_reset()"),
    Attempt("create a replication slot", "SELECT pg_create_physical_replication_slot('planted')"),
    Attempt("hold an advisory lock", "SELECT pg_advisory_lock(42)", harmless=True),
    Attempt("hold an advisory lock that it tries to get", "SELECT pg_try_advisory_lock_shared(43)", harmless=True),
    Attempt("lock a table", "BEGIN; LOCK TABLE orders IN SHARE MODE"),
    Attempt("lock rows", "SELECT * FROM orders FOR UPDATE", control=False),
    Attempt("notify other sessions", "NOTIFY planted, 'hello'"),
    Attempt("notify other sessions with a function", "SELECT pg_notify('planted', 'hello')", harmless=True),
    Attempt("listen", "LISTEN planted", control=False),
    Attempt("prepare a statement", "PREPARE planted AS DELETE FROM orders", control=False),
    Attempt("run a prepared statement", "EXECUTE planted", control=False),
    Attempt("hold a cursor of its own", "DECLARE planted CURSOR WITH HOLD FOR SELECT 1", control=False),
    Attempt("vacuum", "VACUUM orders", control=False),
    Attempt("analyze with a deletion", "ANALYZE DELETE FROM orders", control=False),
    Attempt("add an option of EXPLAIN", "(ANALYZE) DELETE FROM orders", control=False),
    Attempt("explain and execute a deletion", "EXPLAIN ANALYZE DELETE FROM orders"),
)  # fmt: skip
