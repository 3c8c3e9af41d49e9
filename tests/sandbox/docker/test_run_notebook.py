"""`knackbox run` where the configured sandbox is Docker: the cells run in a container."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

pytestmark = [pytest.mark.docker, pytest.mark.spec("KERN-7")]
REPOSITORY = Path(__file__).resolve().parents[3]


def test_a_notebook_runs_in_a_container(tmp_path: Path) -> None:
    sources = ["x = 6 * 7", "import os; print(x, os.path.exists('/.dockerenv'), os.getuid())"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    file, written = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    file.write_text(nbformat.writes(notebook))
    command = [sys.executable, "-m", "engine.interfaces.cli.main", "run", str(file), "-o", str(written), "--json"]
    environ = os.environ | {"KNACKBOX_SANDBOX": "docker", "KNACKBOX_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["executed"] == 2
    outputs = nbformat.read(written, as_version=4).cells[1].outputs
    assert outputs[0].text.startswith("42 True ")
    assert not outputs[0].text.endswith(" 0\n")
