"""Kernel protections that several backends report in the same way."""

import os
from pathlib import Path

from sandbox.contract import Protection, State
from sandbox.linux import cgroups, seccomp, system_calls


def seccomp_filter() -> Protection:
    """Report whether system calls can be filtered on this machine."""
    if not system_calls.supported():
        why = f"the filter supports only x86_64 and aarch64, and this machine is {os.uname().machine}"
        return Protection("seccomp", State.ABSENT, True, why, "Use the docker backend.")
    status = Path("/proc/self/status").read_text()
    if "Seccomp:" not in status:
        remedy = "Use a kernel with CONFIG_SECCOMP_FILTER."
        return Protection("seccomp", State.ABSENT, True, "the kernel was built without seccomp", remedy)
    refused = len(seccomp.DENIED) + len(seccomp.UNKNOWN)
    return Protection("seccomp", State.ENFORCED, required=True, detail=f"{refused} calls refused")


def control_group() -> Protection:
    """Report whether this machine's kernel limits and measures a box as a whole."""
    layout = cgroups.find()
    if layout is not None:
        return Protection("cgroup", State.ENFORCED, required=False, detail=f"version {layout.version}, one per box")
    why = "there is no writable memory controller; rlimits limit single processes, and repeated checks the whole box"
    remedy = "Start Knackbox as root, or in a delegated group: `systemd-run --user --scope -p Delegate=yes knackbox …`."
    return Protection("cgroup", State.ABSENT, False, why, remedy)
