"""Attempts to learn about the host from the environment, the user database, and the interpreter's modules and heap."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import Attempt, AttemptFamily

_MADE = "the environment is created from scratch for the job"
_ETC = "the box has its own /etc, which contains only root and the box's user"

_ROWS = (
    ("read the environment variables", "print(dict(os.environ))\nif '@VARIABLE@' in os.environ: worked()", _MADE),
    ("read the environment that the process was started with", """
if b'@VARIABLE@' in open('/proc/self/environ', 'rb').read(): worked()
""", "the template is started with an empty environment"),
    ("read remnants of the environment on the stack", """
area = next(line.split()[0] for line in open('/proc/self/maps') if '[stack]' in line)
low, high = (int(n, 16) for n in area.split('-'))
with open('/proc/self/mem', 'rb') as memory:
    memory.seek(low); data = memory.read(high - low)
if b'@VARIABLE@='[:24] in data: worked()
""", "the template is started with an empty environment"),
    ("find credentials in the environment", """
for name in os.environ:
    if any(word in name.upper() for word in ('TOKEN', 'SECRET', 'PASSWORD', 'API_KEY', 'CREDENTIAL', 'SSH_', 'AWS_')):
        worked(name)
""", _MADE),
    ("learn who started the engine", """
import pwd
known = {p.pw_name for p in pwd.getpwall()} - {'root', 'box'}
if '@ROOT@' in os.environ.get('PWD', '') or os.environ.get('SUDO_USER') or os.environ.get('LOGNAME'): worked()
for p in pwd.getpwall():
    if p.pw_dir.startswith('/home/') : worked(p)
""", _ETC),
    ("learn the path of the engine's folder", """
for name in ('PWD', 'OLDPWD', 'VIRTUAL_ENV', 'PYTHONHOME', 'KNACKBOX_HOME', 'XDG_RUNTIME_DIR'):
    if os.environ.get(name, '').startswith(('/home', '/root', '@ROOT@')): worked(name)
""", _MADE),
    ("learn the host's name", """
if open('/proc/sys/kernel/hostname').read().strip() != os.uname().nodename: worked()
if 'knackbox-stage' in os.uname().nodename: worked()
""", "the box has its own uts namespace, with the host name 'box'"),
    ("find the engine among the loaded modules", """
for name in list(sys.modules):
    if name.split('.')[0] in ('engine', 'acquired_skills', 'builtin_tools'): worked(name)
""", "the template imports only the worker and the standard library, and no module of the engine"),
    ("find the engine's objects in the heap", """
import gc
kinds = {type(each).__name__ for each in gc.get_objects()}
found = kinds & {'NamespaceSandbox', 'ForkServer', 'Engine', 'DockerSandbox'}
if found: worked(found)
""", "the template is a separate process that has never been part of the engine"),
    ("find another job's data in the heap", """
import gc
for each in gc.get_objects():
    if isinstance(each, dict) and isinstance(each.get('env'), dict) and 'SECRET' in each['env']: worked()
""", "a template never receives a job, and every box is a new fork of a template"),
    ("make a later job import a module that this job wrote", """
open('json.py', 'w').write('raise SystemExit(99)')
try:
    os.makedirs(os.path.expanduser('~/.local/lib/python3/site-packages'), exist_ok=True)
    open(os.path.expanduser('~/.local/lib/python3/site-packages/usercustomize.py'), 'w').write('print(1)')
except OSError: pass
""", "the job's folder and home are removed with the box"),
)  # fmt: skip

ATTEMPTS = tuple(
    Attempt(AttemptFamily.ENVIRONMENT, attempt, Language.PYTHON, code, why, harmless=True)
    for attempt, code, why in _ROWS
)
