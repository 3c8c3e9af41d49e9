"""Determines the language of a program in the workspace, and creates the code that starts it in a box."""

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from engine.contract.context import CallContext
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.workspace_folder import folder_of, workspace_failures

LanguageName = Literal["python", "node", "bash"]

_MOST_BYTES = 4 << 20  # bytes; a larger file is assumed not to be a program
_SUFFIXES: dict[str, LanguageName] = {
    ".py": "python",
    ".js": "node",
    ".cjs": "node",
    ".mjs": "node",
    ".sh": "bash",
    ".bash": "bash",
}
_SHEBANG = re.compile(rb"#![^\n]*\b(python|node|bash|sh)[\d.]*(?:\s|$)")
_INTERPRETERS: dict[bytes, LanguageName] = {b"python": "python", b"node": "node", b"bash": "bash", b"sh": "bash"}


@dataclass(frozen=True, slots=True)
class WorkspaceProgram:
    """A file of the workspace to run.

    Attributes:
        text: The content of the file, from which the program's imports are guessed.
    """

    path: str
    language: LanguageName
    text: str

    @property
    def starter(self) -> str:
        """The code that runs the file as its interpreter would: as the main program, with its own file name."""
        match self.language:
            case "python":
                return _PYTHON.format(path=self.path)
            case "node":
                return _NODE.format(path=_quoted(self.path))
            case "bash":
                return f'exec "$BASH" -- ./{shlex.quote(self.path)} "$@"\n'


# `runpy` is not used, because it adds several frames to every traceback; this code adds only one.
_PYTHON = """\
import os, sys
__file__ = sys.argv[0] = os.path.join(os.getcwd(), {path!r})
sys.path.insert(0, os.path.dirname(__file__))
with open(__file__, "rb") as program:
    program = compile(program.read(), __file__, "exec")
exec(program)
"""
_NODE = """\
process.argv[1] = require("path").resolve({path});
require("module").runMain();
"""


def program_of(ctx: CallContext, path: str, language: LanguageName | None) -> WorkspaceProgram:
    """Read a program from the workspace. Blocks.

    Raises:
        ToolFailure: The file is missing or unreadable, or its language is unknown.
    """
    with workspace_failures():
        data = folder_of(ctx).read(path, _MOST_BYTES)
    found = language or language_of(path, data)
    return WorkspaceProgram(str(PurePosixPath(path)), found, data.decode("utf-8", "replace"))


def language_of(path: str, data: bytes) -> LanguageName:
    """Return the language of a program.

    Raises:
        ToolFailure: Neither the suffix nor the first line of the file determines the language.
    """
    shebang = _SHEBANG.match(data)
    by_shebang = _INTERPRETERS[shebang[1]] if shebang else None
    found = _SUFFIXES.get(PurePosixPath(path).suffix.lower()) or by_shebang
    if found is None:
        raise wrong_arguments(
            f"The language of {path} cannot be determined from its suffix or first line. Set `language`."
        )
    return found


def _quoted(path: str) -> str:
    """Return the path as a JavaScript string literal."""
    return '"' + "".join(each if each.isalnum() else f"\\u{{{ord(each):x}}}" for each in path) + '"'
