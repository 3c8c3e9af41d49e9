"""The tables of ``schedule.db``. All times are instants: milliseconds since 1970-01-01 UTC."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text, literal_column

from engine.contract.scheduler import InstantState

ID = 12  # characters of a job's id
SCHEMA = MetaData()

JOBS = Table(
    "scheduled_jobs",
    SCHEMA,
    Column("id", String(ID), primary_key=True),
    Column("user", Text, nullable=False),
    Column("turn", Text, nullable=False),  # JSON: the creator's turn, whose rights the job has
    Column("request", Text, nullable=False),  # JSON
    Column("trigger", Text, nullable=False),  # JSON
    Column("state", String(10), nullable=False),
    Column("why", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    # The next instant without a row; null if the job is not active.
    Column("next_at", BigInteger),
    # When the earliest due instant may be claimed; null if there is none, or if an instant of the job is claimed.
    Column("ready_at", BigInteger),
    # Instants up to here are settled: none of them gets a row any more.
    Column("settled", BigInteger, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),  # consecutive
)
Index("scheduled_jobs_by_next", JOBS.c.next_at, sqlite_where=JOBS.c.next_at.is_not(None))
Index("scheduled_jobs_by_ready", JOBS.c.ready_at, sqlite_where=JOBS.c.ready_at.is_not(None))
Index("scheduled_jobs_by_user", JOBS.c.user, JOBS.c.created)

INSTANTS = Table(
    "job_instants",
    SCHEMA,
    Column("job", String(ID), primary_key=True),
    Column("instant", BigInteger, primary_key=True),
    Column("state", String(10), nullable=False),
    Column("manual", Boolean, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("deaths", Integer, nullable=False),  # attempts that ended with their worker
    Column("worker", String(32), nullable=False),  # "" if it is not claimed
    Column("repeatable", Boolean, nullable=False),  # whether an attempt that has begun may be repeated
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("reason", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
# Literals, because SQLite uses a partial index only for a query that contains the index's condition literally.
DUE = INSTANTS.c.state == literal_column(f"'{InstantState.DUE.value}'")
CLAIMED = INSTANTS.c.state == literal_column(f"'{InstantState.CLAIMED.value}'")
UNKNOWN = INSTANTS.c.state == literal_column(f"'{InstantState.UNKNOWN.value}'")
Index("job_instants_due", INSTANTS.c.job, INSTANTS.c.due_at, sqlite_where=DUE)
Index("job_instants_claimed", INSTANTS.c.job, INSTANTS.c.worker, sqlite_where=CLAIMED)
Index("job_instants_unknown", INSTANTS.c.job, INSTANTS.c.instant, sqlite_where=UNKNOWN)

CLOCK = Table(  # one row: the latest time up to which instants have got their rows
    "schedule_clock",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    Column("latest", BigInteger, nullable=False),
)
