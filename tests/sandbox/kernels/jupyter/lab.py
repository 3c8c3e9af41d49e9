"""JupyterLab on loopback, in folders of its own, and a page of it in a headless Chromium."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, sync_playwright

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
    """The server, on a port that is free; ended, with its kernels, at the end."""
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
    """What the server writes down of itself once it listens."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return dict(json.loads(place.read_text()))
        except (FileNotFoundError, ValueError):  # not yet, or half written
            time.sleep(0.1)
    raise AssertionError("JupyterLab did not start: " + log.read_text()[-2000:])


class Notebook:
    """A notebook open in JupyterLab, used as a person uses it."""

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
        """Wait until there is a kernel, and it rests."""
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
    """The notebook in a browser, with its kernel. picture: where the screen is kept when what is done with it fails."""
    # Chromium's own sandbox refuses root; the pages it sees here are ours.
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
