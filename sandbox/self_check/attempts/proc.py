"""Attempts to escape or to learn about the host through /proc, /sys and the control groups."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_OWN_PIDS = "/proc shows only the box's own pid namespace"
_NOT_DUMPABLE = "the job cannot inspect process 1, which has the same minimal root folder as the job"
_READ_ONLY = "/proc is mounted read-only in the box"
_NO_SYS = "the box has no /sys, or everything in /sys except the control groups is masked"

_BYSTANDER = "see a process of the host"

# This code searches other processes only for the secret, and reports nothing else about them.
_EVERY = """
begins = '@BEGINS@'[::-1].encode()
for path in glob.glob('/proc/[0-9]*/{name}'):
    try:
        if begins in open(path, 'rb').read() and '/%d/' % os.getpid() not in path: worked(path)
    except OSError: pass
"""

# harmless, because these attempts only read
_LOOKS = (
    ("read the environment of every process", _EVERY.format(name="environ"), _OWN_PIDS),
    ("read the command line of every process", _EVERY.format(name="cmdline"), _OWN_PIDS),
    (_BYSTANDER, "if os.path.exists('/proc/@PID@/cmdline'):\n"
     "    if '-canary-' in open('/proc/@PID@/cmdline').read(): worked()", _OWN_PIDS),
    ("see processes outside the box",
     "own = {p for p in os.listdir('/proc') if p.isdigit()}\nif len(own) > 8: worked(sorted(own))", _OWN_PIDS),
    ("reach the host through the root of any process",
     "for path in glob.glob('/proc/[0-9]*'):\n    try: print(open(path + '/root@CANARY@').read())\n"
     "    except OSError: pass", _NOT_DUMPABLE),
    ("reach the host through the working directory of process 1", "print(open('/proc/1/cwd/@CANARY@').read())",
     _NOT_DUMPABLE),
    ("find the self-check's secret in the job's own memory", """
begins = '@BEGINS@'[::-1].encode()
with open('/proc/self/mem', 'rb') as memory:
    for line in open('/proc/self/maps'):
        area = line.split()
        low, high = (int(n, 16) for n in area[0].split('-'))
        if area[1][0] != 'r' or high - low > 64 << 20: continue
        try:
            memory.seek(low); data = memory.read(high - low)
        except (OSError, ValueError, OverflowError): continue
        at = data.find(begins)
        while at >= 0:
            after = data[at + len(begins):at + len(begins) + 16]
            if len(after) == 16 and all(c in b'0123456789abcdef' for c in after): worked(line)
            at = data.find(begins, at + 1)
        del data
""", "the template was started with an empty environment, and never sees the engine's data"),
    ("read the kernel's memory", "open('/proc/kcore', 'rb').read(64)\nworked()", "reading /proc/kcore needs root and CAP_SYS_RAWIO"),
    ("read the addresses of the kernel", """
lines = [line.split() for line in open('/proc/kallsyms')][:200]
if any(int(line[0], 16) for line in lines): worked()
""", "without CAP_SYSLOG the kernel shows zeros"),
    ("read the kernel's log", "os.read(os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK), 64)\nworked()",
     "reading /proc/kmsg needs CAP_SYSLOG"),
    ("read the layout of the kernel's memory", """
for name in ('slabinfo', 'vmallocinfo', 'pagetypeinfo', 'timer_list', 'sched_debug', 'iomem'):
    try: text = open('/proc/' + name).read()
    except OSError: continue
    if name == 'iomem' and not any(int(line.split('-')[0].strip(), 16) for line in text.splitlines()): continue
    if text: worked(name)
""", "only root of the host may read the contents"),
    ("see the numbers of physical page frames", """
data = open('/proc/self/pagemap', 'rb')
data.seek((id(data) >> 12) * 8)
if struct.unpack('Q', data.read(8))[0] & ((1 << 55) - 1): worked()
""", "without CAP_SYS_ADMIN the kernel shows no frame numbers"),
    ("find information about the machine in /sys", """
for path in glob.glob('/sys/*/*'):
    if path != '/sys/fs/cgroup' and not (os.path.isdir(path) and not os.listdir(path)): worked(path)
""", _NO_SYS),
    ("read firmware variables", """
