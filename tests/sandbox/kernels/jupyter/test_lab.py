"""JupyterLab in a browser, with kernels in boxes. `make test-services` installs Chromium and the extra `lab`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from tests.eventually import eventually_sync
from tests.sandbox.kernels.jupyter.private import NAME, WAIT_S, install, variables

pytestmark = [pytest.mark.services, pytest.mark.timeout(240)]

CELLS = (
    "import socket\nprint('on', socket.gethostname(), 6 * 7)",
    "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);",
    "import time\nprint('sleeping', flush=True)\ntime.sleep(600)",
)


@pytest.fixture
def screen(tmp_path: Path) -> Path:
    """Return the file for a screenshot when a test fails."""
    return tmp_path / "screen.png"


@pytest.fixture
def lab() -> Any:
    """Return the module that drives JupyterLab; its imports are installed only for these tests."""
    from tests.sandbox.kernels.jupyter import lab

    return lab


# An output that makes the page of JupyterLab write a file through the server's API. The page has all rights there.
_CALL = (
    "fetch('/api/contents/NAME', {method: 'PUT', headers: {'Content-Type': 'application/json', 'X-XSRFToken': "
    "(document.cookie.match('_xsrf=([^;]*)') || [])[1]}, body: JSON.stringify({type: 'file', format: 'text', "
    "content: ''})})"
)
_WAYS = {
    "javascript": "display(Javascript(call))",
    "script": "display(HTML(f'<script>{call}</script>'))",
    "handler": "display(HTML(f'<img src=x onerror=\"{call}\">'))",
    "file": "open('a.js', 'w').write(call)\ndisplay(HTML('<script src=\"/files/a.js\"></script>'))",
    "frame": "display(HTML(f'<iframe srcdoc=\"<script>parent.{call}</script>\"></iframe>'))",
    "svg": "display(SVG(f'<svg xmlns=\"http://www.w3.org/2000/svg\"><script>{call}</script></svg>'))",
}
_SECURITY = Path(__file__).parents[4] / "SECURITY.md"
_SCRIPTS = "@jupyterlab/javascript-extension"


def write(path: Path, *sources: str) -> None:
    kernel = {"name": NAME, "display_name": "Boxed", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def guard(config: Path) -> None:
    """Configure the server as SECURITY.md recommends."""
    told = _SECURITY.read_text("utf-8")
    assert f"jupyter labextension disable {_SCRIPTS}\n" in told
    command = [sys.executable, "-m", "jupyterlab.labextensions", "disable", "--level=user", _SCRIPTS]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)
    settings = next(block for block in told.split("```") if block.startswith("python\n# jupyter_server_config.py"))
    (config / "jupyter_server_config.py").write_text(settings.removeprefix("python\n"))


def gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@pytest.mark.spec("KERN-2")
def test_a_notebook_in_jupyterlab_runs_in_a_box(lab: Any, jupyter_home: Path, tmp_path: Path, screen: Path) -> None:
    write(tmp_path / "nb.ipynb", *CELLS)
    with lab.serving(jupyter_home, tmp_path) as server, lab.opened(server, "nb.ipynb", screen) as notebook:
        notebook.run_all()
        notebook.output("on box 42")
        picture = notebook.page.locator(".jp-OutputArea-output img").first
        picture.wait_for()
        assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth)") > 100
        notebook.output("sleeping")
        notebook.interrupt()
        notebook.output("KeyboardInterrupt")
        notebook.restart()
        notebook.idle()
        notebook.run_cell(1)  # the second one, first of the new kernel
        notebook.page.locator(".jp-Cell").nth(1).locator(".jp-InputPrompt", has_text="[1]:").wait_for()
        below = psutil.Process(server.pid).children(recursive=True)
        assert below
    eventually_sync(lambda: gone(below), deadline_s=WAIT_S)


@pytest.mark.spec("KERN-2")
@pytest.mark.parametrize("guarded", [False, True])
def test_an_output_can_do_in_the_browser_what_security_md_says(
    lab: Any, tmp_path: Path, screen: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    install(tmp_path, workspace=str(shown))
    if guarded:
        guard(tmp_path / "config")
    tries = [f"call = {_CALL.replace('NAME', name)!r}\n{code}" for name, code in _WAYS.items()]
    last = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nprint('all', 'tried')"
    write(shown / "nb.ipynb", "from IPython.display import HTML, SVG, Javascript, display", *tries, last)
    with lab.serving(tmp_path, shown) as server, lab.opened(server, "nb.ipynb", screen) as notebook:
        notebook.run_all()
        notebook.output("all tried")
        notebook.page.locator(".jp-OutputArea-output img[src^='data:image/png']").first.wait_for()
        # The server has handled the requests of the outputs once it has answered a later request of the page.
        notebook.page.evaluate("fetch('/api/status').then(answer => answer.text())")
        notebook.page.wait_for_load_state("networkidle")
    reached = {path.name for path in shown.iterdir() if path.name in _WAYS}
    if guarded:
        assert reached == set()
    else:  # JupyterLab 4.6 allows all of them except the picture; later versions may allow fewer than that
        assert reached >= {"javascript", "script"}
