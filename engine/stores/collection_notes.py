"""`CollectionNotes`: records which embedder made the vectors of each collection, and whether they are complete."""

from sqlalchemy import Column, MetaData, String, Table, delete, select

from engine.stores.records import Records

_SCHEMA = MetaData()
_NOTES = Table(
    "vector_collections",
    _SCHEMA,
    Column("name", String(200), primary_key=True),
    Column("embedder", String(200), nullable=False),
)


class CollectionNotes:
    """Notes on vector collections, stored in the records. Every method blocks. The first note creates the table."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._ready = False

    def made_by(self, collection: str) -> str | None:
        """Return the embedder that made all of a collection's vectors; None if unknown or during a rebuild."""
        self._prepare()
        with self._records.read() as connection:
            found = connection.execute(select(_NOTES.c.embedder).where(_NOTES.c.name == collection)).scalar()
        return None if found is None else str(found)

    def note(self, collection: str, embedder: str | None) -> None:
        """Record the embedder that made all of a collection's vectors; None means that they are incomplete."""
        self._prepare()
        with self._records.begin() as connection:
            connection.execute(delete(_NOTES).where(_NOTES.c.name == collection))
            if embedder is not None:
                connection.execute(_NOTES.insert().values(name=collection, embedder=embedder))

    def _prepare(self) -> None:
        if not self._ready:
            self._records.create(_SCHEMA)
            self._ready = True