for path in ('/sys/firmware/dmi/tables/DMI', '/sys/firmware/efi/efivars', '/sys/kernel/debug/x'):
    if os.path.exists(path): worked(path)
""", _NO_SYS),
    ("see the path of the box's control group on the host", """
for line in open('/proc/self/cgroup'):
    if line.strip().split(':', 2)[2] not in ('/', ''): worked(line)
""", "the box has a cgroup namespace of its own and sees only its root"),
    ("see the host's sockets", """
for name in ('tcp', 'udp', 'unix'):
    text = open('/proc/net/' + name).read()
    if '@ABSTRACT@' in text or ':%04X ' % @TCP_PORT@ in text: worked(name)
""", "the box has a network namespace of its own"),
    ("see the keys in the host's keyrings", "if '@MARK@' in open('/proc/keys').read(): worked()", "the box has no keys of the host, and cannot join the host's keyrings"),
)  # fmt: skip

_CHANGES = (
    ("write the memory of process 1", "os.open('/proc/1/mem', os.O_RDWR)\nworked()", _NOT_DUMPABLE),
    ("read the memory map of process 1", "if open('/proc/1/maps').read(): worked()", _NOT_DUMPABLE),
    ("open the descriptors of process 1", "os.listdir('/proc/1/fd')\nworked()", _NOT_DUMPABLE),
    ("read a descriptor of process 1", "for n in range(32): refused(lambda: os.open(f'/proc/1/fd/{n}', os.O_RDONLY))",
     _NOT_DUMPABLE),
    ("read the kernel stack of process 1", "if open('/proc/1/stack').read(): worked()", _NOT_DUMPABLE),
    ("join the namespaces of process 1",
     "for name in os.listdir('/proc/self/ns'): refused(lambda: os.open('/proc/1/ns/' + name, os.O_RDONLY))",
     _NOT_DUMPABLE),
)  # fmt: skip

_PROGRAM = "/work/x"

_WRITES = (
    ("make the host run a program when a process crashes", "/proc/sys/kernel/core_pattern", "|/tmp/x"),
    ("make the host run a program for a missing module", "/proc/sys/kernel/modprobe", _PROGRAM),
    ("make the host run a program for a device event", "/proc/sys/kernel/hotplug", _PROGRAM),
    ("use the magic SysRq key", "/proc/sysrq-trigger", "?"),  # if this write ever succeeds, "?" only prints help
    ("register a binary format", "/proc/sys/fs/binfmt_misc/register", ":x:M::x::/tmp/x:"),
    ("turn off address randomisation", "/proc/sys/kernel/randomize_va_space", "2"),
    ("choose the next process id", "/proc/sys/kernel/ns_last_pid", "40"),
    ("change a limit of user namespaces", "/proc/sys/user/max_user_namespaces", "1000"),
    ("change the host name through /proc", "/proc/sys/kernel/hostname", "@MARK@"),
    ("enable the forwarding of packets", "/proc/sys/net/ipv4/ip_forward", "1"),
    ("bind an interrupt to a processor", "/proc/irq/0/smp_affinity", "1"),
    ("change the priority of process 1's scheduling group", "/proc/1/autogroup", "19"),
    ("make the kernel run a program when a control group becomes empty", "/sys/fs/cgroup/release_agent", _PROGRAM),
    ("leave the box's control group", "/sys/fs/cgroup/cgroup.procs", "0"),
)

_WRITE = "f = os.open('{path}', os.O_WRONLY)\nos.write(f, b'{text}')\nworked()"

ATTEMPTS = (
    *(
        Attempt(
            AttemptFamily.PROC,
            attempt,
            Language.PYTHON,
            code,
            why,
            harmless=True,
            stop_on_success=attempt == _BYSTANDER,
        )
        for attempt, code, why in _LOOKS
    ),
    *(
        Attempt(AttemptFamily.PROC, attempt, Language.PYTHON, code, why, only=FILTERED)
        for attempt, code, why in _CHANGES
    ),
    *(
        Attempt(AttemptFamily.PROC, attempt, Language.PYTHON, _WRITE.format(path=path, text=text), _READ_ONLY)
        for attempt, path, text in _WRITES
    ),
)
