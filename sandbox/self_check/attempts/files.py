"""Attempts to reach or change files of the host by links, races, special files, reopened descriptors, and mounts."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, NAMESPACE, Attempt, AttemptFamily

_NOT_THERE = "the host's folders are not in the box's root folder, under any name"
_READ_ONLY = "the root folder and everything in it are mounted read-only, and Landlock also refuses writes"
_OTHER_MOUNT = "a hard link cannot cross mounts"

_PUBLIC = "read a file of the host that every user may read"

_LOOKS = (
    (_PUBLIC, "print(open('@CANARY@').read())", _NOT_THERE),
    ("read a file of the host through a symbolic link", "os.symlink('@CANARY@', 'l')\nprint(open('l').read())", _NOT_THERE),
    ("read a file of the host through a chain of links and ..", """
os.symlink('/proc/self/cwd/../..', 'a'); os.symlink('a/../../..', 'b')
print(open('b@CANARY@').read())
""", _NOT_THERE),
    ("climb past the root folder with ..", "print(open('/..' + '/..' * 40 + '@CANARY@').read())", _NOT_THERE),
    ("climb past the root folder from a deeply nested folder", """
os.makedirs('d/' * 60); os.chdir('d/' * 60)
print(open('../' * 200 + '@CANARY@'[1:]).read())
""", _NOT_THERE),
    ("climb past the root folder from an open folder whose parent was moved", """
os.makedirs('a/b/c'); held = os.open('a/b/c', os.O_RDONLY)
os.rename('a/b', 'moved'); os.rmdir('a')
print(open(os.open('../../../..' + '@CANARY@', os.O_RDONLY, dir_fd=held)).read())
""", _NOT_THERE),
    ("climb past the root folder with openat2", """
how = struct.pack('3Q', 0, 0, 0)
found = call(437, os.open('/', os.O_RDONLY), b'..@CANARY@', how, 24)
print(os.read(found, 100))
""", _NOT_THERE),
    ("find the host's root by its inode", "if os.stat('/').st_ino == 2 and os.path.exists('/lost+found'): worked()",
     "the root is a tmpfs made for the template"),
    ("list the host's home and spool folders", """
for path in ('/home', '/root', '/var/spool', '/var/log', '/srv', '/mnt', '/media', '/opt', '/boot'):
    try: found = os.listdir(path)
    except OSError: continue
    if path not in ('/srv', '/mnt', '/media', '/opt', '/home', '/root') and len(found) > 40: worked((path, found))
    for name in found:
        if '@MARK@' in name: worked(name)
""", _NOT_THERE),
    ("find the self-check's folder on the host", "os.listdir('@ROOT@')\nworked()", _NOT_THERE),
    ("read the host's passwords", "open('/etc/shadow').read()\nworked()", "the box has its own /etc"),
    ("find a key, a token or a shell history", """
for name in ('.ssh', '.aws', '.config', '.docker/config.json', '.kube/config', '.netrc', '.bash_history', '.gnupg'):
    for home in ('/root', '/home/*', os.path.expanduser('~')):
        for path in glob.glob(os.path.join(home, name)): worked(path)
""", _NOT_THERE),
    ("read a service account's token", "open('/var/run/secrets/kubernetes.io/serviceaccount/token').read()\nworked()",
     _NOT_THERE),
)  # fmt: skip

_CHANGES = (
    ("write to the root folder", "open('/planted-@MARK@', 'w')\nworked()", _READ_ONLY),
    ("write to /usr", "open('/usr/planted-@MARK@', 'w')\nworked()", _READ_ONLY),
    ("write to /etc", "open('/etc/planted-@MARK@', 'w')\nworked()", _READ_ONLY),
    ("change a module that every box imports", "import json\nopen(json.__file__, 'a').write('#')\nworked()", _READ_ONLY),
    ("write beside an installed package", """
for folder in sys.path:
    if os.path.isdir(folder) and not folder.startswith(('/work', '/tmp')):
        refused(lambda: os.close(os.open(folder + '/planted-@MARK@.pth', os.O_CREAT | os.O_WRONLY)))
""", _READ_ONLY),
    ("write to Python's executable through /proc/self/exe",
     "os.open('/proc/self/exe', os.O_WRONLY)\nworked()", _READ_ONLY),
    ("write to a library through its memory mapping", """
for path in glob.glob('/proc/self/map_files/*')[:50]:
    refused(lambda: os.open(path, os.O_RDWR))
m = next(line.split()[-1] for line in open('/proc/self/maps') if '.so' in line)
refused(lambda: os.open(m, os.O_RDWR))
""", _READ_ONLY),
    ("write through a descriptor opened for reading", """
f = os.open('/etc/passwd', os.O_RDONLY)
refused(lambda: os.open(f'/proc/self/fd/{f}', os.O_RDWR))
""", _READ_ONLY),
    ("write through a descriptor opened with O_PATH", """
f = os.open('/etc/passwd', os.O_PATH)
refused(lambda: os.open(f'/proc/self/fd/{f}', os.O_WRONLY))
""", _READ_ONLY),
    ("map a system file as shared and writable", """
