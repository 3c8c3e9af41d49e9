"""The process that supervises one job of the `landlock` backend.

It waits for the job, changes to the job's user, lets a worker run the job, answers, and exits. It is trusted: the job's
code runs in a child (`sandbox.landlock_only.confine`) whose Landlock rules are nested in this process's own, so that
the child can neither signal nor trace this process. Standard library only.
"""

import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from typing import NoReturn

from sandbox import worker
from sandbox.landlock_only import confine, places, rules
from sandbox.landlock_only.family import ProcessFamily, die_with_parent, end_on_sigterm
from sandbox.landlock_only.watch import FamilyWatch
from sandbox.linux import answer, attend, landlock, syscalls
from sandbox.linux.cgroups import Group
from sandbox.wire import frames, paths

_EVERYBODYS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
# The most threads of a job, unless its process limit is higher. The number is low, because checking all processes of
# the machine is slow while those of a fork bomb compete for the CPU.
_MOST_THREADS = 128
# The files of its own /proc that a process may read; the other files describe the machine.
_OWN_PROC = ("status", "stat", "statm", "maps", "smaps", "cmdline", "comm", "limits", "fd", "fdinfo")


@dataclass(frozen=True)
class LandlockBoxPlan:
    """What each box of a template is created with, the same for all of them.

    Attributes:
        base: The folder in which the boxes' private folders are created.
        readable: Host paths a job may read and run.
        landlock_abi: The version of Landlock.
        first_uid: The first of `uids` reserved user ids; -1 when jobs run as the user who started Knackbox.
        uids: The number of reserved user ids.
        template: The pid of the template. Boxes die with the template.
        filters: The assembled seccomp filters.
    """

    base: str
    readable: tuple[str, ...]
    landlock_abi: int
    first_uid: int
    uids: int
    template: int
    filters: confine.LandlockFilters

    def user_of(self, box_id: int) -> tuple[int, int]:
        """Return (uid, gid) for a job without a workspace."""
        if self.first_uid < 0:
            return os.geteuid(), os.getegid()
        uid = self.first_uid + box_id % self.uids
        return uid, uid


def main(
    plan: LandlockBoxPlan, channel: socket.socket, streams: tuple[int, int], box_id: int, group: Group | None
) -> NoReturn:
    """Run one job and exit. Never returns. Leaves the job's folder empty; the template removes it.

    Args:
        plan: What the box is created with.
        channel: The socket that is connected to the engine.
        streams: The descriptors of stdout and stderr.
        box_id: The number that the engine uses for the box.
        group: The box's control group, if there is one.
    """
    started, family, running, place = False, None, None, places.JobFolder(f"{plan.base}/{box_id}")
    try:
        end_on_sigterm()
        die_with_parent(plan.template, signal.SIGTERM)
        if group:
            group.join()
        family = ProcessFamily.found()
        place.make(*plan.user_of(box_id))
        ruleset = rules.of_worker(plan.landlock_abi, plan.readable, (place.work, place.tmp, *_EVERYBODYS_DEVICES))
        watch = FamilyWatch(place.root, group)
        running = confine.start(confine.LandlockConfinement(plan.filters, ruleset), *streams)
        frame, workspace = frames.receive(channel)
        header = frames.header_of(frame)
        _choose_user(header, plan, box_id, workspace, place)
        _allow(ruleset, running.pid, workspace, plan.landlock_abi if header["mount"] == "through" else 0)
        confine.become(*header["user"])
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)  # keep a worker of the same user out of this process
        die_with_parent(plan.template, signal.SIGTERM)  # again, because the change of user has cleared it
        _relocate(header, place, workspace)
        started = True
        running.hand_over(worker.pack(header, _body_of(frame)))
        if group:
            group.bound(header["limits"])
        watch.begin(header["limits"], running.pid, header["cwd"] if header["mount"] == "through" else "")
        watch.counted_by_kernel = header["nobodys"] or group is not None
        ended = attend.attend(running, channel, header["limits"]["wall_s"], watch)
        channel.sendall(worker.pack(*_conclude(header, ended, watch)))
    except EOFError:  # the engine or the template is gone, or has ordered the end of this job
        pass
    except BaseException as problem:  # noqa: BLE001  (must not return into the template's code)
        with contextlib.suppress(OSError):
            failure = {"kind": "failed", "started": started, "why": f"{type(problem).__name__}: {problem}"[:1000]}
            channel.sendall(worker.pack(failure))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if running is not None:
            with contextlib.suppress(OSError):  # already closed if it has been handed over
                os.close(running.job)  # no job will come: this also ends a worker that still has root's rights
        if family is not None:
            family.kill()
            with contextlib.suppress(FileNotFoundError):
                places.empty(place.root)
        os._exit(0)


