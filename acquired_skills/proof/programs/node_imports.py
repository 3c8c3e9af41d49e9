"""Checks what the files of a Node skill import: their own files, packages among them, and Node's modules (SKILL-22)."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping

from acquired_skills.in_box.common_js import without_comments

_JAVASCRIPT = (".js", ".mjs", ".cjs")
_STATIC = re.compile(
    r"""^[ \t]*(?:import\b(?:[^'";=()]{0,2000}\bfrom)?|export\b[^'";=()]{0,2000}\bfrom)\s*(['"])"""
    r"""(?P<target>[^'"\n]+)\1""",
    re.MULTILINE,
)
_CALLED = re.compile(r"""(?<![\w$.])(?P<how>require|import)\s*\(\s*(['"])(?P<target>[^'"\n]+)\2\s*\)""")
_PACKAGES = "node_modules"
_BUILT_IN = frozenset(
    re.findall(
        r"\w+",
        """
    assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain events
    fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl stream
    string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib
""",
    )
)  # modules of Node that need no prefix


def import_problems(code: str, files: Mapping[str, str]) -> list[str]:
    """Return a problem if the program imports a file or a package that is not among its files.

    Of several such imports only the first is named.
    """
    sources = {"": code, **{path: text for path, text in files.items() if path.endswith(_JAVASCRIPT)}}
    for path, text in sources.items():
        for target, required in _imports(text):
            if problem := _problem(path, target, files.keys(), required=required):
                return [problem]
    return []


def _imports(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what a file imports, and whether it does so with `require`, which completes paths."""
    text = without_comments(text)
    yield from ((match["target"], False) for match in _STATIC.finditer(text))
    yield from ((match["target"], match["how"] == "require") for match in _CALLED.finditer(text))


def _problem(path: str, target: str, files: Collection[str], *, required: bool) -> str:
    said = f"`{path}` imports" if path else "It imports"
    if target.startswith("."):
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        endings = ("", ".js", ".json", "/index.js", "/index.json", "/package.json") if required else ("",)
        if any(wanted + each in files for each in endings):
            return ""
        return f"{said} `{target}`, which is not among its files: pass it in `files`, under this path."
    package = "/".join(target.split("/")[: 2 if target.startswith("@") else 1])
    if target.startswith("node:") or package in _BUILT_IN or _has_package(package, files):
        return ""
    if target.startswith(("/", "#")) or "/" in package:
        return (
            f"{said} `{target}`, which cannot be resolved in a box. Send the module in `files` and import it as "
            "`./<name>.mjs`."
        )
    return (
        f"{said} `{target}`, but packages cannot be installed. Send its files in `files` below `{_PACKAGES}`, such as "
        f"`{_PACKAGES}/{package}/index.js`, with its `package.json`; or use a module of Node (`node:fs`)."
    )


def _has_package(package: str, files: Collection[str]) -> bool:
    return any(path.startswith(f"{_PACKAGES}/{package}/") for path in files)
