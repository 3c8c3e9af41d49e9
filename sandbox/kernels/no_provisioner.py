"""The command in our kernelspec, which only prints why it refuses: `python -m sandbox.kernels.no_provisioner`.

Jupyter's own programs use the provisioner named in the kernelspec, and never run its command. A tool that does not
support provisioners runs the command. If it started ipykernel, a notebook would run outside of any box without anyone
noticing.
"""

import sys

_WHY = (
    "knackbox: this kernel runs in a box only, and the program that started it does not support kernel provisioners. "
    "Open the notebook with JupyterLab, nbclient or papermill on jupyter_client 7 or newer."
)


def main() -> int:
    """Print why the kernel is not started; return the exit code."""
    sys.stderr.write(_WHY + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
