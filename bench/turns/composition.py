"""Two calls that were just made, written down as one composed skill; what they gave is its first case."""

from collections.abc import Mapping
from typing import Any

from bench.turns.jobs import BY_NAME

_PIPELINE = {
    "steps": [
        {
            "name": "total",
            "call": "customer_total",
            "inputs": {"path": {"from": "/arguments/orders"}, "customer": {"from": "/arguments/customer"}},
        },
        {
            "name": "converted",
            "call": "convert_amount",
            "inputs": {
                "path": {"from": "/arguments/rates"},
                "amount": {"from": "/total"},
                "currency": {"from": "/arguments/currency"},
            },
        },
    ],
    "output": {"from": "/converted"},
}
_ANOTHER = {"orders": "some.csv", "rates": "some.json", "customer": "Zoe", "currency": "SEK"}


def composed(asked: Mapping[str, Any], total: float, converted: float) -> dict[str, Any]:
    """Arguments of `compose_skill`. asked: what the whole was asked for. total, converted: what the two steps gave."""
    job = BY_NAME["owed_in"]
    return {
        "name": job.name,
        "description": job.description,
        "pipeline": _PIPELINE,
        "cases": [_case(asked, total, converted), _case(_ANOTHER, 10.5, 115.5)],
        "examples": [text.replace("{", "").replace("}", "") for text in job.says],
    }


def _case(asked: Mapping[str, Any], total: float, converted: float) -> dict[str, Any]:
    return {
        "arguments": dict(asked),
        "steps": {"total": total, "converted": converted},
        "asked": {
            "total": {"path": asked["orders"], "customer": asked["customer"]},
            "converted": {"path": asked["rates"], "amount": total, "currency": asked["currency"]},
        },
        "expect": converted,
    }
