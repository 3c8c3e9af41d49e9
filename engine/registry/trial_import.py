"""`TrialImport`: tries to import an adapter's new source in a box, before it is imported in this process."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from engine.registry.static import RegistryError
from sandbox.contract import Job, Limits, Sandbox, SandboxError

MOST_BYTES = 16 << 20
_ROOT = Path(__file__).resolve().parents[2]  # the folder that contains our packages
_OURS = ("engine", "sandbox")
_LIMITS = Limits(wall_s=20.0, cpu_s=20.0)
# The process in the box has already imported parts of `sandbox` from another folder, so these are unloaded first.
_CODE = """
import importlib, sys
for each in [name for name in sys.modules if name.split(".")[0] in {ours}]:
    del sys.modules[each]
importlib.import_module({name!r})
"""


class TrialImport:
    """Imports modules in boxes in which the installed packages, Knackbox and the adapter's package are available."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def run(self, name: str, file: Path, source: bytes) -> None:
        """Import the module `name` with this source in a box.

        Args:
            name: The full name of the module.
            file: The module's location, by which its sibling modules are found.
            source: The source to import instead of the file's content.

        Raises:
            RegistryError: The import fails. The message says why.
        """
        files = await asyncio.to_thread(_files, name, file, source)
        code = _CODE.format(ours=set(_OURS), name=name)
        try:
            outcome = await self._sandbox.run(Job(code=code, files=files, limits=_LIMITS))
        except SandboxError as error:
            raise RegistryError(f"it could not be imported in a box ({error}).") from error
        if not outcome.ok:
            said = f"{outcome.error.type}: {outcome.error.message}" if outcome.error else outcome.end.value
            raise RegistryError(f"its import fails in a box: {' '.join(said.split())[:300]}.")


def _files(name: str, file: Path, source: bytes) -> Mapping[str, bytes]:
    """Return the Python files of Knackbox and of the adapter's package, with the new source."""
    parts = name.split(".")
    is_package = file.name == "__init__.py"
    module = Path(*parts, "__init__.py") if is_package else Path(*parts[:-1], f"{parts[-1]}.py")
    root = file.parents[len(module.parts) - 1]
    files: dict[str, bytes] = {}
    total = len(source)
    for base, top in [(root, parts[0]), *((_ROOT, each) for each in _OURS)]:
        for path in sorted((base / top).rglob("*.py")):
            total += path.stat().st_size
            if total > MOST_BYTES:
                raise RegistryError(f"the package {parts[0]} has more than {MOST_BYTES >> 20} MiB of source.")
            files[path.relative_to(base).as_posix()] = path.read_bytes()
    return {**files, module.as_posix(): source}
