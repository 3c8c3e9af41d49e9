"""Runs JupyterLab on the loopback address with separate folders, and opens its page in a headless Chromium."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, sync_playwright

from tests.eventually import eventually_sync
from tests.sandbox.kernels.jupyter.private import WAIT_S, variables

CHROMIUM = "/usr/bin/chromium"  # Debian's
_RUN_ALL, _INTERRUPT, _RESTART = "runmenu:run-all", "kernelmenu:interrupt", "kernelmenu:restart"


@dataclass(frozen=True)
class Server:
    url: str
    token: str
    pid: int


@contextmanager
def serving(home: Path, notebooks: Path) -> Iterator[Server]:
    """Start the server on a free port. It ends with its kernels at the end of the block."""
    words = (
        *("-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={notebooks}"),
        *("--allow-root", "--LabApp.news_url=", "--LabApp.extension_manager=readonly"),
    )
    log = home / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *words], env={**os.environ, **variables(home)}, stdout=out, stderr=out, cwd=notebooks
        )
    try:
        facts = listening(Path(variables(home)["JUPYTER_RUNTIME_DIR"], f"jpserver-{process.pid}.json"), process, log)
        yield Server(f"http://127.0.0.1:{facts['port']}", facts["token"], process.pid)
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening(place: Path, process: "subprocess.Popen[bytes]", log: Path) -> dict[str, Any]:
    """Return what the server writes to its file once it listens."""

    def written() -> dict[str, Any]:
        assert process.poll() is None, "JupyterLab did not start: " + log.read_text()[-2000:]
        try:
            return dict(json.loads(place.read_text()))
        except (FileNotFoundError, ValueError):  # not written yet, or not completely
            return {}

    return eventually_sync(written, deadline_s=WAIT_S)


class Notebook:
    """A notebook open in JupyterLab, operated like a person does."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def choose(self, menu: str, command: str) -> None:
        self.page.locator(f".lm-MenuBar-itemLabel:text-is('{menu}')").click()
        self.page.locator(f"li.lm-Menu-item[data-command='{command}']").click()

    def run_all(self) -> None:
        self.choose("Run", _RUN_ALL)

    def interrupt(self) -> None:
        self.choose("Kernel", _INTERRUPT)

    def restart(self) -> None:
        self.choose("Kernel", _RESTART)
        self.page.locator(".jp-Dialog button.jp-mod-accept").click()

    def idle(self) -> None:
        """Wait until there is an idle kernel."""
        self.page.locator("#jp-main-statusbar :text('| Idle')").wait_for()

    def output(self, text: str) -> Locator:
        """Wait for an output with this text."""
        found = self.page.locator(".jp-OutputArea-output", has_text=text).first
        found.wait_for()
        return found

    def run_cell(self, number: int) -> None:
        self.page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")


@contextmanager
def opened(server: Server, name: str, picture: Path) -> Iterator[Notebook]:
    """Open the notebook in a browser, with its kernel.

    Args:
        server: The running JupyterLab.
        name: The file of the notebook.
        picture: The file for a screenshot if the block fails.
    """
    # Chromium's own sandbox refuses root. The only pages here are those of the tests.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        page.set_default_timeout(WAIT_S * 1000)
        try:
            page.goto(f"{server.url}/lab/tree/{name}?token={server.token}")
            notebook = Notebook(page)
            page.locator(".jp-Notebook .jp-Cell").first.wait_for()
            notebook.idle()
            yield notebook
        except BaseException:
            page.screenshot(path=picture)
            raise
        finally:
            browser.close()
