"""Defines the structured output of each action of `postgres_admin`."""

from typing_extensions import TypedDict

from builtin_tools.database.cells import Cell


class QueryOutput(TypedDict):
    """The output of query.

    Attributes:
        rows: The first rows. Values of types that JSON does not have are texts.
        row_count: The number of rows that were read.
        complete: Whether the query has no further rows than those in the file or, without a file, in `rows`.
        path: The file that was written; empty for none.
        bytes: The size of the file.
    """

    columns: list[str]
    rows: list[list[Cell]]
    row_count: int
    complete: bool
    path: str
    bytes: int


class SchemaOutput(TypedDict):
    """The output of schema.

    Attributes:
        tables: The names of the tables and views that match.
        shown: How many of them are described in `ddl`.
    """

    ddl: str
    tables: list[str]
    shown: int


class ExplainOutput(TypedDict):
    """The output of explain.

    Attributes:
        executed: Whether the statement was executed, in a transaction that was rolled back.
    """

    plan: str
    executed: bool


class SessionRow(TypedDict):
    """A session of the database. Durations are in seconds.

    Attributes:
        state_s: For how long it has been in this state.
        transaction_s: For how long its transaction has been open; None without a transaction.
        waits_for: The lock that it waits for; empty for none.
        blocked_by: The process ids of the sessions that it waits for.
    """

    pid: int
    user: str
    application: str
    state: str
    state_s: float
    transaction_s: float | None
    waits_for: str
    blocked_by: list[int]
    statement: str


class ActivityOutput(TypedDict):
    """The output of activity.

    Attributes:
        total: The number of sessions. If there are many, `sessions` contains only the longest.
    """

    sessions: list[SessionRow]
    total: int


class ExecuteOutput(TypedDict):
    """The output of execute.

    Attributes:
        command: What the database reports, such as ``UPDATE 3``.
        rows_affected: The number of changed rows; None for a statement that does not change single rows.
    """

    command: str
    rows_affected: int | None
