"""The repair of a quarantined skill: code for the new file format, and tests made of the reported failing inputs."""

import ast
import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from bench.turns.tasks import Task

MOST_CASES = 6


def cases_of(message: str, name: str) -> list[dict[str, Any]]:
    """Return the failing inputs that the engine's message about a quarantine lists as test cases."""
    cases: list[dict[str, Any]] = []
    for line in message.splitlines():
        if line.strip().startswith(f"assert {name}("):
            call = ast.parse(line.strip().removesuffix("== ...").removeprefix("assert "), mode="eval").body
            if isinstance(call, ast.Call):
                cases.append({str(one.arg): ast.literal_eval(one.value) for one in call.keywords})
    return cases


def repair(task: Task, path: str, content: str, message: str) -> dict[str, Any]:
    """Return the arguments of `create_skill` for the next version, with tests of the old format and of failing inputs.

    The expected results are computed from the file, without the skill. No test is added if there are no failing inputs.

    Args:
        task: The task of the skill.
        path: The file that the agent has just read.
        content: Content of the file.
        message: The engine's message about the quarantine.
    """
    cases = "".join(
        f"    assert {task.name}({', '.join(f'{key}={value!r}' for key, value in case.items())}) == "
        f"{_ANSWERS[task.name](content, case)!r}\n"
        for case in cases_of(message, task.name)[-MOST_CASES:]
    )
    new = f"\n\ndef test_new_form(here):\n    (here / {path!r}).write_text({content!r})\n{cases}" if cases else ""
    return {
        "name": task.name,
        "description": task.description,
        "code": task.repaired,
        "tests": task.drafts[-1].tests + new,
        "examples": [text.replace("{", "").replace("}", "") for text in task.says],
    }


def _total(content: str, case: Mapping[str, Any]) -> float:
    rows = csv.reader(io.StringIO(content), delimiter=";")
    return round(sum(float(row[2].replace(",", ".")) for row in list(rows)[1:] if row[1] == case["customer"]), 2)


def _converted(content: str, case: Mapping[str, Any]) -> float:
    (rate,) = (one["value"] for one in json.loads(content)["rates"] if one["code"] == case["currency"])
    return round(float(case["amount"]) * float(rate), 2)


_ANSWERS: Mapping[str, Callable[[str, Mapping[str, Any]], float]] = {
    "customer_total": _total,
    "convert_amount": _converted,
}
