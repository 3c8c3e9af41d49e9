"""The supervisor: the process between the engine and a template, in a separate interpreter. Standard library only.

The supervisor outlives the engine just long enough to kill the template, and with it every box. It still sees the
host's files, which the template does not: at the engine's request, it opens workspaces for boxes as detached mounts.
"""

import contextlib
import os
import select
import signal
import socket
import stat
from typing import Any

from sandbox.forkserver import in_box_modules, open_files, orders
from sandbox.linux import cgroups, syscalls
from sandbox.namespace import rootfs
from sandbox.namespace.outside_watch import UNWATCHABLE, OutsideWatch, Watches
from sandbox.namespace.pulse import Pulse
from sandbox.namespace.template import NamespaceTemplate, NamespaceTemplatePlan

_MOST_SHOWN = 3  # descriptors that come with an order to watch a box
_OVERFLOW_MAP = 4_294_967_295  # length of the identity map of the initial user namespace


def main(ours: socket.socket, theirs: socket.socket, wanted: dict[str, Any]) -> None:
    """Start the template, and carry out orders until the engine or the template ends.

    Args:
        ours: The socket that connects this process to the engine.
        theirs: The socket that connects the template to the engine.
        wanted: A `NamespaceTemplateConfig`, as a dict.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the engine, which then shuts down in order
    try:
        open_files.ensure_enough()
    except OSError as problem:
        orders.send(theirs, {"op": "broken", "error": str(problem), "remedy": open_files.REMEDY})
        return
    try:
        box_uid = _enter_namespaces(wanted["box_uid"])
        plan = NamespaceTemplatePlan(
            root=rootfs.RootPlan(tuple(wanted["packages"])),
            preload=tuple(wanted["preload"]),
            in_box=in_box_modules.read(wanted["source"], wanted["in_box"]),
            box_uid=box_uid,
            path=tuple(wanted["path"]),
            init=wanted["init"],
        )
        groups = cgroups.of_this_process()
        template = _start_template(plan, groups, theirs, ours)
    except OSError as problem:
        orders.send(theirs, {"op": "broken", "error": str(problem)})
        return
    theirs.close()
    _serve(ours, template, box_uid, groups)
    if groups:
        groups.close()


def _enter_namespaces(box_uid: int) -> int:
    """Enter a new mount namespace and, for children, a new pid namespace. Without root, enter a user namespace first.

    Returns:
        The id of the host user that a box's user is mapped to, as seen from the namespaces that were entered.
    """
    root_outside = _outside(0)
    if os.geteuid() == 0 and root_outside == 0 and _whole_id_map():
        syscalls.unshare(syscalls.CLONE_NEWNS)
    elif os.geteuid() == 0 and root_outside == 0:
        raise OSError(
            "Knackbox runs as root in a user namespace that does not map all users, so boxes would run as root; "
            "start it as an ordinary user, or outside that namespace"
        )
    else:
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as out:
                out.write(text)
        box_uid = 0  # the user who started this process: no other can be mapped without privileges
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
    syscalls.unshare(syscalls.CLONE_NEWPID)
    return box_uid


def _whole_id_map() -> bool:
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        return int(lines.read().split()[2]) == _OVERFLOW_MAP


def _outside(uid: int) -> int:
    """Return the id of a user in the surrounding user namespace; -1 when it is not mapped."""
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        for line in lines:
            inside, outside, length = (int(part) for part in line.split())
            if inside <= uid < inside + length:
                return outside + uid - inside
    return -1


def _start_template(
    plan: NamespaceTemplatePlan, groups: cgroups.Groups | None, control: socket.socket, not_for_it: socket.socket
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        not_for_it.close()
        NamespaceTemplate(plan, control, groups).serve()
        code = 0
    except BaseException as problem:  # noqa: BLE001  (any failure is reported to the engine)
        orders.send(control, {"op": "broken", "error": f"{type(problem).__name__}: {problem}"})
    finally:
        os._exit(code)


def _serve(control: socket.socket, template: int, box_uid: int, groups: cgroups.Groups | None) -> None:
    """Carry out orders until the engine or the template ends, then kill the template."""
    ended = os.pidfd_open(template)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(ended, select.POLLIN)
    pulse = Pulse(cgroups.find() if groups else None)
    watches = Watches()
    id_maps: dict[tuple[int, int], int] = {}
    while True:
        waits = [each for each in (pulse.wait_ms, watches.wait_ms()) if each is not None]
        ready = [descriptor for descriptor, _ in poller.poll(min(waits) if waits else None)]
        pulse.beat()
        for box_id, reason in watches.look():
            orders.send(control, {"op": "over", "id": box_id, "reason": reason})
        if ended in ready:
            break
        if not ready:
            continue
        order, descriptors = orders.receive_with(control, _MOST_SHOWN)
        if order is None:
            break
        if order["op"] == "pulse":
            pulse.extend()
        elif order["op"] == "watch":
            group = groups.to_read(order["id"]) if groups else None
            if not _begin_watch(watches, order, descriptors, group):
                orders.send(control, {"op": "over", "id": order["id"], "reason": UNWATCHABLE})
        elif order["op"] == "unwatch":
            orders.send(control, {"op": "watched", "id": order["id"], **watches.end(order["id"])})
        else:
            _answer_with_workspace(control, order, box_uid, id_maps)
    with contextlib.suppress(ProcessLookupError):
        os.kill(template, signal.SIGKILL)
    orders.send(control, {"op": "ended", "status": os.waitpid(template, 0)[1]})


def _begin_watch(watches: Watches, order: dict[str, Any], descriptors: list[int], group: cgroups.Group | None) -> bool:
    """Begin to watch a box. If that is impossible, close the descriptors and return False."""
    try:
        watches.begin(order["id"], OutsideWatch(order, descriptors, group))
    except (OSError, ValueError, KeyError):  # such as a descriptor that could not be received
        for descriptor in (*descriptors, *(group.files if group else ())):
            if descriptor >= 0:
                os.close(descriptor)
        return False
    return True


def _answer_with_workspace(
    control: socket.socket, order: dict[str, Any], box_uid: int, id_maps: dict[tuple[int, int], int]
) -> None:
    try:
        tree = _open_workspace(order["path"], writable=order["writable"], box_uid=box_uid, id_maps=id_maps)
        try:
            orders.send(control, {"op": "mount", "id": order["id"]}, [tree])
        finally:
            os.close(tree)
    except OSError as problem:
        orders.send(control, {"op": "failed", "id": order["id"], "error": str(problem)})


def _open_workspace(path: str, *, writable: bool, box_uid: int, id_maps: dict[tuple[int, int], int]) -> int:
    """Open the folder as a detached, ID-mapped mount, in which its owner's files belong to the box's user.

    Raises:
        OSError: The folder cannot be mounted in this way.
    """
    if not os.path.isabs(path) or os.path.realpath(path) == "/":
        raise OSError(f"{path} is not a workspace: give the absolute path of a folder below /")
    tree = syscalls.open_tree(path, recursive=False)
    attributes = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV
    attributes |= 0 if writable else syscalls.MOUNT_ATTR_RDONLY
    try:
        found = os.fstat(tree)  # checks the folder that was opened, even if its path now leads elsewhere
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{path} is not a folder")
        owner = (found.st_uid, found.st_gid)
        if box_uid == 0:  # the files of an ordinary user already appear as the box's
            syscalls.mount_setattr(tree, attributes, recursive=False)
        else:
            if owner not in id_maps:
                id_maps[owner] = _id_map(*owner, box_uid)
            attributes |= syscalls.MOUNT_ATTR_IDMAP
            syscalls.mount_setattr(tree, attributes, user_namespace=id_maps[owner], recursive=False)
    except OSError:
        os.close(tree)
        raise
    return tree


def _id_map(owner: int, group: int, box_uid: int) -> int:
    """Return a descriptor of a user namespace that maps files of `owner` to `box_uid`."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            pid = os.fork()
            if pid == 0:
                try:
                    ours.close()
                    syscalls.unshare(syscalls.CLONE_NEWUSER)
                    theirs.send(b"u")
                    theirs.recv(1)
                finally:
                    os._exit(0)
        try:
            ours.recv(1)  # b"" if it has failed; then the files below are those of this namespace, and are refused
            for name, inside in (("uid_map", owner), ("gid_map", group)):
                with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as out:
                    out.write(f"{inside} {box_uid} 1")
            return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            ours.close()
            os.waitpid(pid, 0)
