"""Programs in boxes and kernels call the tools of their turn."""

import json
from pathlib import Path

import pytest

from engine.app.engine import Engine
from engine.contract.turn import Turn
from tests.builtin_tools.bridge.conftest import Ledger, Run

WRITE = "tools.file_system(action='write', path='a.txt', content='one\\ntwo\\n')\n"


@pytest.mark.spec("CODE-1")
async def test_a_python_program_calls_tools_and_gets_their_values(run: Run) -> None:
    result = await run(
        f"from knackbox import tools\n{WRITE}tools.file_system(action='read', path='a.txt')['content']",
    )
    assert result.success, result.text
    assert "two" in result.output["value"]
    assert result.output["calls"].startswith("Calls: file_system 2;")
    assert result.text.endswith(result.output["calls"])


@pytest.mark.spec("CODE-1")
async def test_async_code_awaits_calls_and_gathers_them(run: Run) -> None:
    result = await run(
        "import asyncio\nfrom knackbox import tools\n"
        "async def main():\n"
        "    one = await tools.scratchpad(action='set', key='a', value='x')\n"
        "    many = await asyncio.gather(*(tools.scratchpad(action='get', key='a') for _ in range(20)))\n"
        "    return len(many), len({str(each) for each in many})\n"
        "asyncio.run(main())"
    )
    assert result.success, result.text
    assert result.output["value"] == [20, 1]


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            "node",
            "import { tools } from 'knackbox';\n"
            "await tools.file_system({action: 'write', path: 'a.txt', content: 'one'});\n"
            "try { await tools.file_system({action: 'read', path: 'missing.txt'}); }\n"
            "catch (error) { console.log(error.name, error.tool, error.reason !== ''); }",
        ),
        (
            "bash",
            "knackbox-call file_system action=write path=a.txt content=one >&2\n"
            'knackbox-call file_system --json \'{"action": "read", "path": "missing.txt"}\' 2>/dev/null ||'
            " echo ToolError file_system true",
        ),
    ],
)
async def test_node_and_bash_use_the_same_way(run: Run, engine: Engine, language: str, code: str) -> None:
    result = await run(code, language)
    assert result.success, result.text
    assert result.output["stdout"] == "ToolError file_system true\n"
    read = await engine.call("file_system", {"action": "read", "path": "a.txt"})
    assert "one" in read.text


@pytest.mark.spec("CODE-1")
async def test_a_failed_call_is_an_exception_with_the_class_of_the_failure(run: Run) -> None:
    result = await run(
        "from knackbox import ToolError, tools\n"
        "try:\n    tools.file_system(action='read', path='missing.txt')\n"
        "except ToolError as failed:\n"
        "    found = [failed.tool, failed.failure_class, bool(failed.reason), failed.may_have_happened, str(failed)]\n"
        "found"
    )
    assert result.success, result.text
    tool, failure_class, has_reason, may_have_happened, text = result.output["value"]
    assert (tool, failure_class, has_reason, may_have_happened) == ("file_system", "DIAGNOSTIC", True, False)
    assert "missing.txt" in text
    assert "(1 failed)" in result.output["calls"]


@pytest.mark.spec("CODE-1", "FAIL-6")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            "python",
            "from knackbox import ToolError, tools\n"
            "try:\n    tools.look_up(key='a')\n"
            "except ToolError as failed:\n    print(*failed.alternatives[0].values(), sep=';')",
        ),
        (
            "node",
            "import { tools } from 'knackbox'\n"
            "try { await tools.look_up({ key: 'a' }) } catch (failed) {\n"
            "  const [{ tool, arguments: given, note }] = failed.alternatives\n"
            "  console.log(`${tool};{'lines': ${given.lines}};${note}`) }",
        ),
    ],
    ids=["python", "node"],
)
async def test_a_failed_call_names_the_calls_to_make_instead(
    run: Run, ledger: Ledger, tmp_path: Path, language: str, code: str
) -> None:
    chain = "chains:\n  look_up:\n    - {tool: many_lines, arguments: {lines: 2}, note: Count yourself.}\n"
    (tmp_path / "home" / "fallback_chains.yaml").write_text(chain)
    ledger.values = None  # type: ignore[assignment]
    result = await run(code, language)
    assert result.success, result.text
    assert result.output["stdout"] == "many_lines;{'lines': 2};Count yourself.\n"


