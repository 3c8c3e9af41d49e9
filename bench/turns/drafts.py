"""The code and tests that the scripted agent writes: skills, tests that are too weak, and sufficient tests."""

CUSTOMER_TOTAL = '''import csv


def customer_total(path: str, customer: str) -> float:
    """Add up the amounts of all orders of one customer.

    Args:
        path: The file of orders, CSV with a header line.
        customer: The customer's name.
    """
    total = 0.0
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["customer"] == customer:
                total += float(row["amount"])
    return round(total, 2)
'''
CUSTOMER_TOTAL_REPAIRED = '''import csv


def customer_total(path: str, customer: str) -> float:
    """Add up the amounts of all orders of one customer, from a file of the old form or of the new one.

    Args:
        path: The file of orders: `customer,amount`, or `client;sum` with decimal commas.
        customer: The customer's name.
    """
    total = 0.0
    with open(path, newline="", encoding="utf-8") as file:
        new = ";" in file.readline()
        file.seek(0)
        for row in csv.DictReader(file, delimiter=";" if new else ","):
            if row["client" if new else "customer"] == customer:
                total += float(row["sum"].replace(",", ".") if new else row["amount"])
    return round(total, 2)
'''
CUSTOMER_TOTAL_WEAK = """from customer_total import customer_total


def test_it_can_be_called():
    assert callable(customer_total)
"""
CUSTOMER_TOTAL_TESTS = '''import pytest
from customer_total import customer_total

OLD = """number,customer,amount
1,Ada,12.50
2,Bob,3.25
3,Ada,0.26
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_old_form(here):
    (here / "orders.csv").write_text(OLD)
    assert customer_total("orders.csv", "Ada") == 12.76
    assert customer_total("orders.csv", "Bob") == 3.25
    assert customer_total("orders.csv", "Eve") == 0.0
'''
CONVERT_AMOUNT = '''import json


def convert_amount(path: str, amount: float, currency: str) -> float:
    """Convert an amount of money to another currency by the table of exchange rates.

    Args:
        path: The file of rates, JSON: how much of each currency one unit of ours is.
        amount: The amount in our currency.
        currency: Code of the other currency, such as EUR.
    """
    with open(path, encoding="utf-8") as file:
        rate = json.load(file)[currency]
    return round(amount * rate, 2)
'''
CONVERT_AMOUNT_REPAIRED = '''import json


def convert_amount(path: str, amount: float, currency: str) -> float:
    """Convert an amount of money to another currency by the table of exchange rates, in its old form or its new one.

    Args:
        path: The file of rates, JSON: an object by currency, or a list of `code` and `value` under `rates`.
        amount: The amount in our currency.
        currency: Code of the other currency, such as EUR.
    """
    with open(path, encoding="utf-8") as file:
        rates = json.load(file)
    if "rates" in rates:
        rates = {one["code"]: one["value"] for one in rates["rates"]}
    return round(amount * rates[currency], 2)
'''
CONVERT_AMOUNT_TESTS = """import pytest
from convert_amount import convert_amount


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_old_form(here):
    (here / "rates.json").write_text('{"EUR": 0.5, "JPY": 150.333}')
    assert convert_amount("rates.json", 3, "EUR") == 1.5
    assert convert_amount("rates.json", 2, "JPY") == 300.67
    with pytest.raises(KeyError):
        convert_amount("rates.json", 2, "XXX")
"""
COUNT_LEVEL = '''def count_level(path: str, level: str) -> int:
    """Count the lines of a log that have a level.

    Args:
        path: The log: time, level and message on each line.
        level: The level, such as ERROR.
    """
    with open(path, encoding="utf-8") as file:
        return sum(line.split(" ", 2)[1] == level for line in file)
'''
COUNT_LEVEL_TESTS = """from count_level import count_level


def test_counts(tmp_path):
    log = tmp_path / "log"
    log.write_text("1 ERROR disk full\\n2 INFO ERROR was seen\\n3 ERROR again\\n4 WARNING no\\n")
    assert count_level(str(log), "ERROR") == 2
    assert count_level(str(log), "WARNING") == 1
    assert count_level(str(log), "DEBUG") == 0
"""
LUHN_VALID = '''def luhn_valid(number: str) -> bool:
    """Check a card number by its last digit (Luhn).

    Args:
        number: The digits; spaces are left out.
    """
    digits = [int(digit) for digit in reversed(number.replace(" ", ""))]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
'''
LUHN_VALID_WEAK = """from luhn_valid import luhn_valid


def test_it_answers():
    assert luhn_valid("4539 1488 0343 6467") is not None
"""
LUHN_VALID_TESTS = """from luhn_valid import luhn_valid


def test_right():
    assert luhn_valid("4539 1488 0343 6467") is True
    assert luhn_valid("79927398713") is True


def test_wrong():
    assert luhn_valid("4539 1488 0343 6468") is False
    assert luhn_valid("79927398710") is False
    assert luhn_valid("18") is True
"""
TITLE_SLUG = '''import re


def title_slug(title: str) -> str:
    """Turn a title into the last part of a web address: small letters and digits, joined by hyphens.

    Args:
        title: The title.
    """
    return "-".join(re.findall("[a-z0-9]+", title.lower()))
'''
TITLE_SLUG_TESTS = """from title_slug import title_slug


def test_slugs():
    assert title_slug("The  Long Way, Home!") == "the-long-way-home"
    assert title_slug("2 + 2") == "2-2"
    assert title_slug("...") == ""
"""
ROMAN_NUMBER = '''_HUNDREDS = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"))
_SMALL = ((90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


def roman_number(value: int) -> str:
    """Write a number in Roman numerals.

    Args:
        value: The number, 1 to 3999.
    """
    written = ""
    for worth, sign in _HUNDREDS + _SMALL:
        written += sign * (value // worth)
        value %= worth
    return written
'''
ROMAN_NUMBER_TESTS = """from roman_number import roman_number


def test_all_signs():
    assert roman_number(1994) == "MCMXCIV"
    assert roman_number(3888) == "MMMDCCCLXXXVIII"
    assert roman_number(444) == "CDXLIV"
    assert roman_number(999) == "CMXCIX"
"""
WEEKDAY_OF = '''from datetime import date

_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def weekday_of(day: str) -> str:
    """Return the day of the week on which a date falls.

    Args:
        day: The date as YYYY-MM-DD.
    """
    return _NAMES[date.fromisoformat(day).weekday()]
'''
WEEKDAY_OF_TESTS = """import pytest
from weekday_of import weekday_of


@pytest.mark.parametrize(
    ("number", "name"),
    enumerate(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"], 5),
)
def test_a_week(number, name):
    assert weekday_of(f"2026-01-{number:02}") == name


def test_no_date():
    with pytest.raises(ValueError):
        weekday_of("2026-13-01")
"""
