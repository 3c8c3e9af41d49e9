"""The records behind the 84 remote tools of the benchmark: a company's customers, orders, tickets and employees.

They are made from a seed, so every run has the same records.
"""

import random
from typing import Any

Row = dict[str, Any]
Tables = dict[str, list[Row]]

_SEED = 18
_CITIES = ("Rome", "Oslo", "Lyon", "Porto")
_WORDS = ("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Heron", "Iris", "Juniper", "Kestrel", "Larch")
_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ines", "Jon", "Kai", "Lea", "Max", "Nia", "Otto")

MODULES: dict[str, tuple[str, ...]] = {
    "crm": ("customers", "deals", "notes"),
    "shop": ("products", "orders", "suppliers"),
    "desk": ("tickets", "replies", "articles"),
    "staff": ("employees", "teams", "absences"),
}
"""The tables of each module. `crm` and `shop` are HTTP modules, `desk` and `staff` are MCP servers."""


def tables() -> Tables:
    """Return new copies of all records, by the name of their table."""
    pick = random.Random(_SEED)

    def made(count: int, **fields: Any) -> list[Row]:
        return [
            {"id": number, **{name: make(number) for name, make in fields.items()}} for number in range(1, count + 1)
        ]

    def one_of(*values: Any) -> Any:
        return lambda _: pick.choice(values)

    def number(least: int, most: int) -> Any:
        return lambda _: pick.randint(least, most)

    return {
        "customers": made(
            24,
            name=lambda n: f"{_WORDS[n % 12]} {'Works' if n % 2 else 'Trading'} {n}",
            city=one_of(*_CITIES),
            segment=one_of("small", "large"),
            manager=number(1, 15),
        ),
        "deals": made(
            40,
            name=lambda n: f"Deal {n}",
            customer=number(1, 24),
            stage=one_of("open", "won", "lost"),
            amount=number(1, 90),
        ),
        "notes": made(20, name=lambda n: f"Note {n}", customer=number(1, 24), words=number(5, 200)),
        "products": made(
            18,
            name=lambda n: f"{_WORDS[n % 12]} lamp {n}",
            price=number(5, 60),
            stock=number(0, 40),
            supplier=number(1, 6),
        ),
        "orders": made(
            60,
            name=lambda n: f"Order {n}",
            customer=number(1, 24),
            product=number(1, 18),
            quantity=number(1, 9),
            status=one_of("new", "sent", "returned"),
        ),
        "suppliers": made(6, name=lambda n: f"{_WORDS[-n]} Supply", country=one_of("Italy", "Norway", "France")),
        "tickets": made(
            50,
            name=lambda n: f"Ticket {n}",
            customer=number(1, 24),
            employee=number(1, 15),
            priority=one_of("low", "high"),
            state=one_of("open", "closed"),
        ),
        "replies": made(40, name=lambda n: f"Reply {n}", ticket=number(1, 50), hours=number(1, 72)),
        "articles": made(16, name=lambda n: f"Article {n}", topic=one_of("billing", "repair"), views=number(0, 900)),
        "employees": made(
            15, name=lambda n: _NAMES[n - 1], team=number(1, 4), city=one_of(*_CITIES), salary=number(30, 90)
        ),
        "teams": made(4, name=lambda n: ("Sales", "Support", "Design", "Finance")[n - 1], lead=number(1, 15)),
        "absences": made(30, name=lambda n: f"Absence {n}", employee=number(1, 15), days=number(1, 12)),
    }


def fields_of(table: str) -> tuple[str, ...]:
    """Return the fields of a table."""
    return tuple(tables()[table][0])
