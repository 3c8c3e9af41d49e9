"""In the box: calls a skill whose arguments or value are richer than JSON (enums, models, dates, sets)."""

import importlib
from typing import Any

from acquired_skills.in_box.skill_arguments import accept, to_json


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Call the function `name` of the module `name`, converting its arguments and its value."""
    function = getattr(importlib.import_module(name), name)
    return to_json(function(**accept(function, arguments)))