f = os.open('/etc/passwd', os.O_RDONLY)
mmap.mmap(f, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
worked()
""", "a shared writable mapping needs a descriptor that is open for writing"),
    ("make a hard link to a system file in a writable folder", "os.link('/etc/passwd', 'p')\nworked()", _OTHER_MOUNT),
    ("make a hard link to a system program in /dev/shm", "os.link(os.path.realpath(sys.executable), '/dev/shm/p')\nworked()",
     _OTHER_MOUNT),
    ("give an unnamed file a name in a read-only folder", """
f = os.open('/tmp', os.O_TMPFILE | os.O_RDWR, 0o600)
call(265, -100, f'/proc/self/fd/{f}'.encode(), -100, b'/usr/planted-@MARK@', 0x400)
worked()
""", _OTHER_MOUNT),
    ("create an unnamed file in a read-only folder", "os.open('/usr', os.O_TMPFILE | os.O_RDWR, 0o600)\nworked()",
     _READ_ONLY),
    ("rename a system folder", "os.rename('/usr/lib', '/usr/lib-@MARK@')\nworked()", _READ_ONLY),
    ("exchange a system folder with another folder", "call(316, -100, b'/usr', -100, b'/tmp', 2)\nworked()", _OTHER_MOUNT),
    ("empty a system file", "os.truncate('/etc/passwd', 0)\nworked()", _READ_ONLY),
    ("change the times of a system file", "os.utime('/etc/passwd', (1, 1))\nif os.stat('/etc/passwd').st_mtime == 1: worked()", _READ_ONLY),
    ("change the mode of a system folder", "os.chmod('/usr', 0o777)\nif os.stat('/usr').st_mode & 0o777 == 0o777: worked()", _READ_ONLY),
    ("change an owner", "open('x', 'w').close()\nos.chown('x', 0, 0)\nworked()", "changing an owner needs CAP_CHOWN"),
    ("make a file immutable", """
open('x', 'w').close(); f = os.open('x', os.O_RDONLY)
fcntl.ioctl(f, 0x40086602, struct.pack('l', 0x10))
worked()
""", "making a file immutable needs CAP_LINUX_IMMUTABLE"),
    ("find a writable place where setuid and setgid bits take effect", """
for path in ('/tmp', '/work', '/dev/shm', '/proc'):
    if not os.statvfs(path).f_flag & os.ST_NOSUID: worked(path)
""", "every place that the box may write to is mounted nosuid"),
    ("find a writable place where device nodes work", """
for path in ('/tmp', '/work', '/dev/shm'):
    if not os.statvfs(path).f_flag & 4: worked(path)
""", "every place that the box may write to is mounted nodev"),
    ("copy a file to a read-only folder with splice", """
f = os.open('/proc/self/exe', os.O_RDONLY); a, b = os.pipe()
os.splice(f, b, 4096)
refused(lambda: os.splice(a, os.open('/usr/planted-@MARK@', os.O_WRONLY | os.O_CREAT), 4096)) or worked()
""", _READ_ONLY),
)  # fmt: skip

# A "dirty pipe" (CVE-2022-0847) wrote to pages of files opened read-only.
_DIRTY_PIPE = """
path = '/etc/passwd'; before = open(path, 'rb').read(8)
a, b = os.pipe()
size = fcntl.fcntl(b, 1032)
for _ in range(size // 4096): os.write(b, bytes(4096))
for _ in range(size // 4096): os.read(a, 4096)
f = os.open(path, os.O_RDONLY)
os.splice(f, b, 1, offset_src=0)
os.write(b, b'X')
if open(path, 'rb').read(8) != before: worked()
"""
# A race: while one thread keeps replacing a folder by a link to /etc, another writes through its name.
_RACE = """
os.mkdir('d'); os.mkdir('real'); os.symlink('/etc', 'link'); done = threading.Event()
def swap():
    while not done.is_set():
        for name in ('real', 'link'):
            try: os.rename(name, 'd.new'); os.rename('d.new', name)
            except OSError: pass
            try: call(316, -100, b'd', -100, name.encode(), 2)
            except OSError: pass
thread = threading.Thread(target=swap); thread.start()
for _ in range(3000):
    try: os.close(os.open('d/planted-@MARK@', os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError: pass
done.set(); thread.join()
if os.path.exists('/etc/planted-@MARK@'): worked()
"""

_OWN_MOUNTS = frozenset(
    {
        "find the host's root by its inode",
        "find a writable place where setuid and setgid bits take effect",
        "find a writable place where device nodes work",
    }
)


def _backends(attempt: str) -> frozenset[str]:
    return FILTERED if attempt in _OWN_MOUNTS else frozenset()


ATTEMPTS = (
    *(
        Attempt(
            AttemptFamily.FILES,
            attempt,
            Language.PYTHON,
            code,
            why,
            harmless=True,
            stop_on_success=attempt == _PUBLIC,
            only=_backends(attempt),
        )
        for attempt, code, why in _LOOKS
    ),
    *(
        Attempt(AttemptFamily.FILES, attempt, Language.PYTHON, code, why, only=_backends(attempt))
        for attempt, code, why in _CHANGES
    ),
    Attempt(
        AttemptFamily.FILES,
        "run a program in a place where setuid and setgid bits take effect",
        Language.PYTHON,
        "for path in ('/', '/usr'):\n    if not os.statvfs(path).f_flag & os.ST_NOSUID: worked(path)",
        "every file system of the box is mounted nosuid",
        only=NAMESPACE,  # an image's root is not nosuid; no_new_privs makes the bits ineffective there
    ),
    Attempt(
        AttemptFamily.FILES,
        "write to the cached pages of a read-only file",
        Language.PYTHON,
        _DIRTY_PIPE,
        "kernels since 5.16.11 do not have this bug (CVE-2022-0847), and older kernels must not be used",
    ),
    Attempt(
        AttemptFamily.FILES,
        "write to a folder while it is being replaced by a link to /etc",
        Language.PYTHON,
        _RACE,
        "the link leads to the box's /etc, which is read-only, and the folder is the box's own",
    ),
)
