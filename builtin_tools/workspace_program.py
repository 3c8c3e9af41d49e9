"""Programs that are files of the workspace: which language they are in, and the code that starts them in a box."""

import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from builtin_tools.refusals import wrong_arguments
from builtin_tools.workspace import explained, folder_of
from engine.contract.context import CallContext

LanguageName = Literal["python", "node", "bash"]

_MOST_BYTES = 4 << 20  # a program larger than this is data
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
    """A file of the workspace to run. text: its content, for what can be guessed from it."""

    path: str
    language: LanguageName
    text: str

    @property
    def starter(self) -> str:
        """Code that runs the file as its interpreter would: as the main program, under its own name."""
        match self.language:
            case "python":
                return _PYTHON.format(path=self.path)
            case "node":
                return _NODE.format(path=_quoted(self.path))
            case "bash":
                return f'exec "$BASH" -- ./{shlex.quote(self.path)} "$@"\n'


# The program's own frames come after one of ours in a traceback, as below runpy, but without runpy's.
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
    """Read a program. It may block. Raises ToolFailure when it is missing, or nothing tells its language."""
    with explained():
        data = folder_of(ctx).read(path, _MOST_BYTES)
    shebang = _SHEBANG.match(data)
    by_line = _INTERPRETERS[shebang[1]] if shebang else None
    found = language or _SUFFIXES.get(PurePosixPath(path).suffix.lower()) or by_line
    if found is None:
        raise wrong_arguments(f"Nothing tells which language {path} is in. Give `language` as well.")
    return WorkspaceProgram(str(PurePosixPath(path)), found, data.decode("utf-8", "replace"))


def _quoted(path: str) -> str:
    """Return the text as a JavaScript string literal."""
    return '"' + "".join(each if each.isalnum() else f"\\u{{{ord(each):x}}}" for each in path) + '"'
