"""`DatabaseActions`: what `postgres_admin` needs of a database.

Its implementation, `PostgresActions`, imports psycopg, which is optional.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from builtin_tools.database.outputs import ActivityOutput, ExecuteOutput, ExplainOutput, QueryOutput, SchemaOutput
from builtin_tools.database.settings import DatabaseSettings
from engine.contract.context import Produced
from engine.stores.workspace import FolderWorkspace


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """The arguments of one query.

    Attributes:
        path: The file to write, relative to the workspace; "" for none.
        shown: Number of rows in the result of the call.
    """

    sql: str
    path: str
    shown: int


@dataclass(frozen=True, slots=True)
class MeasuredChange:
    """What a statement would do.

    Attributes:
        database: The name of the database.
        role: The role that runs it.
        rows: The number of rows that it changed in a rolled-back transaction; None if it does not change single rows.
    """

    database: str
    role: str
    rows: int | None

    @property
    def shown(self) -> int | str:
        """The number of rows, for the approval."""
        return "not counted, because the statement does not change single rows" if self.rows is None else self.rows


@runtime_checkable
class DatabaseActions(Protocol):
    """The actions. All methods raise `ToolFailure` if the database refuses the statement or cannot be reached."""

    @property
    def settings(self) -> DatabaseSettings: ...

    async def query(self, request: QueryRequest, folder: FolderWorkspace) -> Produced[QueryOutput]:
        """Read rows."""
        ...

    async def schema(self, name: str) -> Produced[SchemaOutput]:
        """Describe the tables whose name matches."""
        ...

    async def activity(self) -> Produced[ActivityOutput]:
        """Return the sessions of the database."""
        ...

    async def explain_query(self, sql: str, *, analyze: bool) -> Produced[ExplainOutput]:
        """Explain a query."""
        ...

    async def explain_change(self, sql: str, *, analyze: bool) -> Produced[ExplainOutput]:
        """Explain any statement, with the role for writing."""
        ...

    async def measure(self, sql: str) -> MeasuredChange:
        """Measure a change without keeping it."""
        ...

    async def change(self, sql: str, approved: MeasuredChange) -> Produced[ExecuteOutput]:
        """Make an approved change."""
        ...
