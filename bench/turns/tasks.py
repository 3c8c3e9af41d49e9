"""The tasks of the run: how users phrase them, which skills the agent proposes, and the right answers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from bench.turns import drafts
from bench.turns.world import World

Answer = Callable[[World, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """One attempt at a skill: code and tests."""

    code: str
    tests: str


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of request.

    Attributes:
        name: Name of the task and of the skill for it.
        description: Description of the skill.
        says: Wordings of the request, with the arguments in braces.
        answer: Computes the right answer without the skill.
        drafts: The drafts that the agent proposes, in order. If one is refused, it proposes the next.
        repaired: Code of the skill that reads the old and the new format of the file.
        file: The argument that names the file that the skill reads.
    """

    name: str
    description: str
    says: tuple[str, ...]
    answer: Answer
    drafts: tuple[Draft, ...] = ()
    repaired: str = ""
    file: str = ""

    def request(self, which: int, arguments: Mapping[str, Any]) -> str:
        return self.says[which % len(self.says)].format(**arguments)

    def understood(self, message: str) -> dict[str, Any] | None:
        """Return the arguments if the message is a request for this task."""
        for template in self.says:
            pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(template))
            found = re.fullmatch(pattern, message)
            if found:
                return {name: _typed(name, text) for name, text in found.groupdict().items()}
        return None


def _typed(name: str, text: str) -> Any:
    kinds: Mapping[str, Callable[[str], Any]] = {"amount": float, "value": int}
    return kinds.get(name, str)(text)


def _luhn(number: str) -> bool:
    total = 0
    for place, digit in enumerate(map(int, reversed(number))):
        total += digit if place % 2 == 0 else (2 * digit if digit < 5 else 2 * digit - 9)
    return total % 10 == 0


def _roman(value: int) -> str:
    written = ""
    for one, five, ten, worth in (("M", "", "", 1000), ("C", "D", "M", 100), ("X", "L", "C", 10), ("I", "V", "X", 1)):
        digit, value = divmod(value, worth)
        written += {4: one + five, 9: one + ten}.get(digit, five * (digit >= 5) + one * (digit % 5))
    return written


TASKS = (
    Task(
        "customer_total",
        "Add up the amounts of all orders of one customer from the file of orders.",
        (
            "How much did {customer} order in all, according to {path}?",
            "Add up the orders of {customer} in {path}.",
            "What is the sum of what {customer} bought? It is in {path}.",
        ),
        lambda world, arguments: world.total(arguments["customer"]),
        (
            Draft(drafts.CUSTOMER_TOTAL, drafts.CUSTOMER_TOTAL_WEAK),
            Draft(drafts.CUSTOMER_TOTAL, drafts.CUSTOMER_TOTAL_TESTS),
        ),
        drafts.CUSTOMER_TOTAL_REPAIRED,
        "path",
    ),
    Task(
        "convert_amount",
        "Convert an amount of money into another currency by the file of exchange rates.",
        (
            "Convert {amount} to {currency} with the rates in {path}.",
            "How much is {amount} in {currency} at the exchange rates of {path}?",
        ),
        lambda world, arguments: world.converted(arguments["amount"], arguments["currency"]),
        (Draft(drafts.CONVERT_AMOUNT, drafts.CONVERT_AMOUNT_TESTS),),
        drafts.CONVERT_AMOUNT_REPAIRED,
        "path",
    ),
    Task(
        "owed_in",
        "Compute what a customer owes in another currency: the orders added up, then converted.",
        ("What does {customer} owe us in {currency}? Orders are in {orders}, exchange rates in {rates}.",),
        lambda world, arguments: world.converted(world.total(arguments["customer"]), arguments["currency"]),
    ),
    Task(
        "count_level",
        "Count the lines of a log file that have a level such as ERROR.",
        ("How many lines of level {level} are there in {path}?", "Count the {level} entries of the log {path}."),
        lambda world, arguments: world.count(arguments["level"]),
        (Draft(drafts.COUNT_LEVEL, drafts.COUNT_LEVEL_TESTS),),
    ),
    Task(
        "luhn_valid",
        "Check whether a card number is valid by its check digit.",
        ("Is {number} a valid card number?", "Check the last digit of the credit card {number}."),
        lambda _, arguments: _luhn(arguments["number"]),
        (Draft(drafts.LUHN_VALID, drafts.LUHN_VALID_WEAK), Draft(drafts.LUHN_VALID, drafts.LUHN_VALID_TESTS)),
    ),
    Task(
        "title_slug",
        "Turn a title into a slug for a web address.",
        ("Make a slug for the title: {title}", "What would the web address of an article called {title} end in?"),
        lambda _, arguments: "-".join(re.sub(r"[^a-z0-9 ]", "", arguments["title"].lower()).split()),
        (Draft(drafts.TITLE_SLUG, drafts.TITLE_SLUG_TESTS),),
    ),
    Task(
        "roman_number",
        "Write a number in Roman numerals.",
        ("Write {value} in Roman numerals.", "How would the Romans have written the number {value}?"),
        lambda _, arguments: _roman(arguments["value"]),
        (Draft(drafts.ROMAN_NUMBER, drafts.ROMAN_NUMBER_TESTS),),
    ),
    Task(
        "weekday_of",
        "Return the day of the week on which a date falls.",
        ("What day of the week was {day}?", "On which weekday does {day} fall?"),
        lambda _, arguments: date.fromisoformat(arguments["day"]).strftime("%A"),
        (Draft(drafts.WEEKDAY_OF, drafts.WEEKDAY_OF_TESTS),),
    ),
)
BY_NAME = {task.name: task for task in TASKS}
FORGET, BRING_BACK = "Forget the skill {name}, we do not need it.", "Bring the skill {name} back, that was a mistake."
