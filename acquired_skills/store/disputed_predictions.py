"""`DisputedPredictions`: stores predictions that differed from the results of a proposal's code (GATE-1).

If the author then changes such a prediction to agree with the code, that proves little. For example, after a dispute
over a yes or a no, only one answer is left. So admission needs the earlier predictions when the author proposes the
skill again.
"""

import json
from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, delete, insert, select

from acquired_skills.model.prediction import MOST_CHARS, Prediction
from engine.stores.records import Records

MOST_KEPT = 200  # maximum number of predictions for one name; older ones are deleted

_SCHEMA = MetaData()
_DISPUTED = Table(
    "skill_disputed_predictions",
    _SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("name", String(63), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("checks", Text, nullable=False),
    Index("skill_disputed_predictions_by_name", "name"),
)


class DisputedPredictions:
    """Stores disputed predictions in a table, by the name of the proposed skill. Every method blocks."""

    def __init__(self, records: Records) -> None:
        """Create the table if it is missing."""
        self._records = records
        records.create(_SCHEMA)

    def keep(self, name: str, disputed: Sequence[Prediction]) -> None:
        """Store predictions, and delete the oldest ones above the limit."""
        rows = [
            {"name": name, "arguments": json.dumps(dict(each.arguments)), "checks": json.dumps(dict(each.checks))}
            for each in disputed
        ]
        rows = [row for row in rows if len(row["arguments"]) + len(row["checks"]) <= 2 * MOST_CHARS]
        if not rows:
            return
        of = _DISPUTED.c.name == name
        with self._records.begin() as connection:
            connection.execute(insert(_DISPUTED), rows)
            newest = select(_DISPUTED.c.id).where(of).order_by(_DISPUTED.c.id.desc())
            too_old = connection.execute(newest.offset(MOST_KEPT).limit(1)).scalar()
            if too_old is not None:
                connection.execute(delete(_DISPUTED).where(of & (_DISPUTED.c.id <= too_old)))

    def of(self, name: str) -> list[Prediction]:
        """Return the disputed predictions for the skill of this name, oldest first."""
        with self._records.read() as connection:
            rows = list(connection.execute(select(_DISPUTED).where(_DISPUTED.c.name == name).order_by(_DISPUTED.c.id)))
        return [Prediction(json.loads(row.arguments), json.loads(row.checks)) for row in rows]

    def forget(self, name: str) -> None:
        """Delete the predictions for the skill of this name, after the skill was admitted."""
        with self._records.begin() as connection:
            connection.execute(delete(_DISPUTED).where(_DISPUTED.c.name == name))
