"""The action `schema`: describes tables as compact DDL with sizes, indexes, constraints and comments."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from builtin_tools.database.catalog_queries import COLUMNS, CONSTRAINTS, ENUMS, INDEXES, RELATIONS
from builtin_tools.database.cells import one_line
from builtin_tools.database.outputs import SchemaOutput
from builtin_tools.database.query import reading
from builtin_tools.database.sessions import Session
from engine.contract.context import Produced

MAX_TABLES = 1000  # relations that are read
MAX_DDL = 11_000  # characters of the description; below the pipeline's cap of 16 KiB
MAX_COLUMNS = 200  # columns that are described of one table
MAX_NAMES = 200  # names that are listed of tables that are not described
VIEW_LENGTH = 600  # characters of a view's query
COMMENT_LENGTH = 160
_KINDS = {"r": "table", "p": "partitioned table", "v": "view", "m": "materialized view", "f": "foreign table"}
_CREATE = {"v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE"}
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(slots=True)
class _Details:
    columns: dict[int, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    constraints: dict[int, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    indexes: dict[int, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))


def schema(session: Session, name: str) -> Produced[SchemaOutput]:
    """Describe the tables and views whose name matches.

    Args:
        session: The session.
        name: A name, or schema.name, with the wildcards `*` and `?`; "" for all.
    """
    with reading(session):
        connection = session.connection
        relations = connection.execute(RELATIONS, {"pattern": like_pattern(name), "most": MAX_TABLES}).fetchall()
        oids = {"oids": [row[0] for row in relations]}
        details = _Details()
        for statement, target in (
            (COLUMNS, details.columns),
            (CONSTRAINTS, details.constraints),
            (INDEXES, details.indexes),
        ):
            for row in connection.execute(statement, oids):
                target[row[0]].append(row[1:])
        enums = connection.execute(ENUMS, oids).fetchall()
    names = [f"{row[1]}.{row[2]}" for row in relations]
    parts = [f"CREATE TYPE {kind} AS ENUM ({', '.join(map(_literal, labels))});" for kind, labels in enums]
    length, shown = sum(map(len, parts)), 0
    for row in relations:
        text = _described(row, details)
        if shown and length + len(text) > MAX_DDL:
            break
        parts.append(text)
        length += len(text) + 2
        shown += 1
    ddl = "\n\n".join(parts)[: MAX_DDL + VIEW_LENGTH]
    value: SchemaOutput = {"ddl": ddl, "tables": names, "shown": shown}
    return Produced(value, _message(ddl, names, shown, name))


def _message(ddl: str, names: list[str], shown: int, name: str) -> str:
    if not names:
        return f"No table or view matches {name!r}." if name else "The database has no tables or views."
    if shown == len(names):
        return ddl
    rest = names[shown : shown + MAX_NAMES]
    more = f" and {len(names) - shown - len(rest):,} more" if len(names) - shown > len(rest) else ""
    listed = ", ".join(one_line(each) for each in rest)[:2000]
    return f"{ddl}\n\n[{shown} of {len(names):,} described, largest first. Set `name` to see others: {listed}{more}]"


def like_pattern(name: str) -> str:
    """Return a pattern for LIKE from a name with the wildcards `*` and `?`."""
    plain = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return plain.replace("*", "%").replace("?", "_")


def size_text(size: float) -> str:
    """Return a size in bytes with a unit, as PostgreSQL shows it."""
    for unit in _UNITS[:-1]:
        if size < 10 * 1024:  # as pg_size_pretty does: up to five digits before the next unit
            return f"{size:,.0f} {unit}"
        size /= 1024
    return f"{size:,.0f} {_UNITS[-1]}"


def _described(row: tuple[Any, ...], details: _Details) -> str:
    oid, space, name, kind, count, size, indexed, comment, view, partition_key, parent, row_security = row
    full = f"{_identifier(space)}.{_identifier(name)}"
    facts = [_KINDS[kind]]
    if kind in "rm" and count >= 0:
        facts.append(f"about {count:,} rows")
    if kind in "rm":
        facts.append(f"{size_text(size)} and {size_text(indexed)} of indexes")
    if parent:
        facts.append(f"partition of {parent}")
    if row_security:
        facts.append("row-level security")
    lines = [f"-- {full}: {', '.join(facts)}{_comment(comment)}"]
    if view is not None:
        query = " ".join(view.split())
        cut = query if len(query) <= VIEW_LENGTH else f"{query[:VIEW_LENGTH]}…"
        lines.append(f"CREATE {_CREATE[kind]} {full} AS {cut}")
    else:
        columns = details.columns[oid]
        items = [_column(each) for each in columns[:MAX_COLUMNS]]
        items += [(f"CONSTRAINT {_identifier(each[0])} {each[2]}", "") for each in details.constraints[oid]]
        lines.append(f"CREATE {_CREATE.get(kind, 'TABLE')} {full} (")
        lines += [f"  {text}{',' if at < len(items) else ''}{note}" for at, (text, note) in enumerate(items, 1)]
        if len(columns) > MAX_COLUMNS:
            lines.append(f"  -- and {len(columns) - MAX_COLUMNS:,} more columns")
        lines.append(f"){f' PARTITION BY {partition_key}' if partition_key else ''};")
    for definition, index_size, valid in details.indexes[oid]:
        lines.append(f"{definition};  -- {size_text(index_size)}{'' if valid else ', not valid'}")
    return "\n".join(lines)


def _column(row: tuple[Any, ...]) -> tuple[str, str]:
    name, kind, not_null, identity, generated, default, comment = row
    parts = [_identifier(name), kind]
    if not_null:
        parts.append("NOT NULL")
    if identity:
        parts.append(f"GENERATED {'ALWAYS' if identity == 'a' else 'BY DEFAULT'} AS IDENTITY")
    elif generated:
        parts.append(f"GENERATED ALWAYS AS ({default}) STORED")
    elif default is not None:
        parts.append(f"DEFAULT {default}")
    return " ".join(parts), _comment(comment, "  -- ")


def _comment(text: str | None, prefix: str = ". ") -> str:
    return f"{prefix}{one_line(text, COMMENT_LENGTH)}" if text else ""


def _identifier(name: str) -> str:
    """Return a name as it must be written in SQL. Names that are keywords are not recognized."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and not name[0].isdigit()
    return name if plain else '"{}"'.format(one_line(name, 63).replace('"', '""'))


def _literal(text: str) -> str:
    return "'{}'".format(one_line(text, 63).replace("'", "''"))
