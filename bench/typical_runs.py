"""Counts how many typical programs give the right result in a box, and in the interpreters of peers."""

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from bench.interpreter import PEERS
from bench.typical_programs import PROGRAMS
from engine import Engine
from engine.app.plugins import CHECKOUT

OURS = "knackbox, CPython in a box"
MOST_S = 300.0  # for all programs in one interpreter
WHAT = "programs"

Results = Mapping[str, tuple[Any, str]]


async def in_boxes(engine: Engine, programs: Mapping[str, str] = PROGRAMS) -> Results:
    """Run each program with `execute`. Return its value, and why there is none."""
    found: dict[str, tuple[Any, str]] = {}
    for name, code in programs.items():
        result = await engine.call("execute", {"language": "python", "code": f"{code}\nresult"})
        found[name] = (result.output["value"], "") if result.success else (None, result.text)
    return found


def in_interpreter(peer: str, programs: Mapping[str, str] = PROGRAMS) -> Results:
    """Run the programs in a peer, or in a plain process ("plain"). If that process fails, all of them have failed."""
    command = [sys.executable, "-m", "bench.interpreter", peer]
    given = json.dumps(dict(programs))
    try:
        ran = subprocess.run(
            command, check=False, input=given, capture_output=True, text=True, cwd=CHECKOUT, timeout=MOST_S
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(programs, (None, f"no result within {MOST_S:g} s"))
    if ran.returncode != 0:
        return dict.fromkeys(programs, (None, ran.stderr[-200:]))
    return {name: (value, why) for name, (value, why) in json.loads(ran.stdout.splitlines()[-1]).items()}


def installed() -> list[str]:
    """Return the peers that are installed."""
    return [name for name, (module, _) in PEERS.items() if find_spec(module) is not None]


def rows_of(ways: Mapping[str, Results], right: Results) -> list[dict[str, Any]]:
    """Return a row for each way, with the number of right results and the failed programs."""
    rows = []
    for way, results in ways.items():
        failed = {
            name: results[name][1] or f"{results[name][0]!r} instead of {value!r}"
            for name, (value, _) in right.items()
            if results[name] != (value, "")
        }
        count = len(right)
        rows.append(
            {
                "what": WHAT,
                "way": way,
                "count": count,
                "right": count - len(failed),
                "ratio": (count - len(failed)) / count,
                "failed": failed,
            }
        )
    return rows