def _body_of(frame: bytes) -> bytes:
    size = worker.HEADER.size
    return frame[size + worker.unpack_head(frame[:size])[0] :]


def _choose_user(
    header: worker.Message, plan: LandlockBoxPlan, box_id: int, workspace: int, place: places.JobFolder
) -> None:
    """Choose the job's user, which is never root.

    There are no id-mapped mounts here, so a job with a workspace runs as the owner of the workspace. The header field
    `nobodys` says that the user id is reserved for this job, so the user has no other processes or files.
    """
    header["user"], header["nobodys"] = plan.user_of(box_id), plan.first_uid >= 0
    if workspace >= 0 and os.geteuid() == 0:
        found = os.fstat(workspace)
        if found.st_uid != 0:
            header["user"], header["nobodys"] = (found.st_uid, found.st_gid or header["user"][1]), False
            place.give(*header["user"])


def _allow(ruleset: int, pid: int, workspace: int, abi_to_write: int) -> None:
    """Add the job's paths to the ruleset, which the worker applies once it has received the job.

    `abi_to_write` is the version of Landlock, or 0 if the workspace is read-only.
    """
    for name in _OWN_PROC:
        landlock.allow(ruleset, f"/proc/{pid}/{name}", landlock.READ)
    if workspace >= 0:
        access = landlock.workspace_access(abi_to_write) if abi_to_write else landlock.READ
        # Allow the folder that was opened, even if its path now leads elsewhere.
        landlock.allow(ruleset, f"/proc/self/fd/{workspace}", access)


def _relocate(header: worker.Message, place: places.JobFolder, workspace: int) -> None:
    """Replace the paths in the request, which are meant for a box with its own root, with paths of this machine.

    Raises:
        OSError: The owner of the workspace cannot reach its folder.
    """
    before = header["folder"]
    header["tmp"] = place.tmp
    if workspace >= 0:
        header["cwd"] = os.readlink(f"/proc/self/fd/{workspace}")
        header["folder"] = f"{place.tmp}/job"
        os.stat(f"{header['cwd']}/.")  # fails if the owner may not enter all folders above it
    else:
        header["cwd"] = header["folder"] = place.work
    for name in ("HOME", "TMPDIR"):
        if header["env"].get(name) == paths.TMP:
            header["env"][name] = place.tmp
    command = header["command"]
    script = next((index for index, part in enumerate(command) if part.startswith(f"{before}/main.")), None)
    if script is not None:
        command[script] = header["folder"] + command[script][len(before) :]
    limits = header["limits"]
    limits["threads"] = min(limits["threads"], max(_MOST_THREADS, limits["processes"]))
    limits["file_size_bytes"] = min(limits["file_size_bytes"], limits["disk_bytes"])


def _conclude(header: worker.Message, ended: attend.WorkerEnd, watch: FamilyWatch) -> tuple[worker.Message, bytes]:
    """Return the answer, including a limit that was exceeded only at the end.

    A full disk does not end a job early in this backend.
    """
    over = watch.over_at_the_end()
    said, body = answer.conclude(header, ended, watch)
    if over and said["end"] in ("ok", "error"):
        said["end"] = over
    return said, body