@pytest.mark.spec("CODE-1")
async def test_a_tool_has_a_signature_and_a_docstring_and_can_be_found(run: Run) -> None:
    result = await run(
        "import inspect\nfrom knackbox import tools\n"
        "signature = str(inspect.signature(tools.file_system))\n"
        "found = tools.search('read and write files in the workspace')\n"
        "described = tools.describe('file_system')\n"
        "[signature, tools.file_system.__doc__[:20], found[0][:11], described['signature'][:12], 'execute' in dir(tools)]"
    )
    assert result.success, result.text
    signature, doc, found, described, has_execute = result.output["value"]
    assert "path" in signature
    assert doc
    assert found == "file_system"
    assert described == "file_system("
    assert not has_execute


@pytest.mark.spec("CODE-1")
async def test_positional_arguments_follow_the_signature_and_unplain_ones_are_refused(run: Run) -> None:
    result = await run(
        "from knackbox import tools\n"
        "first = tools.file_system('list', path='.')\n"
        "try:\n    tools.file_system('list', action='list')\n"
        "except TypeError as wrong:\n    twice = 'multiple values' in str(wrong)\n"
        "try:\n    tools.file_system(action='write', path='b', content=b'bytes')\n"
        "except TypeError as wrong:\n    bytes_ = 'workspace' in str(wrong)\n"
        "[twice, bytes_]"
    )
    assert result.success, result.text
    assert result.output["value"] == [True, True]


@pytest.mark.spec("CODE-1")
async def test_a_large_result_is_read_in_pieces(run: Run) -> None:
    result = await run(
        "from knackbox import LargeResult, tools\n"
        "result = tools.many_lines(lines=200_000)\n"
        "values = result.json()\n"
        "first = next(iter(result.lines()))\n"
        "[isinstance(result, LargeResult), len(values), values[-1], result.read(2, 6), result.characters == len(first)]"
    )
    assert result.success, result.text
    assert result.output["value"] == [True, 200_000, "line 199999", "line 0", True]


@pytest.mark.spec("CODE-1")
async def test_cells_of_a_kernel_call_tools_only_while_they_run(run: Run) -> None:
    first = await run(f"from knackbox import tools\n{WRITE}", stateful=True)
    assert first.success, first.text
    assert first.output["calls"].startswith("Calls: file_system 1;")
    second = await run(
        "import threading\nseen = []\n"
        "def later():\n"
        "    done.wait(20)\n"
        "    try: seen.append(tools.file_system(action='read', path='a.txt'))\n"
        "    except BaseException as error: seen.append(type(error).__name__)\n"
        "done = threading.Event()\nthread = threading.Thread(target=later); thread.start()\n"
        "(await tools.file_system(action='read', path='a.txt'))['content'][:20]",
        stateful=True,
    )
    assert second.success, second.text
    third = await run("done.set()\nthread.join(20)\nprint(seen)", stateful=True, tools=False)
    assert third.success, third.text
    assert "RuntimeError" in third.text


@pytest.mark.spec("CODE-1")
async def test_a_program_without_the_bridge_is_told_so(run: Run) -> None:
    result = await run("from knackbox import tools\ntools.file_system(action='list')", tools=False)
    assert not result.success
    assert "started without the bridge" in result.text or "No module named 'knackbox'" in result.text


@pytest.mark.spec("CODE-2")
async def test_inner_calls_are_in_the_audit_with_their_outer_call(run: Run, engine: Engine, tmp_path: Path) -> None:
    result = await run(f"from knackbox import tools\n{WRITE}tools.file_system(action='read', path='a.txt')")
    assert result.success, result.text
    assert result.audit.data["calls"] == {"file_system": 2}


@pytest.mark.spec("CODE-2")
async def test_a_program_gets_only_what_its_turn_allows(run: Run) -> None:
    guest = Turn(user="ada", permission="user")
    result = await run(
        "from knackbox import ToolError, tools\n"
        "seen = {}\n"
        "for name in ('execute', 'no_such_tool', 'manage_skills'):\n"
        "    try: tools[name](language='python', code='1')\n"
        "    except ToolError as failed: seen[name] = failed.reason\n"
        "seen",
        turn=guest,
    )
    assert result.success, result.text
    assert result.output["value"]["execute"] == "nested"
    assert result.output["value"]["no_such_tool"] == "unknown_tool"
    assert json.dumps(result.output["value"])
