"""Turns CommonJS modules into ES modules, by code around them (SKILL-22).

`HEADER` has no line break, so the lines of the module keep their numbers. Boxes import this file too, to leave the
added code out when they change a program.
"""

import re

HEADER = (
    'import { createRequire } from "node:module"; const commonJs = { exports: {} }; '
    "(function (exports, require, module, __filename, __dirname) { "
)
FOOTER = (
    "\n}).call(commonJs.exports, commonJs.exports, createRequire(import.meta.url), commonJs, import.meta.filename, "
    "import.meta.dirname);\nexport default commonJs.exports;\n"
)
_COMMENT = re.compile(r"^[ \t]*(/\*|//)", re.MULTILINE)
_ES_MODULE = re.compile(
    r"^[ \t]*(?:import\b\s*[\w$*{'\"]|export\b\s*[\w$*{])|\bexport\s+(?:default|function|const)\b", re.MULTILINE
)
_COMMON_JS = re.compile(r"\bmodule\.exports\b|(?<![\w$.])exports(?:\.[\w$]+|\[[^\]\n]{1,80}\])?\s*=")


def without_comments(code: str) -> str:
    """Replace the comments that begin a line by blanks, so that positions stay the same."""
    parts, at = [], 0
    while match := _COMMENT.search(code, at):
        end = code.find("*/" if match[1] == "/*" else "\n", match.end())
        end = len(code) if end < 0 else end + (match[1] == "/*") * 2
        parts += [code[at : match.start()], re.sub(r"[^\n]", " ", code[match.start() : end])]
        at = end
    return "".join([*parts, code[at:]])


def as_es_module(code: str) -> str:
    """Return a CommonJS module as an ES module, whose default export is `module.exports`.

    Other code is returned as it is.
    """
    text = without_comments(code)
    if _ES_MODULE.search(text) or not _COMMON_JS.search(text):
        return code
    return HEADER + ("//" + code if code.startswith("#!") else code) + FOOTER


def own_range(code: str) -> tuple[int, int]:
    """Return the range of the author's own code in a program that `as_es_module` may have made."""
    if code.startswith(HEADER) and code.endswith(FOOTER):
        return len(HEADER), len(code) - len(FOOTER)
    return 0, len(code)
