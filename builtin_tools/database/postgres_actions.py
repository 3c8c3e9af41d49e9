"""`PostgresActions`: the actions of `postgres_admin`, each in a database session of its own."""

from collections.abc import Mapping

from builtin_tools.database.activity import activity
from builtin_tools.database.changes import change, measure
from builtin_tools.database.database_actions import MeasuredChange, QueryRequest
from builtin_tools.database.explain import explain_change, explain_query
from builtin_tools.database.outputs import ActivityOutput, ExecuteOutput, ExplainOutput, QueryOutput, SchemaOutput
from builtin_tools.database.query import query
from builtin_tools.database.schema import schema
from builtin_tools.database.sessions import DatabaseSessions
from builtin_tools.database.settings import DatabaseSettings
from engine.contract.context import Produced
from engine.stores.workspace import FolderWorkspace


class PostgresActions:
    """Implements `DatabaseActions` for PostgreSQL."""

    def __init__(self, settings: DatabaseSettings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._sessions = DatabaseSessions(settings, environ)

    async def query(self, request: QueryRequest, folder: FolderWorkspace) -> Produced[QueryOutput]:
        return await self._sessions.read(lambda session: query(session, request, folder))

    async def schema(self, name: str) -> Produced[SchemaOutput]:
        return await self._sessions.read(lambda session: schema(session, name))

    async def activity(self) -> Produced[ActivityOutput]:
        return await self._sessions.read(activity)

    async def explain_query(self, sql: str, *, analyze: bool) -> Produced[ExplainOutput]:
        return await self._sessions.read(lambda session: explain_query(session, sql, analyze=analyze))

    async def explain_change(self, sql: str, *, analyze: bool) -> Produced[ExplainOutput]:
        return await self._sessions.write(lambda session: explain_change(session, sql, analyze=analyze))

    async def measure(self, sql: str) -> MeasuredChange:
        return await self._sessions.write(lambda session: measure(session, sql))

    async def change(self, sql: str, approved: MeasuredChange) -> Produced[ExecuteOutput]:
        return await self._sessions.write(lambda session: change(session, sql, approved))

    async def aclose(self) -> None:
        await self._sessions.aclose()
