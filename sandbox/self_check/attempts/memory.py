"""Attempts to hold more memory than a box may use, or to use up limits that all processes of a user share.

Some of the attempts hold memory that the kernel charges to no process, such as the buffers of pipes and sockets.
"""

from sandbox.contract import End, Language, Limits
from sandbox.self_check.attempts.attempt import FILTERED, MB, Attempt, AttemptFamily

PYTHON, NODE, BASH = Language.PYTHON, Language.NODE, Language.BASH
_TREE = "the memory of all processes of the box is counted together"
_BOUNDED = "the memory that the kernel holds for a box is limited"

_SMALL = Limits(wall_s=10, cpu_s=8, memory_bytes=64 * MB, processes=32, open_files=64, disk_bytes=16 * MB)
_NODE_SMALL = Limits(wall_s=20, cpu_s=15, memory_bytes=128 * MB)

_MEMORY_ENDS = (End.MEMORY,)
# The attempt may be refused or ended by the limit, as long as it never holds more memory than allowed.
_REFUSED_OR = (End.MEMORY, End.ERROR, End.OK, End.PROCESSES, End.FILES, End.DISK, End.FILE_SIZE, End.TIMEOUT)

# `stash` counts the bytes that are held. It reports success if they exceed the memory limit, the disk limit and the
# backend's overhead together for longer than the pause between two checks.
HELD_BYTES = 192 * MB
_STASH = f"""
LIMIT = {HELD_BYTES}
held = 0
def stash(size):
    global held
    held += size
    if held > LIMIT:
        time.sleep(0.3)
        worked(f'{{held >> 20}} MiB held')
        os._exit(0)
"""

_MEMORY = (
    ("hold more and more objects", "x = []\nwhile True: x.append(bytearray(8 << 20))", _MEMORY_ENDS),
    ("hold many small objects", "x = []\nwhile True: x.append([len(x)] * 100)", _MEMORY_ENDS),
    ("make one huge object", "x = bytearray(1 << 40)", _MEMORY_ENDS),
    ("double a string repeatedly", "x = 'x'\nwhile True: x += x", _MEMORY_ENDS),
    ("map private memory and touch it", """
x = []
while True:
    m = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b'x' * (8 << 20)); x.append(m)
""", _MEMORY_ENDS),
    ("map shared memory and touch it", """
x = []
while True:
    m = mmap.mmap(-1, 8 << 20); m.write(b'x' * (8 << 20)); x.append(m); time.sleep(0.01)
""", _MEMORY_ENDS),
    ("hold memory in many processes", """
for _ in range(8):
    if os.fork() == 0:
        x = b'x' * (40 << 20); time.sleep(20)
time.sleep(20)
""", _MEMORY_ENDS),
    ("hold memory in processes that share pages with their children", """
for _ in range(6):
    if os.fork() == 0:
        x = b'x' * (40 << 20)
        if os.fork() == 0: time.sleep(20)
        time.sleep(20)
time.sleep(20)
""", _MEMORY_ENDS),
    ("hold memory in processes that are not dumpable", """
libc.prctl(4, 0)
for _ in range(8):
    if os.fork() == 0:
        x = b'x' * (40 << 20); time.sleep(20)
time.sleep(20)
""", _MEMORY_ENDS),
    ("hold memory in daemons", """
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        x = b'x' * (40 << 20); time.sleep(20)
time.sleep(20)
""", _MEMORY_ENDS),
    ("decompress a large block of zeros", "import zlib\nx = zlib.decompress(zlib.compress(bytes(1 << 20)) * 1)\n"
     "d = zlib.decompressobj(); c = zlib.compress(bytes(48 << 20))\ny = [zlib.decompress(c) for _ in range(9)]",
     _MEMORY_ENDS),
)  # fmt: skip

