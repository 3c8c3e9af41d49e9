"""The repair of a quarantined skill: code that knows the new form, tests made of the inputs handed back."""

import ast
import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from bench.turns.jobs import Job

MOST_CASES = 6


def cases_of(told: str, name: str) -> list[dict[str, Any]]:
    """The failing inputs in what the engine said of a quarantine: the test cases that it hands back."""
    cases: list[dict[str, Any]] = []
    for line in told.splitlines():
        if line.strip().startswith(f"assert {name}("):
            call = ast.parse(line.strip().removesuffix("== ...").removeprefix("assert "), mode="eval").body
            if isinstance(call, ast.Call):
                cases.append({str(one.arg): ast.literal_eval(one.value) for one in call.keywords})
    return cases


def repaired(job: Job, path: str, content: str, told: str) -> dict[str, Any]:
    """Arguments of `create_skill`: the next version, tested on the old form and on every case that was handed back.

    path, content: the file as the agent has just read it. The right answers are worked out by reading it, not by the
    skill. Without any case the proposal has no new test.
    """
    cases = "".join(
        f"    assert {job.name}({', '.join(f'{key}={value!r}' for key, value in case.items())}) == "
        f"{_ANSWERS[job.name](content, case)!r}\n"
        for case in cases_of(told, job.name)[-MOST_CASES:]
    )
    new = f"\n\ndef test_new_form(here):\n    (here / {path!r}).write_text({content!r})\n{cases}" if cases else ""
    return {
        "name": job.name,
        "description": job.description,
        "code": job.repaired,
        "tests": job.drafts[-1].tests + new,
        "examples": [text.replace("{", "").replace("}", "") for text in job.says],
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
