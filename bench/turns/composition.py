"""The proposal that turns two calls into one composed skill, with the results of the calls as its first case."""

from collections.abc import Mapping
from typing import Any

from bench.turns.tasks import BY_NAME

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


def composition(arguments: Mapping[str, Any], total: float, converted: float) -> dict[str, Any]:
    """Return the arguments for `compose_skill`.

    Args:
        arguments: The arguments of the request that the two calls answered.
        total: The result of the first call.
        converted: The result of the second call.
    """
    task = BY_NAME["owed_in"]
    return {
        "name": task.name,
        "description": task.description,
        "pipeline": _PIPELINE,
        "cases": [_case(arguments, total, converted), _case(_ANOTHER, 10.5, 115.5)],
        "examples": [text.replace("{", "").replace("}", "") for text in task.says],
    }


def _case(arguments: Mapping[str, Any], total: float, converted: float) -> dict[str, Any]:
    return {
        "arguments": dict(arguments),
        "steps": {"total": total, "converted": converted},
        "asked": {
            "total": {"path": arguments["orders"], "customer": arguments["customer"]},
            "converted": {"path": arguments["rates"], "amount": total, "currency": arguments["currency"]},
        },
        "expect": converted,
    }
