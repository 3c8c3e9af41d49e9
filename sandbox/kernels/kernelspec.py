"""Installs, finds and removes kernelspecs of Knackbox, by which Jupyter finds kernels in boxes.

Knackbox must be installed in the same environment as Jupyter; otherwise Jupyter does not find the provisioner and hides
the kernel.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

PROVISIONER = "knackbox"  # the entry point of `sandbox.kernels.provisioner`
NAME = "knackbox"
DISPLAY_NAME = "Python (in a box)"
# A box in the colours of Python.
_LOGO = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" width="64" height="64">
<path d="M32 4 58 17v30L32 60 6 47V17z" fill="#fff" stroke="#444" stroke-width="3" stroke-linejoin="round"/>
<path d="M6 17 32 30 58 17M32 30v30" fill="none" stroke="#444" stroke-width="3" stroke-linejoin="round"/>
<circle cx="19" cy="38" r="6" fill="#3776ab"/><circle cx="45" cy="38" r="6" fill="#ffd43b"/>
</svg>
"""


class SpecRefused(Exception):
    """A kernelspec could not be installed or removed. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed kernelspec of Knackbox. `config` is passed to the provisioner."""

    name: str
    display_name: str
    folder: Path
    config: Mapping[str, Any]


def content(display_name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of Jupyter's `kernel.json`. `config` maps traits of `KnackboxProvisioner` to values."""
    return {
        "argv": [sys.executable, "-m", "sandbox.kernels.no_provisioner", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "signal",
        "metadata": {
            "debugger": False,
            "kernel_provisioner": {"provisioner_name": PROVISIONER, "config": dict(config)},
        },
    }


def install(
    name: str, display_name: str, config: Mapping[str, Any], *, prefix: str | None, replace: bool = False
) -> Installed:
    """Install a kernelspec below `prefix`, or for this user if `prefix` is None.

    An existing kernelspec with this name is replaced only if it is a kernelspec of Knackbox or `replace` is set.

    Raises:
        SpecRefused: The name is invalid or taken, or the files cannot be written.
    """
    manager = KernelSpecManager(log=silent())
    name = name.lower()  # Jupyter lower-cases names
    target = Path(prefix, "share", "jupyter", "kernels", name) if prefix else Path(manager.user_kernel_dir, name)
    if name.startswith("."):
        raise SpecRefused(f"{name!r} is not a valid kernel name: it begins with a dot. Choose another one with --name.")
    if os.path.lexists(target) and not replace and not _is_ours(target):
        raise SpecRefused(
            f"{target} already exists and is not a kernelspec of Knackbox. Choose another --name, or use --replace."
        )
    try:
        with tempfile.TemporaryDirectory() as made:
            Path(made, "kernel.json").write_text(json.dumps(content(display_name, config), indent=1) + "\n", "utf-8")
            Path(made, "logo-svg.svg").write_text(_LOGO, "utf-8")
            if target.is_symlink() or target.is_file():
                target.unlink()  # Jupyter would write through the link
            manager.install_kernel_spec(made, name, user=prefix is None, prefix=prefix)
    except ValueError as error:
        raise SpecRefused(f"{' '.join(str(error).split())} Choose another name with --name.") from error
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecRefused(
            f"{target} cannot be written ({reason}). Choose another place: --user or --prefix."
        ) from error
    return Installed(name, display_name, target, config)


def found() -> Iterator[Installed]:
    """Yield the kernelspecs of Knackbox that Jupyter finds, sorted by name."""
    for name, folder in sorted(KernelSpecManager().find_kernel_specs().items()):
        config = _config_of(Path(folder))
        if config is not None:
            spec = KernelSpec.from_resource_dir(folder)
            yield Installed(name, spec.display_name, Path(folder), config)


def remove(name: str) -> Path:
    """Remove the kernelspec that Jupyter finds by this name, and return its folder.

    Raises:
        SpecRefused: There is no such kernelspec, it is not one of Knackbox, or it cannot be removed.
    """
    manager = KernelSpecManager(ensure_native_kernel=False)
    try:
        folder = Path(manager.get_kernel_spec(name).resource_dir)
    except NoSuchKernel as error:
        names = ", ".join(spec.name for spec in found()) or "none"
        raise SpecRefused(f"there is no kernelspec named {name!r}. Those of Knackbox are: {names}.") from error
    if not _is_ours(folder):
        raise SpecRefused(
            f"{folder} is not a kernelspec of Knackbox. To remove it anyway, run: jupyter kernelspec remove {name}"
        )
    try:
        manager.remove_kernel_spec(name.lower())
    except OSError as error:
        raise SpecRefused(f"{folder} cannot be removed ({error.strerror or error}).") from error
    return folder


def silent() -> logging.Logger:
    """Return a logger that discards everything, for libraries that also log the exceptions that they raise."""
    log = logging.getLogger("knackbox.silent")
    log.disabled = True
    return log


def _is_ours(folder: Path) -> bool:
    return _config_of(folder) is not None


def _config_of(folder: Path) -> Mapping[str, Any] | None:
    """Return the config of the provisioner; None if the kernelspec names another provisioner or is unreadable."""
    try:
        named = json.loads((folder / "kernel.json").read_bytes())["metadata"]["kernel_provisioner"]
        ours = named["provisioner_name"] == PROVISIONER
        config = named.get("config", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return config if ours and isinstance(config, dict) else None


class OneSpec(KernelSpecManager):
    """Provides one kernelspec that is not installed, so that a kernel can be run without Jupyter's search."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self._spec = KernelSpec(resource_dir="", **content(DISPLAY_NAME, config))

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:  # noqa: ARG002 -- the interface's
        return self._spec
