"""`ToolPins`: keeps the approved definition of every remote tool, and holds back tools whose definition has changed.

A server could offer a harmless tool, wait until it is trusted, and then change what its description tells the model to
do. Therefore the first definition of a tool is pinned, and another one is used only after an operator has accepted it.
A server that the operator has moved to another place starts anew.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Column, MetaData, String, Table, Text, select

from engine.contract.canonical import digest
from engine.contract.spec import ToolSpec
from engine.remote.module import Offer
from engine.stores.records import Records

HELD_BACK = "its definition has changed since it was approved"  # the reason why a tool is left out

_SCHEMA = MetaData()
_PINS = Table(
    "tool_pins",
    _SCHEMA,
    Column("module", String(64), primary_key=True),
    Column("tool", String(128), primary_key=True),
    Column("identity", String(64), nullable=False),
    Column("approved", Text, nullable=False),
    Column("offered", Text, nullable=False),  # the same as `approved` unless the tool is held back
)


@dataclass(frozen=True, slots=True)
class ChangedTool:
    """A tool that is held back.

    Attributes:
        name: The full name.
        approved: The approved definition, as JSON.
        offered: The definition that the module now offers, as JSON.
    """

    name: str
    approved: str
    offered: str

    @property
    def digest(self) -> str:
        """The digest of the offered definition, which identifies it when it is accepted."""
        return digest(self.offered)[:16]

    def diff(self) -> str:
        """Return the differences as a unified diff. It is ASCII, so that invisible characters are seen."""
        lines = difflib.unified_diff(
            self.approved.splitlines(), self.offered.splitlines(), "approved", "offered", lineterm="", n=2
        )
        return "\n".join(lines)


class ToolPins:
    """The pinned definitions of one home. Every method blocks."""

    def __init__(self, records: Records) -> None:
        self._records = records
        records.create(_SCHEMA)

    def checked(self, module: str, identity: str, offer: Offer) -> Offer:
        """Return an offer without the tools that have changed. Tools that were never seen are pinned.

        Args:
            module: The name of the module.
            identity: The digest of its location.
            offer: What the module offers.
        """
        offered = {spec.name: definition_of(spec) for spec in offer.specs}
        pinned = self._pinned(module)
        news: list[dict[str, str]] = []
        held: set[str] = set()
        for name, definition in offered.items():
            row = pinned.get(name)
            approved = row["approved"] if row is not None and row["identity"] == identity else definition
            if approved != definition:
                held.add(name)
            new = {"module": module, "tool": name, "identity": identity, "approved": approved, "offered": definition}
            if row != new:
                news.append(new)
        if news:
            self._store(news)
        if not held:
            return offer
        specs = tuple(spec for spec in offer.specs if spec.name not in held)
        return replace(offer, specs=specs, dropped={**offer.dropped, **dict.fromkeys(sorted(held), HELD_BACK)})

    def changed(self, modules: Collection[str] | None = None) -> list[ChangedTool]:
        """Return the tools that are held back, by name.

        Args:
            modules: The modules; None for all.
        """
        query = select(_PINS).where(_PINS.c.approved != _PINS.c.offered).order_by(_PINS.c.tool)
        with self._records.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [
            ChangedTool(row["tool"], row["approved"], row["offered"])
            for row in rows
            if modules is None or row["module"] in modules
        ]

    def accept(self, tool: ChangedTool) -> bool:
        """Approve the offered definition of a tool. Return False if the module now offers another one."""
        update = (
            _PINS.update()
            .where(_PINS.c.tool == tool.name, _PINS.c.approved == tool.approved, _PINS.c.offered == tool.offered)
            .values(approved=tool.offered)
        )
        with self._records.begin() as connection:
            return bool(connection.execute(update).rowcount)

    def _pinned(self, module: str) -> dict[str, dict[str, str]]:
        with self._records.read() as connection:
            rows = connection.execute(select(_PINS).where(_PINS.c.module == module)).mappings().all()
        return {row["tool"]: dict(row) for row in rows}

    def _store(self, rows: list[dict[str, str]]) -> None:
        insert = self._records.insert(_PINS)
        same = _PINS.c.identity == insert.excluded.identity
        # Another process may have pinned or accepted a definition meanwhile: of a known tool only `offered` changes.
        known = insert.on_conflict_do_update(
            index_elements=["module", "tool"], set_={"offered": insert.excluded.offered}, where=same
        )
        moved = insert.on_conflict_do_update(
            index_elements=["module", "tool"],
            set_={each: insert.excluded[each] for each in ("identity", "approved", "offered")},
            where=~same,
        )
        with self._records.begin() as connection:
            connection.execute(known, rows)
            connection.execute(moved, rows)


def definition_of(spec: ToolSpec) -> str:
    """Return everything that a module says about a tool, as JSON in several lines."""
    definition: dict[str, Any] = {
        "description": spec.description.splitlines(),
        "parameters": spec.parameters,
        "annotations": asdict(spec.annotations),
        "required_permission": spec.required_permission,
        "replay_safe": spec.replay_safe,
    }
    return json.dumps(definition, indent=1, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
