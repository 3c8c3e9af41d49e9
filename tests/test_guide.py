"""Runs every command of docs/guide.md and README.md as written, block by block, each block in a new home."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.app.config import load_settings
from engine.app.home import Home
from engine.interfaces.cli.main import run
from tests.builtin_tools.memory.documents.samples import pdf

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/guide.md")
PORT = 8765  # the port in the guide
WAIT_S = 280

# Commands that a test cannot run as they are written, and why.
EXTERNAL = {
    "git clone": "fetches the repository from the network",
    "knackbox call deep_research": "needs a model and searches the web",
    "knackbox call fact_check": "needs a model and searches the web",
    "knackbox call fetch_page": "requests a page of the web",
    "knackbox call web_search": "searches the web",
    "make demo": "installs into the checkout; CI runs it by itself",
    "make test": "is what runs this test",
    "knackbox chat": "needs a model",
    "knackbox skills distil": "needs a run, and therefore a model",
    "knackbox research check": "needs a report of deep_research",
    "knackbox exec python fetch.py": "takes a package from PyPI and connects to api.example.com",
    "pip install": "installs from the network into the environment that runs this test",
}
STARTS_A_COMMAND = ("knackbox ", "echo ", "TOKEN=", "curl ", "git ", "pip ", "make ", "papermill ", "sort ")
INVOICES = 'def total(prices: list[float]) -> float:\n    """Add up an invoice."""\n    return sum(prices)\n'
ROMAN = (
    "def roman_numeral(number: int) -> str:\n"
    '    """Write a number as a roman numeral.\n\n    Args:\n        number: from 1 to 3999\n    """\n'
    "    text = ''\n"
    "    for value, sign in ((1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'),\n"
    "                        (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):\n"
    "        count, number = divmod(number, value)\n"
    "        text += sign * count\n"
    "    return text\n"
)
ROMAN_TESTS = (
    "from roman_numeral import roman_numeral\n\n"
    "def test_all_signs():\n"
    "    assert roman_numeral(3999) == 'MMMCMXCIX'\n"
    "    assert roman_numeral(444) == 'CDXLIV'\n"
    "    assert roman_numeral(1666) == 'MDCLXVI'\n\n"
    "def test_one():\n"
    "    assert roman_numeral(1) == 'I'\n"
)

pytestmark = [pytest.mark.spec("DOC-1"), pytest.mark.timeout(300)]


def blocks_of(document: str) -> Iterator[str]:
    """Yield the indented blocks that begin with a command, without the indentation."""
    for block in re.findall(r"(?:^    .*\n)+", (REPOSITORY / document).read_text("utf-8"), re.MULTILINE):
        text = "".join(line[4:] for line in block.splitlines(keepends=True))
        if text.startswith(STARTS_A_COMMAND):
            yield text


def fenced(document: str, language: str) -> Iterator[str]:
    yield from re.findall(
        rf"^```{language}\n(.*?)^```", (REPOSITORY / document).read_text("utf-8"), re.MULTILINE | re.DOTALL
    )


BLOCKS = [
    pytest.param(text, id=f"{name}:{text.split('#')[0].strip()[:40]}") for name in DOCUMENTS for text in blocks_of(name)
]


def commands_of(block: str) -> list[str]:
    """Return the commands of a block, each with its continuation lines."""
    return block.replace("\\\n", " ").splitlines()


def script_of(block: str) -> str:
    """Return a Bash script that runs the block. A server runs in the background until the end of the block."""
    lines = ["set -euo pipefail"]
    for command in commands_of(block):
        if command.startswith(tuple(EXTERNAL)):
            continue
        if re.match(r"knackbox serve *(#|$)", command):
            lines += ["knackbox serve & server=$!", "trap 'kill $server; wait $server || true' EXIT"]
            lines += [f"until (: </dev/tcp/127.0.0.1/{PORT}) 2>/dev/null; do kill -0 $server; sleep 0.1; done"]
        elif " --watch" in command:  # Ctrl-C as soon as it watches; Bash ignores SIGINT in background jobs otherwise
            lines += ["set -m", f"{command.split('#')[0]} > watch.txt 2>&1 & watch=$!", "set +m"]
            lines += ["until grep -q 'watching for changes' watch.txt; do kill -0 $watch; sleep 0.1; done"]
            lines += ["kill -INT $watch; wait $watch"]
        else:
            lines.append(command)
    return "\n".join(lines)


@pytest.fixture
def kernels() -> Iterator[None]:
    """Restore the kernelspecs of this environment afterwards, because a command of the guide installs one."""
    place = Path(sys.prefix) / "share" / "jupyter" / "kernels" / "knackbox"
    before = {each.name: each.read_bytes() for each in place.iterdir()} if place.is_dir() else None
    yield
    shutil.rmtree(place, ignore_errors=True)
    if before is not None:
        place.mkdir(parents=True)
        for name, data in before.items():
            (place / name).write_bytes(data)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "person"
    home.mkdir()
    scripts = sysconfig.get_path("scripts")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("KNACKBOX_")},
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "HOME": str(home),
        "KNACKBOX_HOME": str(tmp_path / "home"),
        "PYTHONPATH": f"{REPOSITORY}:{tmp_path / 'packages'}",
    }


def prepare(block: str, tmp_path: Path, environ: dict[str, str]) -> Path:
    """Create what the guide assumes (the files it names, a skill, an agent), and return the folder to run in."""
    folder = tmp_path / "work"
    (folder / "data").mkdir(parents=True)
    home = Path(environ["KNACKBOX_HOME"])
    home.mkdir()

    def prepared(*arguments: str, given: str = "") -> None:
        done = subprocess.run(
            ["knackbox", *arguments],
            input=given,
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}{done.stdout}"

    if "notebook.ipynb" in block:
        cell = {
            "cell_type": "code",
            "id": "a",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": "1 + 1",
        }
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (folder / "notebook.ipynb").write_text(json.dumps(notebook))
    if "report.py" in block:
        (folder / "report.py").write_text("import sys\nassert sys.argv[1:] == ['--year', '2024']\n")
        (folder / "names.txt").write_text("b\na\nb\n")
        (folder / "main.js").write_text("console.log(require('./lib.js').answer)\n")
        (folder / "lib.js").write_text("exports.answer = 42\n")
    if "our_tools" in block:
        package = tmp_path / "packages" / "our_tools"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "invoices.py").write_text(INVOICES)
        (home / "config.toml").write_text('[registry]\nadapter_prefixes = ["our_tools"]\n')
        agent = {"spec_id": "bookkeeper", "allowed_tools": ["scratchpad"]}
        prepared("registry", "register", "-", given=json.dumps(agent))
    if "roman_numeral" in block:
        (folder / "roman_numeral.py").write_text(ROMAN)
        (folder / "test_roman_numeral.py").write_text(ROMAN_TESTS)
        described = ("--description", "Write a number as a roman numeral")
        prepared("skills", "add", "roman_numeral.py", "--tests", "test_roman_numeral.py", *described)
        forms = folder / "pdf-forms"
        forms.mkdir()
        script = 'def field_name(label: str) -> str:\n    """Return the name of a field."""\n    return label.lower()\n'
        (forms / "fields.py").write_text(script)
        (forms / "SKILL.md").write_text(
            "---\nname: pdf-forms\ndescription: How to fill in PDF forms.\n---\nRead them.\n"
        )
    if "manual.pdf" in block:
        (folder / "manual.pdf").write_bytes(pdf("Press the red button to stop the mill."))
        (folder / "notes").mkdir()
        (folder / "notes" / "mill.md").write_text("# Mill\n\nThe mill stands still on Mondays.\n")
    if "knackbox restore latest" in block:
        prepared("audit")
        for lock in home.glob("*.db.lock"):  # makes the home look old enough for its first backup
            os.utime(lock, (lock.stat().st_mtime - 7200,) * 2)
        prepared("audit")
    return folder


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_commands_runs_as_written(block: str, tmp_path: Path, environ: dict[str, str]) -> None:
    script = script_of(block)
    if script.count("\n") == 0:
        pytest.skip("; ".join(why for command, why in EXTERNAL.items() if command in block))
    if "knackbox serve" in script:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                pytest.skip(f"another program listens on the guide's port, {PORT}")
    if "curl " in script and not shutil.which("curl"):
        pytest.skip("curl is not installed")
    folder = prepare(block, tmp_path, environ)
    done = subprocess.run(
        # Tests may run as a background job, in which shells ignore SIGINT. Bash cannot undo that.
        ["env", "--default-signal=INT", "bash", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_every_document_has_commands_and_every_exception_is_one_of_them() -> None:
    assert len(BLOCKS) >= 6
    commands = [command for name in DOCUMENTS for block in blocks_of(name) for command in commands_of(block)]
    assert all(any(command.startswith(each) for command in commands) for each in EXTERNAL)


@pytest.mark.parametrize(
    "text", [text for name in DOCUMENTS for text in fenced(name, "toml")], ids=lambda text: text[:20]
)
def test_every_configuration_of_the_guide_is_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    load_settings(Home(tmp_path), {})


@pytest.mark.parametrize(
    "command",
    sorted(
        {
            each
            for name in DOCUMENTS
            for each in re.findall(r"`knackbox ([a-z][^`]*)`", (REPOSITORY / name).read_text("utf-8"))
        }
    ),
)
def test_every_command_that_the_text_names_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in command.split() if re.fullmatch(r"[a-z|]+", word)]
    for last in words[-1].split("|"):
        assert run([*words[:-1], last, "--help"]) == 0, capsys.readouterr().err
