"""A program can see the same of its box whether it is the skill or a mutant (SKILL-6).

Each probe is a function of a skill. The changed line does nothing, so the reports of a probe must be equal in all
variants.
"""

import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.mutation.mutants import Mutant, make_mutants
from acquired_skills.proof.mutation.neutral import neutral_changes
from acquired_skills.proof.mutation.programs import MutantWriter
from acquired_skills.proof.variants import AT_ONCE, EVERY, VariantAnswers, Variants
from sandbox.contract import Job, OnOutput, Outcome
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-6")]

PROBES = '''import dis, gc, hashlib, inspect, linecache, marshal, os, pathlib, re, resource, signal, socket, sys, threading
import traceback, types, warnings


def _spare() -> int:
    return 1234567 * 2


def _frames():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _short(value):
    return value if isinstance(value, (int, str, bool, type(None))) else type(value).__name__


def _read(path):
    return pathlib.Path(path).read_bytes().decode(errors="replace")


def _digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _programs(pid):
    """Different texts of the spare line in the memory of a process."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if rights.startswith("rw") and "[v" not in line:
                start, end = (int(part, 16) for part in span.split("-"))
                try:
                    memory.seek(start)
                    found.update(re.findall(rb"def _spare[^\\n]*\\n    return ([^\\n]{1,40})\\n", memory.read(end - start)))
                except (OSError, OverflowError, ValueError):
                    pass
    return len(found)


def stack():
    return [(f.f_code.co_filename, f.f_code.co_name, f.f_lineno) for f in _frames()]


def locals_of_callers():
    # The template numbers its boxes; how that is made useless is tested below.
    return [{name: _short(value) for name, value in f.f_locals.items() if name != "box_id"} for f in _frames()]


def globals_of_callers():
    return [sorted(f.f_globals) for f in _frames()]


def code_of_callers():
    return [_digest((f.f_code.co_code, f.f_code.co_linetable, f.f_code.co_names)) for f in _frames()][2:]


def types_in_memory():
    gc.collect()  # here and below: when the last collection was depends on the program's own text
    return sorted({f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects()})


def functions_in_memory():
    gc.collect()
    every = {f"{f.__module__}.{f.__qualname__}" for f in gc.get_objects() if isinstance(f, types.FunctionType)}
    return [_digest(sorted(every)), sorted(name for name in every if "acquired" in name)]


def referrers():
    gc.collect()
    return sorted(type(one).__name__ for one in gc.get_referrers(probe))


def garbage():
    return [gc.get_threshold(), gc.isenabled(), len(gc.garbage), gc.get_freeze_count()]


def programs_in_my_memory():
    return _programs("self")


def programs_in_the_memory_of_my_parent():
    try:
        return _programs(os.getppid())
    except OSError:
        return "out of reach"


def processes():
    return [(pid, _read(f"/proc/{pid}/comm"), _read(f"/proc/{pid}/cmdline")) for pid in os.listdir("/proc") if pid.isdigit()]


def ids():
    return [os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0), os.getuid(), os.getgid(), os.getgroups()]


def descriptors():
    links = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            links[fd] = re.sub(r"\\d+", "N", os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    return links


def descriptors_of_my_parent():
    folder = f"/proc/{os.getppid()}/fd"
    try:
        os.listdir(folder)
    except OSError:
        return "out of reach"
    return {fd: re.sub(r"\\d+", "N", os.readlink(f"{folder}/{fd}")) for fd in os.listdir(folder)}


def status():
    chance = ("Vm", "Rss", "voluntary", "nonvoluntary", "Huge")
    return [line for line in _read("/proc/self/status").splitlines() if not line.startswith(chance)]


def mappings():
    return sorted({tuple(line.split()[1:2] + line.split()[5:]) for line in _read("/proc/self/maps").splitlines()})


def mounts():
    return re.sub(r"\\d+:\\d+|^\\d+ \\d+", "N", _read("/proc/self/mountinfo"), flags=re.M)


def environment():
    return [dict(os.environ), _read("/proc/self/environ"), _read("/proc/self/cmdline"), socket.gethostname()]


def interpreter():
    return [sys.argv, sys.orig_argv, sys.path, sys.flags, sys.getrecursionlimit(), sys.getswitchinterval(), hash("x")]


def folder():
    return [os.getcwd(), sorted(os.listdir())]


def files():
    places = [pathlib.Path(__file__).parents[1], pathlib.Path("/tmp"), pathlib.Path("/dev/shm")]
    return [
        (str(path), path.stat().st_size, oct(path.stat().st_mode))
        for place in places for path in sorted(place.rglob("*")) if str(path) != __file__
    ]


def lines_of_my_file():
    return [len(_read(__file__).split("\\n")), os.stat(__file__).st_mode, os.stat(__file__).st_uid]


def source_is_that_of_the_code():
    path = sys.modules[__name__].__file__
    again = compile(_read(path), path, "exec", dont_inherit=True)
    spare = next(one for one in again.co_consts if getattr(one, "co_name", "") == "_spare")
    return [spare == _spare.__code__, inspect.getsource(_spare) in _read(path), bool(linecache.getline(path, 2))]


def code_objects():
    codes = [each.__code__ for each in list(globals().values()) if isinstance(each, types.FunctionType)]
    return [
        (c.co_name, c.co_filename, c.co_firstlineno, c.co_flags, c.co_stacksize, _digest(c.co_linetable),
         len(list(dis.get_instructions(c))))
        for c in codes if c is not _spare.__code__
    ]


def code_as_bytes():
    return _digest(marshal.dumps(probe.__code__))


def modules():
    return sorted(sys.modules)


def my_module():
    module = sys.modules[__name__]
    return [sorted(vars(module)), module.__name__, module.__file__, repr(module.__spec__), repr(module.__loader__), type(module).__name__]


def main_module():
    main = sys.modules["__main__"]
    return [sorted(vars(main)), getattr(main, "__file__", None)]


def hooks():
    return [repr(each) for each in (sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__,
            sys.displayhook is sys.__displayhook__, sys.stdin is sys.__stdin__, sys.stderr is sys.__stderr__,
            [type(each).__name__ for each in sys.meta_path], len(sys.path_hooks))]


def threads():
    return [[(t.name, t.daemon) for t in threading.enumerate()], len(os.listdir("/proc/self/task")), len(sys._current_frames())]


def signals():
    handlers = [getattr(signal.getsignal(number), "__qualname__", str(signal.getsignal(number))) for number in range(1, 32)]
    return [handlers, sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), bool(signal.getitimer(signal.ITIMER_REAL)[0])]


def limits():
    return [(name, resource.getrlimit(getattr(resource, name))) for name in dir(resource) if name.startswith("RLIMIT")]


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [used.ru_utime, used.ru_stime, used.ru_maxrss]


def a_traceback():
    try:
        raise KeyError("seen")
    except KeyError:
        return [traceback.format_exc(), traceback.format_stack()]


def warnings_():
    return [repr(warnings.filters)[:3000], sorted(vars(warnings))]


def a_fork():
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(7)
    return [child - os.getpid(), os.waitpid(child, 0)[1]]


def probe(what: str) -> object:
    """Report one thing about where it runs.

    Args:
        what: the name of the thing.
    """
    return globals()[what]()
'''
NAMES = [
    "stack",
    "locals_of_callers",
    "globals_of_callers",
    "code_of_callers",
    "types_in_memory",
    "functions_in_memory",
    "referrers",
    "garbage",
    "programs_in_my_memory",
    "programs_in_the_memory_of_my_parent",
    "processes",
    "ids",
    "descriptors",
    "descriptors_of_my_parent",
    "status",
    "mappings",
    "mounts",
    "environment",
    "interpreter",
    "folder",
    "files",
    "lines_of_my_file",
    "source_is_that_of_the_code",
    "code_objects",
    "code_as_bytes",
    "modules",
    "my_module",
    "main_module",
    "hooks",
    "threads",
    "signals",
    "limits",
    "children",
    "a_traceback",
    "warnings_",
    "a_fork",
]
CALLS = [{"arguments": [name], "named": {}} for name in NAMES]
OFFERED = replace(proposal("probe"), code=PROBES)
NAMES_OF_PARENTS = ("programs_in_the_memory_of_my_parent", "descriptors_of_my_parent")


