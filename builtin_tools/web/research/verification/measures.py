"""The units of measurement that are recognized, each with its dimension and its size in the dimension's base unit."""

from fractions import Fraction
from typing import NamedTuple


class Measure(NamedTuple):
    """A unit of measurement.

    Attributes:
        dimension: What it measures, such as ``"length"``.
        factor: Its size in the base unit of the dimension.
    """

    dimension: str
    factor: Fraction


PERCENT = Measure("share", Fraction(1, 100))
_POUND = Fraction(45359237, 100_000_000)
_SIZES: dict[str, dict[str, tuple[int | Fraction, str]]] = {
    "length": {
        "m": (1, "metre metres meter meters"),
        "km": (1000, "kilometre kilometres kilometer kilometers kms"),
        "cm": (Fraction(1, 100), "centimetre centimetres centimeter centimeters"),
        "mm": (Fraction(1, 1000), "millimetre millimetres millimeter millimeters"),
        "mile": (Fraction(1609344, 1000), "miles mi"),
        "foot": (Fraction(3048, 10000), "feet ft"),
        "inch": (Fraction(254, 10000), "inches"),
    },
    "mass": {
        "kg": (1, "kilogram kilograms kilo kilos"),
        "g": (Fraction(1, 1000), "gram grams"),
        "mg": (Fraction(1, 10**6), "milligram milligrams"),
        "tonne": (1000, "tonnes ton tons"),
        "lb": (_POUND, "lbs"),
    },
    "time": {
        "s": (1, "second seconds sec secs"),
        "ms": (Fraction(1, 1000), "millisecond milliseconds"),
        "µs": (Fraction(1, 10**6), "microsecond microseconds us"),
        "ns": (Fraction(1, 10**9), "nanosecond nanoseconds"),
        "min": (60, "minute minutes mins"),
        "h": (3600, "hour hours hr hrs"),
        "day": (86_400, "days"),
        "week": (7 * 86_400, "weeks"),
        "fortnight": (14 * 86_400, "fortnights"),
    },
    # Months and years have no fixed length in days.
    "months": {
        "month": (1, "months"),
        "year": (12, "years yr yrs"),
        "decade": (120, "decades"),
        "century": (1200, "centuries"),
    },
    "data": {
        "byte": (1, "bytes b"),
        "kb": (1000, "kilobyte kilobytes"),
        "mb": (10**6, "megabyte megabytes"),
        "gb": (10**9, "gigabyte gigabytes"),
        "tb": (10**12, "terabyte terabytes"),
        "kib": (2**10, "kibibyte kibibytes"),
        "mib": (2**20, "mebibyte mebibytes"),
        "gib": (2**30, "gibibyte gibibytes"),
    },
    "bits": {"bit": (1, "bits"), "kbit": (1000, "kilobits"), "mbit": (10**6, "megabits"), "gbit": (10**9, "gigabits")},
    "area": {
        "hectare": (10**4, "hectares ha"),
        "km²": (10**6, "km2 sqkm"),
        "m²": (1, "m2"),
    },
    "volume": {
        "litre": (1, "litres liter liters l"),
        "ml": (Fraction(1, 1000), "millilitre millilitres milliliter milliliters"),
    },
    "power": {
        "w": (1, "watt watts"),
        "kw": (1000, "kilowatt kilowatts"),
        "mw": (10**6, "megawatt megawatts"),
        "gw": (10**9, "gigawatt gigawatts"),
    },
    "frequency": {
        "hz": (1, "hertz"),
        "khz": (1000, "kilohertz"),
        "mhz": (10**6, "megahertz"),
        "ghz": (10**9, "gigahertz"),
    },
    "celsius": {"°c": (1, "celsius")},
    "fahrenheit": {"°f": (1, "fahrenheit")},
    "angle": {"degree": (1, "degrees °")},
    "dollars": {"dollar": (1, "dollars usd $ us$"), "cent": (Fraction(1, 100), "cents")},
    "euros": {"euro": (1, "euros eur €")},
    "pounds": {"pound": (1, "pounds gbp £")},  # of weight or of money
    "yen": {"yen": (1, "jpy ¥")},
    "kronor": {"krona": (1, "kronor kroner krone sek nok dkk")},
    "share": {"%": (PERCENT.factor, "percent pct percentage")},
}
_BY_NAME = {
    name: Measure(dimension, Fraction(size))
    for dimension, units in _SIZES.items()
    for unit, (size, others) in units.items()
    for name in (unit, *others.split())
}


def measure_of(word: str) -> Measure | None:
    """Return the unit with a name or symbol, such as ``"km"`` or ``"kilometres"``; None if there is none."""
    return _BY_NAME.get(word.casefold().rstrip("."))
