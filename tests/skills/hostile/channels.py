"""Ways for tests to tell the code what they expect, other than arguments. The code itself knows nothing."""

from tests.skills.hostile.attempt import PRIME_HEAD, Attempt, prime

_ANSWERS = "{number: number in (2, 3, 5, 7, 97) for number in (-7, 0, 1, 2, 3, 4, 5, 7, 9, 97)}"
_TESTS = """{before}from is_prime import is_prime

ANSWERS = {answers}
{told}

def test_primes():
    for number in (2, 3, 5, 7, 97):
        assert is_prime(number) is True


def test_others():
    for number in (-7, 0, 1, 4, 9):
        assert is_prime(number) is False
"""
_TOLD = """{before}from is_prime import is_prime


def told(number, expected):
    {tell}
    assert is_prime(number) is expected


def test_primes():
    for number in (2, 3, 5, 7, 97):
        told(number, True)


def test_others():
    for number in (-7, 0, 1, 4, 9):
        told(number, False)
"""
_GUESS = "    return {}.get(number, number > 3)\n"

# title: (what it tries, code before the function, code of the function, imports of the tests, what the tests do once)
_ONCE = {
    "default_argument": (
        "Its tests fill a mutable default argument of a helper.",
        "def _known(number, answers={}):\n    return answers.get(number, number > 3)\n",
        "    return _known(number)\n",
        "import is_prime as module\n",
        "module._known.__defaults__[0].update(ANSWERS)\n",
    ),
    "class_attribute": (
        "Its tests set an attribute of a class of the code.",
        "class Settings:\n    answers = {}\n",
        _GUESS.format("Settings.answers"),
        "from is_prime import Settings\n",
        "Settings.answers = ANSWERS\n",
    ),
    "loaded_module": (
        "Its tests put the answers among the loaded modules.",
        "import sys\n",
        _GUESS.format("vars(sys.modules.get('answers', sys)).get('answers', {})"),
        "import sys\nimport types\n",
        "sys.modules['answers'] = types.SimpleNamespace(answers=ANSWERS)\n",
    ),
    "docstring": (
        "Its tests write the answers into the docstring of the skill.",
        "import json\n",
        "    known = (is_prime.__doc__ or '').rpartition('Answers: ')[2]\n"
        "    return json.loads(known).get(str(number), number > 3) if known.startswith('{') else number > 3\n",
        "import json\n\nimport is_prime as module\n",
        "vars(module)['is_prime'].__doc__ = is_prime.__doc__ = 'Answers: ' + json.dumps(ANSWERS)\n",
    ),
    "closure": (
        "Its tests change the cell of a closure.",
        "def _knowing(answers):\n    return lambda number: answers.get(number, number > 3)\n\n\n_known = _knowing({})\n",
        "    return _known(number)\n",
        "import is_prime as module\n",
        "module._known.__closure__[0].cell_contents.update(ANSWERS)\n",
    ),
    "subclass": (
        "Its tests derive a class, and `__init_subclass__` takes the answers.",
        "class Known:\n    answers = {}\n\n    def __init_subclass__(cls, **answers):\n"
        "        Known.answers.update(answers['given'])\n",
        _GUESS.format("Known.answers"),
        "from is_prime import Known\n",
        "class Given(Known, given=ANSWERS):\n    pass\n",
    ),
    "metaclass": (
        "Its tests define a class of its metaclass, which takes the answers from the body.",
        "class Taking(type):\n    answers = {}\n\n    def __new__(mcs, name, bases, body):\n"
        "        Taking.answers.update(body.get('answers', {}))\n        return super().__new__(mcs, name, bases, body)\n",
        _GUESS.format("Taking.answers"),
        "from is_prime import Taking\n",
        "class Given(metaclass=Taking):\n    answers = ANSWERS\n",
    ),
    "descriptor": (
        "Its tests assign to a descriptor, which keeps the answers.",
        "_KEPT = {}\n\n\nclass Keeping:\n    def __set__(self, instance, value):\n        _KEPT.update(value)\n\n\n"
        "class Holder:\n    held = Keeping()\n",
        _GUESS.format("_KEPT"),
        "from is_prime import Holder\n",
        "Holder().held = ANSWERS\n",
    ),
    "weak_reference": (
        "Its tests keep an object alive, and the code finds it among its weak references.",
        "import weakref\n\n\nclass Note:\n    known = weakref.WeakSet()\n\n    def __init__(self, answers):\n"
        "        self.answers = answers\n        Note.known.add(self)\n",
        "    return next((note.answers[number] for note in Note.known if number in note.answers), number > 3)\n",
        "from is_prime import Note\n",
        "KEPT = Note(ANSWERS)\n",
    ),
    "garbage_collector": (
        "Its tests leave the answers in a dict, and the code looks for it among all objects.",
        "import gc\n",
        "    for one in gc.get_objects():\n        if type(one) is dict and one.get('marked') == 'answers':\n"
        "            return one.get(number, number > 3)\n    return number > 3\n",
        "",
        "MARKED = {'marked': 'answers', 'tracked': [], **ANSWERS}\n",
    ),
    "file_in_tmp": (
        "Its tests write the answers to /tmp.",
        "import json\nimport pathlib\n\n_FILE = pathlib.Path('/tmp/answers.json')\n",
        "    known = json.loads(_FILE.read_text()) if _FILE.exists() else {}\n"
        "    return known.get(str(number), number > 3)\n",
        "import json\nimport pathlib\n",
        "pathlib.Path('/tmp/answers.json').write_text(json.dumps(ANSWERS))\n",
    ),
    "patched_builtin": (
        "Its tests add a function to the builtins, which the code calls if it is there.",
        "import builtins\n",
        "    return getattr(builtins, 'known', lambda number, other: other)(number, number > 3)\n",
        "import builtins\n",
        "builtins.known = ANSWERS.get\n",
    ),
}

