"""Prints why no kernel is started: the command in Knackbox's kernelspec, `python -m sandbox.kernels.no_provisioner`.

Jupyter's own programs use the provisioner named in the kernelspec, and never run the command. A tool that does not
support provisioners runs the command. If the command started ipykernel, a notebook would run outside of any box
without anyone noticing.
"""

import sys

_WHY = (
    "knackbox: this kernel runs in a box only, and the program that started it does not support kernel provisioners. "
    "Open the notebook with JupyterLab, nbclient or papermill, with jupyter_client 7 or newer."
)


def main() -> int:
    """Print why the kernel is not started; return the exit code."""
    sys.stderr.write(_WHY + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
