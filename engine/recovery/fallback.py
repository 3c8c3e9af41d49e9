"""`FallbackChains`: keeps the current fallback chains, and suggests alternatives to failed calls."""

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
    """Return the path of the shipped chains file: next to this module, or at the root of a checkout."""
    installed = Path(__file__).with_name("fallback_chains.yaml")
    return installed if installed.exists() else Path(__file__).parents[2] / "fallback_chains.yaml"


class FallbackChains:
    """The fallback chains of the operator's file or, while that file is missing, of a default file.

    The file is checked for changes (one `stat`) whenever a call fails, so edits apply from the next failure on. If an
    edit is invalid, the previous chains stay in use, `problem` says why, and a warning is logged once.
    Chains may name only static tools, because a file must not become invalid when a skill is added or removed.
    """

    def __init__(
        self, path: Path, specs: Callable[[], Mapping[str, ToolSpec]], *, otherwise: Path | None = None
    ) -> None:
        """Read the file.

        Args:
            path: The operator's file.
            specs: Function that returns the static tools by primary name. It is called each time the file is read.
            otherwise: The file to read as long as `path` does not exist. Unknown tools in it are skipped, since the
                packs that provide them may not be installed.

        Raises:
            ConfigError: The file is invalid.
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
        """The path of the file in use."""
        return self._own if self._otherwise is None or self._own.exists() else self._otherwise

    def chains(self) -> Chains:
        """Return the current chains. A changed file is read again; if it is invalid, the previous chains apply."""
        stamp = self._look()
        if stamp == self._stamp:
            return self._chains
        self._stamp = stamp
        try:
            self._read()
        except ConfigError as error:
            self.problem = str(error)
            _log.warning("%s The previous fallback chains stay in use.", error)
        return self._chains

    def alternatives(self, tool: str) -> tuple[Alternative, ...]:
        """Return the alternatives to this tool, best first."""
        return self.chains().get(tool, ())

    def suggestion(self, tool: str, arguments: Mapping[str, Any], offered: Container[str] | None = None) -> str:
        """Return the alternatives to a failed call as text for the model, or "" if there are none.

        Args:
            tool: The failed tool.
            arguments: The arguments of the failed call.
            offered: The tools that may be suggested. None allows all tools.
        """
        lines = [_line(each, arguments) for each in self.alternatives(tool) if offered is None or each.tool in offered]
        if self.problem:
            lines.append(f"(The edited fallback chains are invalid, so the previous ones apply: {self.problem})")
        return "\n".join(["Instead, you can use:", *lines]) if lines else ""

    def _read(self) -> None:
        skipped: list[str] = []
        lenient = self.path == self._otherwise
        self._chains = read_chains(self.path, self._specs(), skipped=skipped.append if lenient else None)
        self.skipped = tuple(skipped)
        self.problem = ""
        for each in skipped:
            _log.info("%s; skipped, because no installed pack provides it.", each)

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
