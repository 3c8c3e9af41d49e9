"""Finds the rights of a role with which a statement could do more than a read-only transaction permits.

A read-only transaction that is always rolled back prevents changes of tables. It does not prevent effects outside the
transaction: files and programs of the server, other connections, and ending other sessions. Switching to another role
with SET ROLE is no protection either, because a query can undo it with the function `set_config`. Hence the login role
itself must not have these rights, nor any role that it can become.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import Connection

from builtin_tools.database.failures import raise_refused

# Roles that PostgreSQL defines, by the kind of right that they confer.
_SERVER_ROLES = ("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files")
_SIGNAL_ROLES = ("pg_signal_backend", "pg_checkpoint", "pg_maintain", "pg_create_subscription")
# Functions with effects that a rollback does not undo, and that a role may execute although it is no superuser, because
# an extension or an administrator has granted them.
_FUNCTIONS = (
    "dblink", "dblink_connect", "dblink_connect_u", "dblink_exec", "dblink_open", "dblink_send_query",
    "lo_import", "lo_export", "pg_read_file", "pg_read_binary_file", "pg_ls_dir", "pg_stat_file",
    "pg_file_write", "pg_file_read", "pg_file_rename", "pg_file_unlink", "pg_file_sync", "pg_logdir_ls",
    "pg_reload_conf", "pg_rotate_logfile", "pg_switch_wal", "pg_create_restore_point", "pg_promote",
    "pg_wal_replay_pause", "pg_wal_replay_resume", "pg_start_backup", "pg_backup_start",
    "pg_stat_reset", "pg_stat_reset_shared", "pg_stat_reset_single_table_counters", "pg_stat_statements_reset",
    "pg_log_backend_memory_contexts", "pg_logical_emit_message",
)  # fmt: skip
# Executable by every role by default, and harmless: it only writes a message to the write-ahead log.
_TOLERATED = ("pg_logical_emit_message",)

_QUERY: LiteralString = """
WITH mine AS MATERIALIZED (
    SELECT role.oid, role.rolname, role.rolsuper, role.rolcreaterole, role.rolcreatedb, role.rolreplication
    FROM pg_catalog.pg_roles AS role
    WHERE pg_catalog.pg_has_role(session_user, role.oid, 'MEMBER')
)
SELECT kind, pg_catalog.min(what), pg_catalog.count(*) FROM (
    SELECT 'superuser' AS kind, rolname::text AS what FROM mine WHERE rolsuper
    UNION ALL SELECT 'server', rolname FROM mine WHERE rolname = ANY(%(server)s)
    UNION ALL SELECT 'signals', rolname FROM mine WHERE rolname = ANY(%(signals)s)
    UNION ALL SELECT 'roles', rolname FROM mine WHERE rolcreaterole OR rolcreatedb
    UNION ALL SELECT 'replication', rolname FROM mine WHERE rolreplication
    UNION ALL SELECT 'secrets', rolname FROM mine
        WHERE pg_catalog.has_table_privilege(mine.oid, 'pg_catalog.pg_authid', 'SELECT')
    UNION ALL SELECT 'functions', function.oid::pg_catalog.regprocedure::text
        FROM pg_catalog.pg_proc AS function
        JOIN pg_catalog.pg_language AS language ON language.oid = function.prolang
        WHERE function.proname = ANY(%(functions)s)
          AND (language.lanname IN ('c', 'internal') OR function.prosecdef) -- others only call functions of this list
          AND EXISTS (SELECT FROM mine
                      WHERE pg_catalog.has_function_privilege(mine.oid, function.oid, 'EXECUTE'))
    UNION ALL SELECT 'writes', relation.oid::pg_catalog.regclass::text
        FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE %(writes)s AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
          AND space.nspname NOT LIKE 'pg\\_%%' AND space.nspname <> 'information_schema'
          AND EXISTS (SELECT FROM mine
                      WHERE pg_catalog.has_table_privilege(mine.oid, relation.oid, 'DELETE, TRUNCATE')
                         OR pg_catalog.has_any_column_privilege(mine.oid, relation.oid, 'INSERT, UPDATE'))
) AS found
GROUP BY kind
ORDER BY kind
"""
_MEANING = {
    "superuser": "is a superuser, or can become one ({what})",
    "server": "can use files or programs of the database's machine ({what})",
    "signals": "can end other sessions or start background work ({what})",
    "roles": "can create roles or databases ({what})",
    "replication": "can replicate ({what})",
    "functions": "can execute functions with effects that a rollback does not undo ({what})",
    "secrets": "can read the password hashes of all roles ({what})",
    "writes": "can change tables ({what})",
}
_NEVER = ("superuser", "server")
READER_SQL = (
    "CREATE ROLE knackbox_reader LOGIN PASSWORD '…'; GRANT USAGE ON SCHEMA public TO knackbox_reader; "
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO knackbox_reader"
)


@dataclass(frozen=True, slots=True)
class Right:
    """A right that goes beyond reading.

    Attributes:
        kind: A key of `_MEANING`.
        what: One example, such as the name of a table or function.
        count: Number of such things.
    """

    kind: str
    what: str
    count: int

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return _MEANING[self.kind].format(what=f"{self.what}{more}")


def excessive_rights(connection: "Connection[tuple[object, ...]]", *, writing: bool = False) -> list[Right]:
    """Return the rights of the session's role that go beyond reading or, if it writes, beyond changing data."""
    functions = [name for name in _FUNCTIONS if name not in _TOLERATED]
    parameters = {
        "server": list(_SERVER_ROLES),
        "signals": list(_SIGNAL_ROLES),
        "functions": functions,
        "writes": not writing,
    }
    rows = connection.execute(_QUERY, parameters).fetchall()
    rights = [Right(str(kind), str(what), int(str(count))) for kind, what, count in rows]
    alone = [right for right in rights if right.kind == "superuser"]
    return alone or rights  # a superuser has all the others, too


def refuse_excessive_rights(
    connection: "Connection[tuple[object, ...]]", accepted: Sequence[str], *, writing: bool = False
) -> None:
    """Refuse to run an agent's statements with a role that has too many rights.

    Args:
        connection: The session.
        accepted: The kinds of rights that a person has accepted. Those of superusers are always refused.
        writing: Whether the role is the one that may change data.

    Raises:
        ToolFailure: The role has such rights (FATAL).
    """
    found = [
        right
        for right in excessive_rights(connection, writing=writing)
        if right.kind in _NEVER or right.kind not in accepted
    ]
    if not found:
        return
    text = "; it ".join(map(str, found))
    if writing:
        remedy = "A person can set write_dsn to a role that only has rights on the tables it may change."
    else:
        remedy = f"A person can create a role that can only read and use it in the DSN: {READER_SQL}."
    raise_refused(f"Nothing was run: the role of the DSN {text}. {remedy}", "role_has_rights")
