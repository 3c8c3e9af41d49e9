"""The overview of variables: its content, that it changes nothing, and that it calls no class of the user."""

import asyncio

import pytest

from tests.builtin_tools.kernels.conftest import LOST, Agent

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-6")]

HOSTILE = """
asked = open('asked.txt', 'a')
def spring(self, *a, **k):
    asked.write('!'); asked.flush()
    while True: pass
names = ['__repr__', '__str__', '__len__', '__sizeof__', '__getattribute__', '__getattr__', '__eq__', '__hash__',
         '__bool__', '__iter__', '__contains__', '__dir__', '__format__', '__reduce__', '__class_getitem__',
         '__instancecheck__', '__subclasscheck__', '__index__', '__int__', '__float__', '__set_name__', 'mro_']
meta = {each: spring for each in names if each not in ('__hash__', '__set_name__')}
meta |= {each: property(spring) for each in ('__name__', '__module__', '__flags__', '__mro__')}
Meta = type('Meta', (type,), meta)
body = {each: spring for each in names if each not in ('__class_getitem__', '__set_name__')}
body |= {each: property(spring) for each in ('shape', 'dtype', 'nbytes', '__class__', '__dict__', '__module_')}
Trap = type.__call__(Meta, 'Trap', (), body)
trap = object.__new__(Trap)
"""


async def told(agent: Agent) -> dict[str, str]:
    result = await agent.kernels("variables")
    assert result.success, result.text
    return {line.partition(": ")[0]: line.partition(": ")[2] for line in result.text.splitlines()}


async def test_names_types_and_sizes_are_listed_without_imports(agent: Agent) -> None:
    await agent.cell(
        "import numpy as np, pandas as pd, collections\nfrom math import sqrt\nfrom IPython.display import display, HTML\n"
        "n = 3\nwords = ['a', 'b']\na = np.zeros((3, 4))\nd = pd.DataFrame({'x': [1, 2]})\n"
        "c = collections.Counter()\nclass Mine: pass\nm = Mine()\ndef mine(): pass\n_hidden = 1"
    )
    found = await told(agent)
    assert found.pop("words").startswith("list, length 2, ")
    assert found == {
        "n": "int",
        "a": "numpy.ndarray, shape 3 x 4, float64, 96 bytes",
        "d": "pandas.DataFrame, shape 2 x 1",
        "c": "collections.Counter",
        "Mine": "type",
        "m": "Mine",
        "mine": "function",
    }


async def test_the_overview_changes_neither_namespace_nor_history_nor_last_value(agent: Agent) -> None:
    seen = []
    for kernel, looks in (("looked-at", 3), ("left-alone", 0)):
        await agent.cell("x = 1\nx + 41", kernel=kernel)
        for _ in range(looks):
            assert (await agent.kernels("variables", kernel=kernel)).success
        probe = "(_, __, get_ipython().execution_count, In, Out, sorted(dir()), sorted(__import__('sys').modules))"
        seen.append((await agent.cell(probe, kernel=kernel)).text)
    assert seen[0].startswith("(42,")
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["exec", "type", "list", "len", "sys", "answer", "get_ipython", "str", "sorted"])
async def test_variables_named_like_builtins_do_not_break_the_overview(agent: Agent, name: str) -> None:
    await agent.cell(f"{name} = 1\nx = 2")
    found = await told(agent)
    assert found["x"] == "int"


async def test_no_method_of_a_hostile_class_is_called(agent: Agent) -> None:
    made = await agent.cell(HOSTILE)
    assert made.success, made.text
    found = await told(agent)
    assert found["trap"] == "Trap"
    assert (agent.workspace / "asked.txt").read_text() == ""
    assert LOST not in (await agent.cell("1")).text


async def test_a_module_that_pretends_to_be_numpy_is_not_called(agent: Agent) -> None:
    await agent.cell(
        "import sys, types\nfake = types.ModuleType('numpy')\n"
        "class ndarray:\n    @property\n    def shape(self):\n        while True: pass\n"
        "    dtype = nbytes = shape\n"
        "ndarray.__module__ = 'numpy'\nfake.ndarray = ndarray\nsys.modules['numpy'] = fake\nv = ndarray()"
    )
    assert (await told(agent))["v"] == "numpy.ndarray"


async def test_a_fake_pandas_that_hangs_is_interrupted_and_the_state_kept(agent: Agent) -> None:
    await agent.cell(
        "import sys, types\nfake = types.ModuleType('pandas')\n"
        "class Series:\n    @property\n    def shape(self):\n        while True: pass\n"
        "fake.Series = Series\nsys.modules['pandas'] = fake\na, b, z = Series(), Series(), 5"
    )
    found = await told(agent)
    assert {"a", "b", "z"} <= set(found)
    assert (await agent.cell("z")).text == "5"


async def test_the_number_of_variables_and_the_length_of_names_are_limited(agent: Agent) -> None:
    await agent.cell("for i in range(100_000): globals()[f'v{i}'] = i\nglobals()['a' * 10_000_000] = 1")
    result = await agent.kernels("variables")
    assert result.output["total"] >= 100_001
    assert len(result.output["variables"]) == 200
    assert max(len(each["name"]) for each in result.output["variables"]) == 100
    assert len(result.text) < 16_000


async def test_a_busy_kernel_has_no_overview_and_is_not_interrupted(agent: Agent) -> None:
    heard = asyncio.Event()
    running = asyncio.ensure_future(
        agent.cell("print('there')\nimport time\ntime.sleep(0.5)\n'done'", progress=lambda *_: heard.set())
    )
    async with asyncio.timeout(20):
        await heard.wait()
    result = await agent.kernels("variables")
    assert result.failure is not None
    assert (result.failure.failure_class, result.failure.reason) == ("DIAGNOSTIC", "kernel_busy")
    assert "done" in (await running).text
