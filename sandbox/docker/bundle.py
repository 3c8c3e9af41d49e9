"""Bundles the modules that a container runs into one frame, which is sent on its standard input.

They are not mounted, because a bind mount names a folder on the engine's machine, which may be a different machine.
They are not copied as an archive, because Docker refuses to copy an archive into a container with a read-only root. Any
image with Python works.
"""

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sandbox import worker

MAIN = "sandbox.docker.inside.init"
_ROOT = Path(worker.__file__).parents[1]
MINIMUM_PYTHON = (3, 11)
_BOOT_WAIT_S = 120

# What `python -c` runs. Any Python 3 must be able to parse it, to report that it is too old.
BOOT = f"""
import importlib.abc, importlib.util, json, os, select, struct, sys
if sys.version_info < {MINIMUM_PYTHON}:
    sys.exit("this image has Python %d.%d, which is too old" % sys.version_info[:2])
if not select.select([0], [], [], {_BOOT_WAIT_S})[0]:
    sys.exit("no connection from the engine")  # the engine died between making the container and speaking to it
orders = os.fdopen(0, "rb", buffering=0)
def take(size):
    data = bytearray()
    while len(data) < size:
        more = orders.read(min(size - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
class Orders:
    read = staticmethod(take)
header, body = (take(n) for n in struct.unpack("!IQ", take(12)))
header, sources = json.loads(header), json.loads(body)
class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in sources:
            return importlib.util.spec_from_loader(name, self, is_package=name in header["packages"])
    def exec_module(self, module):
        module.__file__ = {worker.OWN_FILES!r} + module.__name__
        exec(compile(sources[module.__name__], module.__file__, "exec"), module.__dict__)
sys.meta_path.insert(0, Bundle())
main = importlib.import_module(header["main"]).main
sys.meta_path.pop(0)
main(header["preload"], Orders)
"""


def boot_frame(preload: tuple[str, ...]) -> bytes:
    """Return the first frame that a container reads.

    Args:
        preload: Names of modules of the image to import before the job arrives.
    """
    sources, packages = _sources()
    header = {"main": MAIN, "preload": list(preload), "packages": list(packages)}
    return worker.pack(header, json.dumps(sources).encode())


@cache
def _sources() -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the source of the main module and of all modules of `sandbox` that it needs, by name.

    The second value contains the names of those modules that are packages.
    """
    sources: dict[str, str] = {}
    packages: list[str] = []
    wanted = [MAIN]
    while wanted:
        name = wanted.pop()
        if name in sources:
            continue
        place = _ROOT.joinpath(*name.split("."))
        if (place / "__init__.py").is_file():
            packages.append(name)
            place /= "__init__"
        if not place.with_suffix(".py").is_file():
            continue  # an object imported from a module, not a module
        sources[name] = place.with_suffix(".py").read_text(encoding="utf-8")
        wanted += _imports(sources[name])
    return sources, tuple(packages)


def _imports(source: str) -> Iterator[str]:
    """Yield the dotted names below `sandbox` that the source imports, and the packages that contain them."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] == "sandbox":
                yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
