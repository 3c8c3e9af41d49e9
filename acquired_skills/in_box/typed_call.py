"""Calls a skill whose arguments or result have types that JSON lacks (enums, models, dates, sets).

This module runs in the box.
"""

import importlib
from typing import Any

from acquired_skills.in_box.function_forms import EagerFunction
from acquired_skills.in_box.json_values import to_json
from acquired_skills.in_box.skill_arguments import accept


def call(name: str, arguments: dict[str, Any], inferred: dict[str, str]) -> Any:
    """Call the function `name` of the module `name`, converting its arguments and its result.

    Args:
        inferred: The inferred type hints of the function's parameters.
    """
    function = getattr(importlib.import_module(name), name)
    return to_json(EagerFunction(function)(**accept(function, arguments, inferred)), name)