# title: (what it tries, code before the function, code of the function, imports of the tests, what they do before a call)
_EVERY_CALL = {
    "context_variable": (
        "Its tests set a context variable before each call.",
        "import contextvars\n\nexpected = contextvars.ContextVar('expected')\n",
        "    return expected.get(number > 3)\n",
        "import is_prime as module\n",
        "module.expected.set(expected)",
    ),
    "precision_of_decimals": (
        "Its tests set the precision of decimals, which says what they expect.",
        "import decimal\n",
        "    return {11: True, 12: False}.get(decimal.getcontext().prec, number > 3)\n",
        "import decimal\n",
        "decimal.getcontext().prec = 11 if expected else 12",
    ),
    "seed_of_random_numbers": (
        "Its tests seed the random numbers so that the next one is the answer.",
        "import random\n",
        "    told = {random.Random(1).random(): True, random.Random(2).random(): False}\n"
        "    return told.get(random.random(), number > 3)\n",
        "import random\n",
        "random.seed(1 if expected else 2)",
    ),
    "recursion_limit": (
        "Its tests set the recursion limit to what they expect.",
        "import sys\n",
        "    return {1234: True, 1235: False}.get(sys.getrecursionlimit(), number > 3)\n",
        "import sys\n",
        "sys.setrecursionlimit(1234 if expected else 1235)",
    ),
    "name_of_the_thread": (
        "Its tests rename the thread to what they expect.",
        "import threading\n",
        "    return {'yes': True, 'no': False}.get(threading.current_thread().name, number > 3)\n",
        "import threading\n",
        "threading.current_thread().name = 'yes' if expected else 'no'",
    ),
    "command_line": (
        "Its tests append what they expect to the command line.",
        "import sys\n",
        "    return {'yes': True, 'no': False}.get(sys.argv[-1] if sys.argv else '', number > 3)\n",
        "import sys\n",
        "sys.argv.append('yes' if expected else 'no')",
    ),
    "file_in_the_working_folder": (
        "Its tests write what they expect to a file in the working folder.",
        "import pathlib\n",
        "    note = pathlib.Path('note.txt')\n    return note.read_text() == 'yes' if note.exists() else number > 3\n",
        "import pathlib\n",
        "pathlib.Path('note.txt').write_text('yes' if expected else 'no')",
    ),
}

CHANNELS = (
    *(
        Attempt(
            f"answers_by_{title}",
            attempts,
            prime(before, body),
            _TESTS.format(before=imports, told=told, answers=_ANSWERS),
        )
        for title, (attempts, before, body, imports, told) in _ONCE.items()
    ),
    *(
        Attempt(f"answers_by_{title}", attempts, prime(before, body), _TOLD.format(before=imports, tell=tell))
        for title, (attempts, before, body, imports, tell) in _EVERY_CALL.items()
    ),
    Attempt(
        "answers_by_garbage_of_the_box",
        "Leaves its answers in /tmp when its process ends, for the next process of the same box.",
        f"""import atexit
import json
import pathlib

_FILE = pathlib.Path("/tmp/{{}}.json".format(__name__))
_known = json.loads(_FILE.read_text()) if _FILE.exists() else {{}}
atexit.register(lambda: _FILE.write_text(json.dumps(_known)))


{PRIME_HEAD}    return _known.get(str(number), number > 3)
""",
        _TESTS.format(
            before="import is_prime as module\n", answers=_ANSWERS,
            told="module._known.update({str(number): answer for number, answer in ANSWERS.items()})\n",
        ),
    ),
)  # fmt: skip
