"""Sets up Jupyter for one test, with separate folders and our kernelspec."""

from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager

from sandbox.kernels import kernelspec

NAME = kernelspec.NAME
WAIT_S = 40


def variables(home: Path) -> dict[str, str]:
    """Return the environment variables that keep Jupyter, IPython and matplotlib out of the user's folders."""
    return {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_PATH": str(home / "share" / "jupyter"),
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
    }


def install(home: Path, **config: Any) -> None:
    """Install our kernelspec where Jupyter finds it if the variables above are set.

    Args:
        home: The folder that contains all files of Jupyter.
        config: Traits of the provisioner.
    """
    kernelspec.install(NAME, "Boxed", config, prefix=str(home))
    assert KernelSpecManager().get_kernel_spec(NAME).display_name == "Boxed"
