"""The supervisor of a template: a process that the engine starts in a separate interpreter. Standard library only.

It starts the template. It ends when the engine ends, and then kills every process that it has started. It also opens
workspaces, and passes their descriptors to the engine.
"""

import contextlib
import os
import select
import signal
import socket
import stat
from typing import Any

from sandbox.forkserver import in_box_modules, open_files, orders
from sandbox.landlock_only import places, template
from sandbox.landlock_only.family import ProcessFamily, die_with_parent, end_on_sigterm
from sandbox.linux import cgroups

_TEMPLATE_ENDS_MS = 3000


def main(ours: socket.socket, theirs: socket.socket, wanted: dict[str, Any]) -> None:
    """Start the template and serve until the engine or the template ends.

    Args:
        ours: The socket that connects this process to the engine.
        theirs: The socket that connects the template to the engine.
        wanted: A `LandlockTemplateConfig`, as a dict.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the engine, which then shuts down cleanly
    try:
        open_files.ensure_enough()
    except OSError as problem:
        orders.send(theirs, {"op": "broken", "error": str(problem), "remedy": open_files.REMEDY})
        return
    try:
        family = ProcessFamily.found()
        base, _lock = places.make_base(wanted["folder"], for_others=wanted["first_uid"] >= 0)
    except OSError as problem:
        orders.send(theirs, {"op": "broken", "error": str(problem)})
        return
    groups = cgroups.of_this_process()
    try:
        plan = template.LandlockTemplatePlan(
            source=wanted["source"],
            preload=tuple(wanted["preload"]),
            in_box=in_box_modules.read(wanted["source"], wanted["in_box"]),
            packages=tuple(wanted["packages"]),
            path=tuple(wanted["path"]),
            readable=tuple(wanted["readable"]),
            base=base,
            first_uid=wanted["first_uid"],
            uids=wanted["uids"],
        )
        pid = _start_template(plan, groups, theirs, ours)
        theirs.close()
        _serve(ours, pid)
    finally:
        family.kill()
        places.remove_base(base)
        if groups:
            groups.close()


def _start_template(
    plan: template.LandlockTemplatePlan,
    groups: cgroups.Groups | None,
    control: socket.socket,
    not_for_it: socket.socket,
) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        end_on_sigterm()
        die_with_parent(parent, signal.SIGTERM)
        not_for_it.close()
        template.run(plan, control, groups, ProcessFamily.found())
        code = 0
    except EOFError:
        code = 0
    except BaseException as problem:  # noqa: BLE001  (any failure is reported to the engine)
        orders.send(control, {"op": "broken", "error": f"{type(problem).__name__}: {problem}"})
    finally:
        os._exit(code)


def _serve(control: socket.socket, template_pid: int) -> None:
    """Carry out orders until the engine or the template ends."""
    ended = os.pidfd_open(template_pid)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(ended, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poller.poll()]
        order = None if ended in ready else orders.receive(control)
        if order is None:
            break
        if order["op"] != "open":  # a pulse is not needed: boxes join their groups without it
            continue
        try:
            folder = _open_workspace(order["path"])
        except OSError as problem:
            orders.send(control, {"op": "failed", "id": order["id"], "error": str(problem)})
        else:
            orders.send(control, {"op": "mount", "id": order["id"]}, [folder])
            os.close(folder)
    # The template ends its boxes and removes their folders, even if this process is killed in the meantime.
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(ended, signal.SIGTERM)
    poller.unregister(control)
    if poller.poll(_TEMPLATE_ENDS_MS):
        orders.send(control, {"op": "ended", "status": os.waitpid(template_pid, 0)[1]})


def _open_workspace(path: str) -> int:
    """Return a path descriptor (O_PATH) of the folder.

    Raises:
        OSError: The folder cannot be opened.
    """
    if not os.path.isabs(path) or os.path.realpath(path) == "/":
        raise OSError(f"{path} is not a workspace: give the absolute path of a folder below /")
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(folder).st_mode):
        os.close(folder)
        raise NotADirectoryError(f"{path} is not a folder")
    return folder