_HIDDEN = (
    ("hold shared memory whose pages are in no page table", """
x = []
for _ in range(40):
    m = mmap.mmap(-1, 8 << 20)
    for at in range(0, 8 << 20, 1 << 20):
        m[at:at + (1 << 20)] = b'x' * (1 << 20)
        m.madvise(mmap.MADV_DONTNEED, at, 1 << 20)
    x.append(m)
    stash(sum(m[at] == 120 for at in range(0, 8 << 20, 4096)) * 4096)
    m.madvise(mmap.MADV_DONTNEED)
""", _TREE),
    ("hold shared memory in a child that never touched it", """
for _ in range(14):
    m = mmap.mmap(-1, 24 << 20)
    for at in range(0, 24 << 20, 1 << 20):
        m[at:at + (1 << 20)] = b'x' * (1 << 20); m.madvise(mmap.MADV_DONTNEED, at, 1 << 20)
    if os.fork() == 0: time.sleep(20)
    m.close(); stash(24 << 20)
""", _TREE),
    ("hold memory in a mapping of /dev/zero", """
f = os.open('/dev/zero', os.O_RDWR); x = []
for _ in range(40):
    m = mmap.mmap(f, 8 << 20)
    for at in range(0, 8 << 20, 1 << 20):
        m[at:at + (1 << 20)] = b'x' * (1 << 20); m.madvise(mmap.MADV_DONTNEED, at, 1 << 20)
    x.append(m); stash(8 << 20)
""", _TREE),
    ("hold memory in anonymous files", """
x = []
for _ in range(40):
    f = os.memfd_create('x'); os.write(f, b'x' * (8 << 20)); x.append(f); stash(8 << 20)
""", _TREE),
    ("hold memory in Unix sockets of many processes", """
for _ in range(26):
    a, b = os.pipe()
    if os.fork() == 0:
        total, keep = 0, []
        try:
            while True:
                keep += socket.socketpair()
                for s in keep[-2:]:
                    s.setblocking(False)
                    try:
                        while True: total += s.send(b'x' * 65536)
                    except BlockingIOError: pass
        except OSError: pass
        os.write(b, str(total).encode()); time.sleep(20)
    stash(int(os.read(a, 20)))
""", _BOUNDED),
    ("hold memory in loopback connections", """
server = socket.create_server(('127.0.0.1', 0)); keep = []
while True:
    a = socket.create_connection(server.getsockname()); b, _ = server.accept(); keep += [a, b]
    for s in (a, b):
        s.setblocking(False)
        try:
            while True: stash(s.send(b'x' * 65536))
        except BlockingIOError: pass
""", _BOUNDED),
    ("hold memory in sockets that are queued inside sockets", """
def full():
    total, pair = 0, socket.socketpair()
    for s in pair:
        s.setblocking(False)
        try:
            while True: total += s.send(b'x' * 65536)
        except BlockingIOError: pass
    return total, pair
carrier, end = socket.socketpair()
while True:
    size, pair = full()
    socket.send_fds(carrier, [b'x'], [pair[0].fileno()])
    stash(size)
    for s in pair: s.close()
""", _BOUNDED),
    ("hold memory in pipes", """
while True:
    a, b = os.pipe(); os.set_blocking(b, False)
    try: fcntl.fcntl(b, 1031, 1 << 20)
    except OSError: pass
    try:
        while True: stash(os.write(b, b'x' * 65536))
    except BlockingIOError: pass
""", _BOUNDED),
    ("hold memory in extended attributes", """
for n in range(100000):
    open(str(n), 'w').close()
    for k in range(8): os.setxattr(str(n), f'user.{k}', b'x' * 60000); stash(60000)
""", _BOUNDED),
    ("hold memory in page tables", """
x = []
while True:
    m = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=1)
    m.madvise(15)  # MADV_NOHUGEPAGE
    for at in range(0, 1 << 30, 2 << 20): m[at]
    x.append(m); stash(512 * 4096)
""", _TREE),
    ("hold memory in a queue of signals", """
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
for _ in range(200000):
    call(129, os.getpid(), 40, struct.pack('4i', 40, 0, -1, 0) + bytes(112)); stash(1024)
""", "RLIMIT_SIGPENDING allows at most 1024 queued signals"),
)  # fmt: skip

_HOST = (
    ("use up the inotify instances of the host", """
for _ in range(4):
    if os.fork() == 0:
        while libc.inotify_init1(0) >= 0: pass
        time.sleep(20)
time.sleep(0.3)
hold()
""", "a box may create only a few instances, since they also count towards the limit of the user who started the engine"),
    ("use up the inotify watches of the host", """
paths = [os.path.join(folder, name).encode() for folder, _, names in os.walk('/usr') for name in names]
for _ in range(1 + 500_000 // len(paths)):
    f = libc.inotify_init1(0)
    if f < 0 or any(libc.inotify_add_watch(f, path, 2) < 0 and ctypes.get_errno() == errno.ENOSPC for path in paths): break
hold()
""", "a box may create only a few watches, since they also count towards the limit of the user who started the engine"),
)  # fmt: skip


ATTEMPTS = (
    *(
        Attempt(AttemptFamily.EXHAUSTION, attempt, PYTHON, code, _TREE, ends=ends, limits=_SMALL)
        for attempt, code, ends in _MEMORY
    ),
    Attempt(
        AttemptFamily.EXHAUSTION,
        "hold more and more objects in Node",
        NODE,
        "const a = []; while (true) a.push(new Array(1e6).fill(1))",
        _TREE,
        ends=(End.MEMORY,),
        limits=_NODE_SMALL,
    ),
    Attempt(
        AttemptFamily.EXHAUSTION,
        "hold more and more buffers in Node",
        NODE,
        "const a = []; setInterval(() => a.push(Buffer.alloc(8e6, 1)), 1)",
        _TREE,
        ends=(End.MEMORY,),
        limits=_NODE_SMALL,
    ),
    Attempt(
        AttemptFamily.EXHAUSTION,
        "double a string in Bash repeatedly",
        BASH,
        "x=x; while :; do x=$x$x; done",
        _TREE,
        ends=(End.MEMORY,),
        limits=_SMALL,
    ),
    *(
        Attempt(AttemptFamily.EXHAUSTION, attempt, PYTHON, _STASH + code, why, ends=_REFUSED_OR, limits=_SMALL)
        for attempt, code, why in _HIDDEN
    ),
    *(
        Attempt(AttemptFamily.EXHAUSTION, attempt, PYTHON, code, why, ends=(End.OK, End.ERROR), only=FILTERED)
        for attempt, code, why in _HOST
    ),
)
