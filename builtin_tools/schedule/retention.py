"""Deletes the oldest instants of a job, so that its history does not grow without limit."""

from sqlalchemy import Connection, delete, func, select, update

from builtin_tools.schedule.tables import INSTANTS, JOBS
from engine.contract.scheduler import InstantState

KEPT = 1_000  # instants of a job
TIDY = 100  # old instants are deleted once in so many


def delete_old(connection: Connection, job_id: str, kept: int = KEPT) -> None:
    """Delete the oldest instants of a job, which have ended. They never get rows again."""
    of_job = INSTANTS.c.job == job_id
    oldest = select(INSTANTS.c.instant).where(of_job).order_by(INSTANTS.c.instant.desc()).offset(kept - 1).limit(1)
    bound = connection.execute(oldest).scalar()
    if bound is None:
        return
    over = INSTANTS.c.state.not_in((InstantState.DUE.value, InstantState.CLAIMED.value))
    old = of_job & (INSTANTS.c.instant < bound) & over
    last = connection.execute(select(func.max(INSTANTS.c.instant)).where(old & ~INSTANTS.c.manual)).scalar()
    if last is not None:
        connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(settled=func.max(JOBS.c.settled, last)))
    connection.execute(delete(INSTANTS).where(old))
