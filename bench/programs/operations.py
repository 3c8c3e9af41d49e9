"""The seven operations on each table of `records`, as HTTP modules and MCP servers offer them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.programs.records import MODULES, Row, Tables, fields_of

PAGE = 10  # records of one answer

Parameters = tuple[tuple[str, str, str, bool], ...]
"""For each parameter its name, JSON type, description, and whether it is required."""

_OFFSET = ("offset", "integer", "How many records to skip, for the next page.", False)
_ID = ("id", "integer", "The id of the record.", True)
_FIELD = ("field", "string", "The name of the field.", True)
_VALUE = ("value", "string", "The value of the field, written as text.", True)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on a table.

    Attributes:
        name: The name of the tool, without the module.
        reads: Whether it changes nothing.
    """

    name: str
    verb: str
    table: str
    description: str
    parameters: Parameters
    reads: bool = True


def operations(module: str) -> list[Operation]:
    """Return the operations that a module offers."""
    return [each for table in MODULES[module] for each in _of_table(table)]


def _of_table(table: str) -> list[Operation]:
    one, fields = singular(table), ", ".join(fields_of(table))
    more = f"There are at most {PAGE} in one answer; use `offset` to get the next ones."
    return [
        Operation(f"list_{table}", "list", table, f"List all {table}: `rows` with id and name. {more}", (_OFFSET,)),
        Operation(
            f"find_{table}",
            "find",
            table,
            f"Find {table} by the value of a field: `rows` with {fields}. {more}",
            (_FIELD, _VALUE, _OFFSET),
        ),
        Operation(f"get_{one}", "get", table, f"Return the {one} with an id: {fields}.", (_ID,)),
        Operation(
            f"count_{table}", "count", table, f"Count the {table} with a value in a field: `count`.", (_FIELD, _VALUE)
        ),
        Operation(
            f"create_{one}",
            "create",
            table,
            f"Create a {one} with the given fields ({fields}), and return it with its id.",
            (("fields", "object", "The values of the fields, by name.", True),),
            reads=False,
        ),
        Operation(
            f"update_{one}",
            "update",
            table,
            f"Set a field of a {one}, and return the {one}. The fields are {fields}.",
            (_ID, _FIELD, _VALUE),
            reads=False,
        ),
        Operation(f"delete_{one}", "delete", table, f"Delete a {one} for ever, by id.", (_ID,), reads=False),
    ]


def singular(table: str) -> str:
    """Return the name of one record of a table."""
    return f"{table[:-3]}y" if table.endswith("ies") else table[:-1]


def perform(tables: Tables, operation: Operation, given: Mapping[str, Any]) -> Row:
    """Carry out an operation on the tables, and return what the tool returns.

    Raises:
        LookupError: There is no such record or field.
    """
    rows = tables[operation.table]
    if operation.verb == "create":
        rows.append({"id": max(row["id"] for row in rows) + 1, **given["fields"]})
        return rows[-1]
    if operation.verb in {"list", "find", "count"}:
        return _selected(rows, operation.verb, given)
    row = next((row for row in rows if row["id"] == given["id"]), None)
    if row is None:
        raise LookupError(f"There is no record {given['id']} in {operation.table}.")
    if operation.verb == "update":
        old = row[given["field"]]
        row[given["field"]] = int(given["value"]) if isinstance(old, int) else given["value"]
    if operation.verb == "delete":
        rows.remove(row)
    return row


def _selected(rows: list[Row], verb: str, given: Mapping[str, Any]) -> Row:
    if verb == "list":
        found = [{"id": row["id"], "name": row["name"]} for row in rows]
    else:
        found = [row for row in rows if str(row[given["field"]]) == given["value"]]
    if verb == "count":
        return {"count": len(found)}
    start = given.get("offset", 0)
    return {"rows": found[start : start + PAGE]}
