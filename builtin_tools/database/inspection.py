"""Checks a configured database for `knackbox doctor`."""

from collections.abc import Mapping

import psycopg

from builtin_tools.database.failures import statement_failure
from builtin_tools.database.rights import refuse_excessive_rights
from builtin_tools.database.sessions import Session, connect
from builtin_tools.database.settings import DatabaseSettings, DsnSource

_FACTS = """
SELECT pg_catalog.current_setting('server_version'), session_user::text,
       COALESCE((SELECT s.ssl FROM pg_catalog.pg_stat_ssl AS s WHERE s.pid = pg_catalog.pg_backend_pid()), false)
"""


def inspect_database(
    settings: DatabaseSettings, source: DsnSource, environ: Mapping[str, str], *, writing: bool
) -> str:
    """Connect, check the rights of the role, and return a description of the connection.

    Raises:
        ToolFailure: The database cannot be reached, or the role has too many rights.
    """
    connection = connect(source, environ, settings.connect_timeout_s)
    try:
        session = Session(connection, settings)
        session.begin(read_only=True)
        refuse_excessive_rights(connection, settings.accept_rights, writing=writing)
        row = connection.execute(_FACTS).fetchone()
        session.rollback()
    except psycopg.Error as error:
        failure = statement_failure(error, timeout_s=settings.statement_timeout_s)
    else:
        version, role, encrypted = row or ("", "", False)
        return f"PostgreSQL {version}, role {role}, {'encrypted' if encrypted else 'not encrypted'}"
    finally:
        connection.close()
    raise failure
