"""Determines which protections a container enforces, from the facts that it reports and from Docker's `info`."""

from collections.abc import Mapping
from typing import Any

from sandbox.contract import Protection, Protections, State

_FILTERED = "2"  # SECCOMP_MODE_FILTER in /proc/<pid>/status
_SANDBOXED_KERNEL = "runsc"


def without_engine(backend: str, detail: str, remedy: str) -> Protections:
    """Return the protections if no container could be started: none is enforced."""
    return Protections(backend, (Protection("container", State.ABSENT, True, detail, remedy),))


def of(backend: str, facts: Mapping[str, Any], info: Mapping[str, Any], runtime: str) -> Protections:
    """Return the protections of a container.

    Args:
        backend: The backend's name.
        facts: What the container reported about itself (`sandbox.docker.inside.facts`).
        info: The output of Docker's `info`.
        runtime: The configured runtime; "" for the engine's default.
    """
    name = runtime or str(info.get("DefaultRuntime") or "")
    own_kernel = _SANDBOXED_KERNEL in name
    return Protections(
        backend,
        (
            Protection("container", State.ENFORCED, required=True, detail=f"runtime {name}"),
            *_required(facts, info),
            _seccomp(facts, own_kernel=own_kernel),
            *_optional(facts, own_kernel=own_kernel),
        ),
    )


def _required(facts: Mapping[str, Any], info: Mapping[str, Any]) -> list[Protection]:
    others = [name for name in facts["interfaces"] if name != "lo"]
    writable = facts["writable"]
    volumes = [place for place in writable if place != "/"]
    memory = facts["memory_limit"] or info.get("MemoryLimit")
    processes = facts["process_limit"] or info.get("PidsLimit")
    cgroups = "Enable the cgroup controllers memory and pids for Docker (docker info warns if one is missing)."
    return [
        _held("pid namespace", facts["pid"] == 1, f"the container's first process is {facts['pid']}, not 1"),
        _held("no network", not others, f"the container has the network interfaces {', '.join(others)}"),
        _held("read-only root", "/" not in writable, "the container's root is writable"),
        _held(
            "nothing else writable",
            not volumes,
            f"the container can write to {', '.join(volumes)}",
            "Use an image without VOLUME, because the disk limit does not cover volumes.",
        ),
        _held("no capabilities", facts["capabilities"] == 0, f"the container has {facts['capabilities']:#x}"),
        _held("no new privileges", facts["no_new_privileges"], "a set-uid program would get its owner's rights"),
        _held("ordinary user", facts["uid"] != 0, "the container runs as root"),
        _held("memory limit", bool(memory), "the engine cannot limit memory", cgroups),
        _held("process limit", bool(processes), "the engine cannot limit processes", cgroups),
    ]


def _held(name: str, holds: bool, detail: str, remedy: str = "") -> Protection:
    if holds:
        return Protection(name, State.ENFORCED, required=True)
    return Protection(name, State.ABSENT, required=True, detail=detail, remedy=remedy)


def _seccomp(facts: Mapping[str, Any], *, own_kernel: bool) -> Protection:
    if own_kernel:
        return Protection("seccomp", State.NOT_NEEDED, False, "the runtime handles system calls in its own kernel")
    if facts["worker_seccomp"] == _FILTERED:
        return Protection("seccomp", State.ENFORCED, required=True)
    return Protection(
        "seccomp",
        State.ABSENT,
        True,
        "the job's process has no filter",
        "Run the engine with its default seccomp profile (not seccomp=unconfined).",
    )


def _optional(facts: Mapping[str, Any], *, own_kernel: bool) -> list[Protection]:
    items = []
    if facts["landlock"]:
        items.append(Protection("landlock", State.ENFORCED, False, f"ABI {facts['landlock']}"))
    elif own_kernel:
        items.append(Protection("landlock", State.NOT_NEEDED, False, "the runtime has a kernel of its own"))
    else:
        why = "the kernel has no Landlock, or the engine's seccomp profile refuses it"
        items.append(Protection("landlock", State.ABSENT, False, why, "Use Docker 23 or newer on Linux 5.13 or newer."))
    if facts["own_users"]:
        items.append(Protection("user namespace", State.ENFORCED, required=False))
    else:
        why = "user ids in the container are the host's own"
        items.append(
            Protection("user namespace", State.ABSENT, False, why, "Set userns-remap in the engine's daemon.json.")
        )
    if own_kernel:
        items.append(Protection("own kernel", State.ENFORCED, False, facts["kernel"]))
    else:
        why = f"all containers share the host's kernel ({facts['kernel']})"
        items.append(
            Protection("own kernel", State.ABSENT, False, why, 'Install gVisor and set the runtime to "runsc".')
        )
    return items
