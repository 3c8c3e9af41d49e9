"""`FallbackChains`: the chains in force, read again when their file changes, and what they say to a failed call."""

import json
import logging
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.contract.failure import ConfigError
from engine.contract.spec import ToolSpec
from engine.recovery.chain import Alternative, Chains
from engine.recovery.chains_file import read_chains

_log = logging.getLogger("knackbox.recovery")

_ARGUMENTS_CHARACTERS = 600
_Stamp = tuple[Path, int, int, int]


def shipped_chains() -> Path:
    """The chains file that comes with Knackbox: beside this module when installed, at the top of a checkout."""
    installed = Path(__file__).with_name("fallback_chains.yaml")
    return installed if installed.exists() else Path(__file__).parents[2] / "fallback_chains.yaml"


class FallbackChains:
    """The last good chains of one file, or of another as long as that one is not there.

    The file is looked at (one `stat`) whenever a call failed, so an edit counts from the next failure on, and so does
    making or removing it. An edit that cannot be used keeps the chains as they were; `problem` then says why, and a
    warning is logged once.
    Tools in chains are static tools: skills come and go, and a file must not become wrong by that.
    """

    def __init__(
        self, path: Path, specs: Callable[[], Mapping[str, ToolSpec]], *, otherwise: Path | None = None
    ) -> None:
        """Raises ConfigError when the file cannot be used at the start.

        specs: the static tools by primary name, asked at each reading. otherwise: read while `path` is not there;
        what names an unknown tool in it is left out instead of refused, since not every pack may be installed.
        """
        self._own = path
        self._otherwise = otherwise
        self._specs = specs
        self._stamp: _Stamp | None = None
        self._chains: Chains = {}
        self.problem = ""
        self.skipped: tuple[str, ...] = ()
        stamp = self._look()
        self._read()
        self._stamp = stamp

    @property
    def path(self) -> Path:
        """The one in force."""
        return self._own if self._otherwise is None or self._own.exists() else self._otherwise

    def chains(self) -> Chains:
        """The chains now in force. Reads the file when it changed; never raises for what is in it."""
        stamp = self._look()
        if stamp == self._stamp:
            return self._chains
        self._stamp = stamp
        try:
            self._read()
        except ConfigError as error:
            self.problem = str(error)
            _log.warning("%s The fallback chains stay as they were before this edit.", error)
        return self._chains

    def alternatives(self, tool: str) -> tuple[Alternative, ...]:
        """What to use instead of this tool, best first."""
        return self.chains().get(tool, ())

    def suggestion(self, tool: str, arguments: Mapping[str, Any], offered: Container[str] | None = None) -> str:
        """The alternatives to a failed call in words for the model; empty when there are none.

        offered: the tools that may be named; None is all.
        """
        lines = [_line(each, arguments) for each in self.alternatives(tool) if offered is None or each.tool in offered]
        if self.problem:
            lines.append(f"(The edited fallback chains cannot be used, the earlier ones apply: {self.problem})")
        return "\n".join(["Instead, you can use:", *lines]) if lines else ""

    def _read(self) -> None:
        skipped: list[str] = []
        lenient = self.path == self._otherwise
        self._chains = read_chains(self.path, self._specs(), skipped=skipped.append if lenient else None)
        self.skipped = tuple(skipped)
        self.problem = ""
        for each in skipped:
            _log.info("%s; left out, no installed pack has it.", each)

    def _look(self) -> _Stamp | None:
        for path in filter(None, (self._own, self._otherwise)):
            with suppress(OSError):
                status = path.stat()
                return path, status.st_mtime_ns, status.st_size, status.st_ino
        return None


def _line(alternative: Alternative, failed: Mapping[str, Any]) -> str:
    made = alternative.arguments_for(failed)
    text = json.dumps(made, ensure_ascii=False, default=repr) if made else ""
    if len(text) > _ARGUMENTS_CHARACTERS:
        text = f"{text[:_ARGUMENTS_CHARACTERS]}… (as in the call that failed)"
    call = f"`{alternative.tool}`" + (f" with {text}" if text else "")
    return f"- {call}: {alternative.note}" if alternative.note else f"- {call}"
