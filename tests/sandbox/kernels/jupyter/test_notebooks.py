"""Programs that run notebooks, with boxed kernels and with stock ones."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbclient
import nbformat
import papermill
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionError

from sandbox.kernels import kernelspec
from tests.sandbox.kernels.jupyter.outputs import comparable, same
from tests.sandbox.kernels.jupyter.private import NAME, WAIT_S

pytestmark = [
    pytest.mark.spec("KERN-2"),
    pytest.mark.usefixtures("jupyter_home"),
    pytest.mark.timeout(300),  # two kernels and all of matplotlib, on a busy machine
]
PENGUINS = Path(__file__).with_name("penguins.ipynb")
STOCK = "python3"


def notebook_of(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def executed(notebook: nbformat.NotebookNode, kernel: str, folder: Path, **told: object) -> nbformat.NotebookNode:
    manager = AsyncKernelManager(kernel_name=kernel)
    resources = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(notebook, km=manager, timeout=WAIT_S, resources=resources, **told)
    return client.execute(cleanup_kc=True)


@pytest.mark.spec("KERN-4")
def test_every_output_equals_that_of_the_stock_kernel(
    jupyter_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # ipykernel does less if it is set
    monkeypatch.setenv("SHELL", "/bin/sh")  # it runs `!command`, and some accounts have no shell
    monkeypatch.setenv(
        "HOME", str(jupyter_home)
    )  # IPython abbreviates paths in a home to ~, and the packages may be in one
    boxed = executed(nbformat.read(PENGUINS, 4), NAME, tmp_path)
    stock = executed(nbformat.read(PENGUINS, 4), STOCK, tmp_path)
    packages = [sysconfig.get_path("purelib"), os.path.realpath(sysconfig.get_path("purelib"))]
    ours = comparable(boxed, jupyter_home / "workspace", packages)
    theirs = comparable(stock, tmp_path, packages)
    assert len(ours) > 50
    assert [(one, other) for one, other in zip(ours, theirs, strict=True) if not same(one[1], other[1])] == []


def test_the_compared_notebook_has_outputs_of_every_kind() -> None:
    """Check that the outputs exist: two kernels without any output would compare as equal."""
    found = comparable(executed(nbformat.read(PENGUINS, 4), NAME, PENGUINS.parent), PENGUINS.parent, ())
    pictures = sum("image/png" in output.get("data", {}) for _, outputs in found for output in outputs["others"])
    errors = {output["ename"] for _, outputs in found for output in outputs["others"] if "ename" in output}
    assert pictures == 2
    assert {"KeyError", "ZeroDivisionError", "SyntaxError", "StdinNotImplementedError", "KeyboardInterrupt"} <= errors
    streams = "".join(text for _, outputs in found for text in outputs["streams"].values())
    assert "from the shell" in streams
    assert "mind the gap" in streams


def test_papermill_passes_parameters_and_gets_the_same_outputs(tmp_path: Path) -> None:
    source = notebook_of("rows = 1", "print('*' * rows)\n[number**2 for number in range(rows)]")
    source.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(source, tmp_path / "in.ipynb")
    ran = {}
    for kernel in (NAME, STOCK):
        target = str(tmp_path / f"{kernel}.ipynb")
        papermill.execute_notebook(
            str(tmp_path / "in.ipynb"), target, parameters={"rows": 4}, kernel_name=kernel, language="python"
        )
        ran[kernel] = comparable(nbformat.read(target, 4), tmp_path, ())
    assert ran[NAME] == ran[STOCK]
    assert ran[NAME][-1][1]["streams"] == {"stdout": "****\n"}


def test_papermill_runs_a_kernel_that_shows_the_folder_it_was_started_in(jupyter_home: Path, tmp_path: Path) -> None:
    kernelspec.install("beside", "Beside", {"notebook_folder": True}, prefix=str(jupyter_home))
    nbformat.write(notebook_of("print(open('beside.txt').read())"), tmp_path / "in.ipynb")
    (tmp_path / "beside.txt").write_text("next to the notebook")
    command = ["-m", "papermill", "in.ipynb", "out.ipynb", "-k", "beside", "-l", "python"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "next to the notebook" in (tmp_path / "out.ipynb").read_text()


def test_papermill_stops_at_a_failure_and_reports_where(tmp_path: Path) -> None:
    nbformat.write(notebook_of("1", "1 / 0", "print('never')"), tmp_path / "in.ipynb")
    target = tmp_path / "out.ipynb"
    with pytest.raises(papermill.PapermillExecutionError, match="ZeroDivisionError"):
        papermill.execute_notebook(str(tmp_path / "in.ipynb"), str(target), kernel_name=NAME, language="python")
    assert "never\n" not in target.read_text()


def test_jupyter_execute_runs_a_notebook(tmp_path: Path) -> None:
    nbformat.write(notebook_of("!hostname"), tmp_path / "nb.ipynb")
    start = "from nbclient.cli import main; main()"
    command = [sys.executable, "-c", start, f"--kernel_name={NAME}", "--inplace", str(tmp_path / "nb.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert nbformat.read(tmp_path / "nb.ipynb", 4).cells[0].outputs[0].text == "box\n"


@pytest.mark.parametrize("line", ["%pip install rich", "%conda install rich", "pip install rich"])
def test_installation_errors_are_one_line_with_advice(tmp_path: Path, line: str) -> None:
    notebook = notebook_of(line)
    with pytest.raises(CellExecutionError):
        executed(notebook, NAME, tmp_path)
    said = "".join(output.get("text", "") for output in notebook.cells[0].outputs)
    assert said.count("\n") == 1
    assert "A box has no network" in said
    assert "Install the package there" in said