class Recording:
    """A sandbox that records its jobs, and can run all programs apart."""

    name = "namespace"

    def __init__(self, box: NamespaceSandbox, *, apart: bool = False) -> None:
        self.box = box
        self.apart = apart
        self.jobs: list[Job] = []
        self.report, self.aclose = box.report, box.aclose

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        if self.apart and job.call is not None:
            job = replace(job, call=replace(job.call, arguments={**job.call.arguments, "apart": True}))
        self.jobs.append(job)
        return await self.box.run(job, on_output=on_output)


def spare(source: MutantWriter) -> list[Mutant]:
    """Return changes of both kinds, mutants and neutral ones, of the line that does nothing."""
    line = PROBES.split("\n").index("    return 1234567 * 2") + 1
    changed = [each for each in make_mutants(source.source.tree, 10_000, 1) if each.line == line]
    return [*changed, *neutral_changes(source.source.tree, changed, 2, random.Random(1))]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[False, True], ids=["alone", "apart"])
async def seen(
    box: NamespaceSandbox, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[VariantAnswers, list[Job]]]:
    source, recording = MutantWriter(ParsedSource.parse(PROBES)), Recording(box, apart=request.param)
    variants = Variants(IsolatedRunner(ParsedProposal.parse(OFFERED), (), recording, Effort()), source)
    found = await variants.compared(spare(source), CALLS, usual_s=6.0, budget_s=300.0)
    yield found, recording.jobs


