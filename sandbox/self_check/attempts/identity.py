"""Attempts to become another user, or to gain a privilege."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_BOUNDING = "have a capability in the bounding set"
_NO_SETUID = "without CAP_SETUID and CAP_SETGID, a process can only change to ids that it already has"
_BOUNDED = "the bounding set and the permitted set of capabilities are both empty"
_NO_NEW_PRIVS = "no_new_privs is set and cannot be cleared"
_CAPS = """
fields = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if line.startswith("Cap"))
"""

_ROWS = (
    ("become root", "refused(lambda: os.setuid(0))", _NO_SETUID),
    ("become root for file access only", "libc.setfsuid(0)\nif libc.setfsuid(-1) == 0: worked()", _NO_SETUID),
    ("become a user of the host", "refused(lambda: os.setresuid(65534, 65534, 65534))", _NO_SETUID),
    ("join root's group", "refused(lambda: os.setgid(0))", _NO_SETUID),
    ("join more groups", "refused(lambda: os.setgroups([0, 4, 6, 27]))", _NO_SETUID),
    ("be root from the start", "if 0 in (*os.getresuid(), *os.getresgid()): worked()", "the box's user is not root"),
    ("have a capability from the start", _CAPS + "del fields['CapBnd']\nif any(int(v, 16) for v in fields.values()): "
     "worked(fields)", "all sets of capabilities are emptied before the job arrives"),
    (_BOUNDING, _CAPS + "if int(fields['CapBnd'], 16): worked(fields)", "the bounding set is emptied before the job arrives"),
    ("give the job all capabilities", "head = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
     "call(126, head, (ctypes.c_uint32 * 6)(*[0xffffffff] * 6))\nworked()", _BOUNDED),
    ("raise an ambient capability", "call(157, 47, 2, 21, 0, 0)\nworked()", _BOUNDED),
    ("clear the securebits flags", "call(157, 28, 0, 0, 0)\nworked()", "PR_SET_SECUREBITS needs CAP_SETPCAP"),
    ("clear no_new_privs", "call(157, 38, 0, 0, 0, 0)\nworked()", "no_new_privs can be set but not cleared"),
    ("run without no_new_privs", "if libc.prctl(39, 0, 0, 0, 0) != 1: worked()", _NO_NEW_PRIVS),
    ("run without a filter", "if 'Seccomp:\\t2' not in open('/proc/self/status').read(): worked()",
     "the seccomp filter is installed before the job arrives"),
    ("gain rights with a set-uid program of the system", """
nothing = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.DEVNULL)
for path in glob.glob('/usr/bin/*') + glob.glob('/bin/*'):
    if os.path.isfile(path) and os.stat(path).st_mode & 0o6000 and os.access(path, os.X_OK):
        running = subprocess.Popen([path], **nothing)  # it stays in /proc until it is waited for
        status = dict(line.split(':', 1) for line in open(f'/proc/{running.pid}/status'))
        if len({*status['Uid'].split(), str(os.getuid())}) > 1: worked(path)
        if len({*status['Gid'].split(), str(os.getgid())}) > 1: worked(path)
        running.kill(); running.wait()
if os.path.exists('/usr/bin/su'):
    done = subprocess.run(['/usr/bin/su', '-c', 'id -u'], capture_output=True, stdin=subprocess.DEVNULL)
    if done.stdout.strip() == b'0': worked()
""", _NO_NEW_PRIVS),
    ("gain rights with a set-uid copy of a program", """
import shutil
shutil.copy(shutil.which('id'), '/tmp/id')
try:
    os.chmod('/tmp/id', 0o6755)
except PermissionError:
    pass
if subprocess.run(['/tmp/id', '-u'], capture_output=True).stdout.strip() == b'0': worked()
""", _NO_NEW_PRIVS),
    ("gain rights with a file that has capabilities", """
open('/tmp/x', 'w').close()
os.setxattr('/tmp/x', 'security.capability', struct.pack('<5I', 0x02000001, 0xffffffff, 0, 0xffffffff, 0))
worked()
""", "writing file capabilities needs CAP_SETFCAP"),
    ("map more users into the user namespace", "os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 0 1')\nworked()",
     "an id map can be written only once, and /proc is mounted read-only"),
    ("raise a hard limit", """
for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard, hard + 1))
        worked(kind)
    except (ValueError, OSError):
        pass
""", "raising a hard limit needs CAP_SYS_RESOURCE"),
    ("get real-time priority", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))\nworked()",
     "real-time scheduling needs CAP_SYS_NICE"),
    ("raise the job's priority", "os.setpriority(os.PRIO_PROCESS, 0, -10)\nworked()", "raising a priority needs CAP_SYS_NICE"),
    ("be spared by the OOM killer", "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-900')\nworked()",
     "lowering oom_score_adj needs CAP_SYS_RESOURCE, and /proc is mounted read-only"),
    ("lock more memory than is allowed", """
m = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m)))
refused(lambda: call(149, address, 64 << 20))
""", "RLIMIT_MEMLOCK is 64 KiB"),
)  # fmt: skip

ATTEMPTS = tuple(
    Attempt(
        AttemptFamily.IDENTITY,
        attempt,
        Language.PYTHON,
        code,
        why,
        only=FILTERED if attempt == _BOUNDING else frozenset(),  # without namespaces, only root can empty the set
    )
    for attempt, code, why in _ROWS
)
