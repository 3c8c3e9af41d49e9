"""The process between the engine and a template of this level. Standard library only; run as its own interpreter.

It ends when the engine does, and ends everything it has started with one call. It opens workspaces, as descriptors.
"""

import contextlib
import json
import os
import select
import signal
import socket
import stat
from typing import Any

from sandbox.landlock_only import places, template
from sandbox.landlock_only.family import Family, die_with_parent, end_on_sigterm
from sandbox.namespace import cgroups
from sandbox.namespace.supervisor import _control_groups, _say
from sandbox.namespace.template import MAX_MESSAGE

_TEMPLATE_ENDS_MS = 3000


def main(ours: socket.socket, theirs: socket.socket, wanted: dict[str, Any]) -> None:
    """The engine's sockets for us and for the template, and what the template should be: `forks.start` sends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the engine, which then lets us end in order
    try:
        family = Family.found()
        base, _lock = places.make_base(wanted["folder"], for_others=wanted["first_uid"] >= 0)
    except OSError as problem:
        _say(theirs, {"op": "broken", "error": str(problem)})
        return
    groups = _control_groups()
    try:
        plan = template.TemplatePlan(
            source=wanted["source"],
            preload=tuple(wanted["preload"]),
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
        places.remove(base)
        if groups:
            groups.close()


def _start_template(
    plan: template.TemplatePlan, groups: cgroups.Groups | None, control: socket.socket, not_for_it: socket.socket
) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        end_on_sigterm()
        die_with_parent(parent, signal.SIGTERM)
        not_for_it.close()
        template.run(plan, control, groups, Family.found())
    except EOFError:
        pass
    except BaseException as problem:  # noqa: BLE001  (the engine is told, whatever it was)
        _say(control, {"op": "broken", "error": f"{type(problem).__name__}: {problem}"})
    finally:
        os._exit(0)


def _serve(control: socket.socket, template_pid: int) -> None:
    """Until the engine or the template ends."""
    ended = os.pidfd_open(template_pid)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(ended, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poller.poll()]
        message = b"" if ended in ready else _heard(control)
        if not message:
            break
        order = json.loads(message)
        if order["op"] != "open":  # boxes of this level join their groups as they come
            continue
        try:
            folder = _open_workspace(order["path"])
        except OSError as problem:
            _say(control, {"op": "failed", "id": order["id"], "error": str(problem)})
        else:
            _say(control, {"op": "mount", "id": order["id"]}, [folder])
            os.close(folder)
    # It ends its boxes and removes their folders, also should we be killed meanwhile.
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(ended, signal.SIGTERM)
    poller.unregister(control)
    poller.poll(_TEMPLATE_ENDS_MS)


def _heard(control: socket.socket) -> bytes:
    """The next message, nothing when the engine is gone."""
    try:
        return control.recv(MAX_MESSAGE)
    except ConnectionResetError:
        return b""


def _open_workspace(path: str) -> int:
    """Raises OSError."""
    if not os.path.isabs(path) or os.path.realpath(path) == "/":
        raise OSError(f"{path} is not a workspace: give the absolute path of a folder below /")
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(folder).st_mode):
        os.close(folder)
        raise NotADirectoryError(f"{path} is not a folder")
    return folder