@pytest.mark.parametrize("name", NAMES)
async def test_a_program_sees_the_same_whether_it_is_the_skill_or_a_variant(
    name: str, seen: tuple[VariantAnswers, list[Job]]
) -> None:
    found, number = seen[0], NAMES.index(name)
    assert "value" in found.truth[number], found.truth[number]
    assert len(found.others) >= 5
    for answers in found.others.values():
        assert answers is not None
        assert answers[number] == found.truth[number]
    apart = bool(seen[1][0].call and seen[1][0].call.arguments["apart"])
    if name in NAMES_OF_PARENTS and not apart:
        assert found.truth[number] == {"value": "out of reach"}
    elif name.startswith("programs_"):
        assert found.truth[number] == {"value": 1}


async def test_the_boxes_of_variants_differ_only_in_the_program(
    seen: tuple[VariantAnswers, list[Job]],
) -> None:
    found, jobs = seen
    programs = [job.files["skill/probe.py"] for job in jobs]
    assert len(jobs) == len(found.others) + len(found.more) + 1
    assert len(set(programs)) == len(found.others) + 1
    without = [replace(job, files={**job.files, "skill/probe.py": b""}) for job in jobs]
    assert all(job == without[0] for job in without)
    assert not [name for name in without[0].files if "mutant" in name or "operator" in name or "neutral" in name]
    assert without[0].call is not None
    assert set(without[0].call.arguments) == {"name", "calls", "seconds", "each_s", "tools", "apart"}


async def test_the_skill_itself_runs_at_unpredictable_positions_among_its_variants(box: NamespaceSandbox) -> None:
    """Otherwise a program could find out with a counter or a clock that it runs late and so is a mutant."""
    code = proposal(body="return min(number + 1, 99) if number > 0 else number * 1 + 1").code
    source, placed = MutantWriter(ParsedSource.parse(code)), []
    made = make_mutants(source.source.tree, 100, 1)
    for _ in range(3):
        recording = Recording(box)
        variants = Variants(
            IsolatedRunner(ParsedProposal.parse(replace(OFFERED, name="add_one", code=code)), (), recording, Effort()),
            source,
        )
        found = await variants.compared(made, [{"arguments": [1], "named": {}}], usual_s=1.0, budget_s=300.0)
        assert len(found.others) == len(made) > EVERY
        itself = [job.files["skill/add_one.py"] == code.encode() for job in recording.jobs]
        assert itself[-AT_ONCE:].count(True) >= 1
        for first in range(0, len(made), EVERY + 1):
            assert True in itself[max(0, first - AT_ONCE) : first + EVERY + 1 + AT_ONCE]
        placed.append([number for number, one in enumerate(itself) if one])
    assert len({tuple(each) for each in placed}) > 1


