"""Loads `sandbox.contract.InBoxModules` into a template, before its first fork. Standard library only.

The supervisor reads them, because a template does not see the host's files. The template runs them after its packages
have been imported, because they may import those. They have no `__file__`: its folder is not visible in a box.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

from sandbox import worker

_EMPTY = compile("", "", "exec")


def read(source: str, names: Sequence[str]) -> dict[str, CodeType]:
    """Return the code of modules below the folder `source`, by name. The packages that contain them are left out.

    Raises:
        OSError: A module cannot be read.
    """
    found = {}
    for name in names:
        path = f"{source}/{name.replace('.', '/')}.py"
        with open(path, "rb") as file:  # noqa: PTH123  (pathlib would be loaded in every template)
            found[name] = compile(file.read(), worker.OWN_FILES + name, "exec", dont_inherit=True)
    return found


def load(modules: Mapping[str, CodeType]) -> None:
    """Import the modules, which stay in `sys.modules` without a loader, since its code is that of the host's files."""
    finder = _InBoxFinder(modules)
    sys.meta_path.insert(0, finder)
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)
    for name in finder.found:
        module = sys.modules[name]
        module.__loader__ = None
        if module.__spec__ is not None:
            module.__spec__.loader = None


class _InBoxFinder:
    """Finds the modules, and packages without content for them, and runs them: a finder and a loader of `importlib`."""

    def __init__(self, modules: Mapping[str, CodeType]) -> None:
        self.found: list[str] = []
        self._modules = modules
        self._packages = {name.rsplit(".", depth)[0] for name in modules for depth in range(1, name.count(".") + 1)}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if name in self._modules or name in self._packages:
            self.found.append(name)
            return ModuleSpec(name, self, is_package=name in self._packages)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._modules.get(module.__name__, _EMPTY), vars(module))  # noqa: S102 -- Knackbox's own modules
