"""Every example runs as its first line says, and has fewer than 40 lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
MOST_LINES = 39  # under 40


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.spec("FACE-4")
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KNACKBOX_")}
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=REPOSITORY,
        env=environ | {"KNACKBOX_HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert len(example.read_text("utf-8").splitlines()) <= MOST_LINES