class Ends:
    """Programs that end or hang their process, at the third call or while they are loaded."""

    EXITS = "import os\n\n\ndef add_one(number: int) -> int:\n    if number == 2:\n        os._exit(0)\n    return number + 1\n"
    HANGS = "def add_one(number: int) -> int:\n    while number == 2:\n        pass\n    return number + 1\n"
    STAYS = (
        "def add_one(number: int) -> int:\n    while number == 2:\n        try:\n            while True:\n"
        "                pass\n        except BaseException:\n            pass\n    return number + 1\n"
    )
    SLEEPS = "import time\n\n\ndef add_one(number: int) -> int:\n    time.sleep(100 * (number == 2))\n    return number + 1\n"
    RAISES = "raise RuntimeError('not today')\n"
    LEAVES = "import os\nos._exit(0)\n"


@pytest.mark.parametrize("program", [Ends.EXITS, Ends.HANGS, Ends.STAYS, Ends.SLEEPS])
async def test_answers_given_before_a_program_ends_or_hangs_are_kept(box: NamespaceSandbox, program: str) -> None:
    runner = IsolatedRunner(ParsedProposal.parse(proposal()), (), box, Effort())
    calls = [{"arguments": [number], "named": {}} for number in range(4)]
    found = await runner.run_program(program, calls, 1.0)
    assert found["answers"] == [{"value": 1}, {"value": 2}, {"ended": True}, {"ended": True}]


@pytest.mark.parametrize("program", [Ends.RAISES, Ends.LEAVES])
async def test_a_program_that_cannot_be_loaded_gives_no_answers(box: NamespaceSandbox, program: str) -> None:
    runner = IsolatedRunner(ParsedProposal.parse(proposal()), (), box, Effort())
    assert (await runner.run_program(program, [{"arguments": [1], "named": {}}], 1.0))["answers"] is None


async def test_neither_threads_nor_exit_handlers_of_a_program_are_waited_for(box: NamespaceSandbox) -> None:
    program = (
        "import atexit, threading, time\n\natexit.register(time.sleep, 100)\n\n\ndef add_one(number: int) -> int:\n"
        "    threading.Timer(100, print).start()\n    return number + 1\n"
    )
    recording = Recording(box)
    runner = IsolatedRunner(ParsedProposal.parse(proposal()), (), recording, Effort())
    found = await runner.run_program(program, [{"arguments": [1], "named": {}}], 5.0)
    assert found["answers"] == [{"value": 2}]
    assert len(recording.jobs) == 1


async def test_a_later_call_cannot_change_an_answer(box: NamespaceSandbox) -> None:
    program = (
        "import knackbox\n\nSEEN = []\n\n\ndef add_one(number: int) -> int:\n    SEEN.append(knackbox.tools.weather())\n"
        "    for each in SEEN:\n        each['n'] = number\n    return number + 1\n"
    )
    block = '# /// script\n# dependencies = []\n# [tool.knackbox]\n# tools = ["weather"]\n# ///\n'
    offered = replace(proposal(), code=block + program)
    rule = {"tool": "weather", "arguments": None, "value": {"n": 0}}
    calls = [{"arguments": [number], "named": {}, "tools": [rule]} for number in range(3)]
    runner = IsolatedRunner(ParsedProposal.parse(offered), (), box, Effort())
    found = await runner.run_program(offered.code, calls, 5.0)
    called = [{"tool": "weather", "arguments": {}, "value": {"n": 0}}]
    assert found["answers"] == [{"value": number + 1, "called": called} for number in range(3)]


async def test_a_program_cannot_choose_the_time_that_it_is_said_to_take(box: NamespaceSandbox) -> None:
    """The attempt: it stops the clock of its process, so that its variants would get too little time."""
    program = (
        "import time\n\nSTILL = time.monotonic()\ntime.monotonic = lambda: STILL\n\n\n"
        "def add_one(number: int) -> int:\n    until = time.process_time() + 0.3\n"
        "    while time.process_time() < until:\n        pass\n    return number + 1\n"
    )
    runner = IsolatedRunner(ParsedProposal.parse(proposal()), (), box, Effort())
    found = await runner.run_program(program, [{"arguments": [1], "named": {}}], 5.0)
    assert found["answers"] == [{"value": 2}]
    assert found["seconds"] > 0.25
