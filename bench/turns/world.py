"""The environment of the run: a log, and two files owned by other people, whose format changes during the run."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CUSTOMERS = ("Ada", "Bob", "Cleo", "Dora")
CURRENCIES = ("EUR", "GBP", "JPY", "CHF")
LEVELS = ("ERROR", "WARNING", "INFO")
ORDERS, RATES, LOG = "orders.csv", "rates.json", "service.log"
_FIRST, _LAST = (1950, 2049)


class World:
    """Writes files to the agent's workspace, and computes the right answers."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._orders: list[tuple[str, float]] = []
        self._rates: dict[str, float] = {}
        self._levels: list[str] = []
        self.changed: set[str] = set()

    def pass_a_day(self) -> None:
        """Write new orders, rates and a log, in their current formats."""
        pick = self._chance
        self._orders = [(pick.choice(CUSTOMERS), pick.randint(100, 9_999) / 100) for _ in range(pick.randint(5, 9))]
        self._rates = {code: pick.randint(50, 15_000) / 100 for code in CURRENCIES}
        self._levels = pick.choices(LEVELS, k=12)
        (self._folder / ORDERS).write_text(self._orders_file())
        (self._folder / RATES).write_text(self._rates_file())
        (self._folder / LOG).write_text("".join(f"{hour:02}:00 {one} hello\n" for hour, one in enumerate(self._levels)))

    def change(self, what: str) -> None:
        """Change the format of a file ("orders" or "rates") from the next day on."""
        self.changed.add(what)

    def arguments(self, task: str) -> dict[str, Any]:
        """Return random arguments for a task."""
        pick = self._chance
        choices: Mapping[str, Callable[[], dict[str, Any]]] = {
            "customer_total": lambda: {"path": ORDERS, "customer": pick.choice(CUSTOMERS)},
            "convert_amount": lambda: {
                "path": RATES,
                "amount": pick.randint(100, 90_000) / 100,
                "currency": pick.choice(CURRENCIES),
            },
            "owed_in": lambda: {
                "orders": ORDERS,
                "rates": RATES,
                "customer": pick.choice(CUSTOMERS),
                "currency": pick.choice(CURRENCIES),
            },
            "count_level": lambda: {"path": LOG, "level": pick.choice(LEVELS)},
            "luhn_valid": lambda: {"number": str(pick.randint(10**9, 10**10 - 1))},
            "title_slug": lambda: {"title": pick.choice(("The Long Way Home", "Bread, Wine and Work", "Room 101"))},
            "roman_number": lambda: {"value": pick.randint(1, 3_999)},
            "weekday_of": lambda: {
                "day": f"{pick.randint(_FIRST, _LAST)}-{pick.randint(1, 12):02}-{pick.randint(1, 28):02}"
            },
        }
        return choices[task]()

    def total(self, customer: str) -> float:
        return round(sum((amount for name, amount in self._orders if name == customer), 0.0), 2)

    def converted(self, amount: float, currency: str) -> float:
        return round(amount * self._rates[currency], 2)

    def count(self, level: str) -> int:
        return self._levels.count(level)

    def _orders_file(self) -> str:
        if "orders" not in self.changed:
            lines = [f"{n},{name},{amount:.2f}" for n, (name, amount) in enumerate(self._orders, 1)]
            return "\n".join(["number,customer,amount", *lines, ""])
        lines = [f"{n};{name};{amount:.2f}".replace(".", ",") for n, (name, amount) in enumerate(self._orders, 1)]
        return "\n".join(["number;client;sum", *lines, ""])

    def _rates_file(self) -> str:
        if "rates" not in self.changed:
            return json.dumps(self._rates)
        return json.dumps({"rates": [{"code": code, "value": rate} for code, rate in self._rates.items()]})
