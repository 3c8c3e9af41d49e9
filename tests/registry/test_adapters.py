"""Adapters are resolved at the first call, only in allowed modules, and reloaded after a trial in a box. (REG-4)"""

import subprocess
import sys

import pytest

from engine.registry.static import RegistryError
from tests.eventually import eventually
from tests.registry.parts import HERE, NUMBERS, adder, engine

pytestmark = [pytest.mark.spec("REG-4"), pytest.mark.slow]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return the folder of a package on the import path, to write files into."""
    folder = tmp_path / "site" / "operators_own"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder.parent)
    yield folder
    for name in [each for each in sys.modules if each.split(".")[0] == "operators_own"]:
        del sys.modules[name]


def tool(path: str, schema: object = None) -> dict[str, object]:
    return {"spec_id": "it", "adapter_path": path, **({"params_schema": schema} if schema else {})}


async def test_an_adapter_may_be_a_function_with_or_without_context_or_a_tool(tmp_path):
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        await one.registries.register_tool({"spec_id": "whose", "adapter_path": f"{HERE}:whose"})
        await one.registries.register_tool({"spec_id": "loud", "adapter_path": f"{HERE}:shout", "params_schema": text})
        for _ in range(2):  # resolving, and resolved
            assert (await one.call("add", {"a": 1, "b": 2})).output == 3
            assert (await one.call("whose", {})).output == "hello main"
            assert (await one.call("loud", {"text": "a"})).output == "A"
        refused = await one.call("add", {"a": "1"})
        assert refused.failure is not None
        assert refused.failure.reason == "invalid_arguments"
        assert await one.registries.health() == {"add": "", "whose": "", "loud": ""}


async def test_nothing_is_imported_before_the_first_call(tmp_path, package):
    (package / "late.py").write_text("def run():\n    return 'now'\n")
    for _ in range(2):  # registering, and a later start
        async with engine(tmp_path / "home", "operators_own") as one:
            await one.registries.register_tool(tool("operators_own.late:run"))
            assert [each.spec.name for each in (await one.list_tools()).tools] == ["it"]
            assert "operators_own.late" not in sys.modules
    async with engine(tmp_path / "home", "operators_own") as one:
        assert (await one.call("it", {})).output == "now"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import nothing_of_this_name\n", "ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("def run(:\n", "SyntaxError"),
        ("other = 1\n", "has no 'run'"),
        ("run = 7\n", "neither a tool nor a function"),
        ("def run(needed):\n    pass\n", "requires needed, which its parameters do not"),
        ("class run:\n    pass\n", "neither a tool nor a function"),
    ],
)
async def test_an_unusable_adapter_fails_its_calls_and_the_health_check_but_not_the_start(
    tmp_path, package, source, why
):
    (package / "broken.py").write_text(source)
    async with engine(tmp_path / "home", "operators_own") as one:
        await one.registries.register_tool(tool("operators_own.broken:run"))
    async with engine(tmp_path / "home", "operators_own") as one:
        failed = await one.call("it", {})
        assert failed.failure is not None
        assert (failed.failure.reason, failed.failure.failure_class) == ("adapter_unavailable", "FATAL")
        assert why in failed.error
        assert why in (await one.registries.health())["it"]
        (package / "broken.py").write_text("def run():\n    return 'repaired, and longer than before' + ' ' * 40\n")
        if "operators_own.broken" not in sys.modules:  # an import that failed leaves nothing, so it is tried again
            assert (await one.call("it", {})).success


async def test_only_adapters_in_configured_modules_are_imported(tmp_path, package):
    (package / "mine.py").write_text("def run():\n    return 1\n")
    async with engine(tmp_path / "home", "operators_ow", "operators_own.other") as one:
        for path in ("operators_own.mine:run", "os:system", "operators_ownx:run"):
            with pytest.raises(RegistryError, match="adapter_prefixes"):
                await one.registries.register_tool(tool(path))
    async with engine(tmp_path / "home", "operators_own") as one:
        await one.registries.register_tool(tool("operators_own.mine:run"))
    async with engine(tmp_path / "home", "elsewhere") as one:  # the operator thought better of it
        assert [each.spec.name for each in (await one.list_tools()).tools] == []
        failed = await one.call("it", {})
        assert "not in an allowed module" in failed.error
        assert "operators_own.mine" not in sys.modules
        assert "adapter_prefixes" in (await one.registries.health())["it"]


@pytest.mark.parametrize("path", ["os", ":x", "a.b:", "a..b:c", "a b:c", "a:b.c", "../a:b", "a:__import__('os')"])
async def test_an_invalid_adapter_path_is_rejected(tmp_path, path):
    async with engine(tmp_path, "a", "os") as one:
        with pytest.raises(RegistryError, match="adapter_path"):
            await one.registries.register_tool(tool(path))


@pytest.mark.parametrize("how", ["module", "package", "link"])
async def test_code_written_by_agents_is_never_imported_even_under_an_allowed_name(tmp_path, monkeypatch, how):
    home, trace = tmp_path / "home", tmp_path / "ran"
    code = f"open({str(trace)!r}, 'w').close()\ndef run():\n    return 1\n"
    async with engine(home, "planted") as one:
        one.services.home.workspace.mkdir(exist_ok=True)
        work = one.services.home.workspace
        if how == "module":
            (work / "planted.py").write_text(code)
        else:
            (work / "planted").mkdir()
            (work / "planted" / "__init__.py").write_text(code)
        place = work
        if how == "link":
            place = tmp_path / "site"
            place.mkdir()
            (place / "planted").symlink_to(work / "planted")
        monkeypatch.syspath_prepend(place)
        await one.registries.register_tool(tool("planted:run"))
        failed = await one.call("it", {})
        assert "which agents can write to" in failed.error
        assert not trace.exists()
        assert "planted" not in sys.modules


async def test_an_edited_adapter_is_used_only_after_a_successful_trial_in_a_box(tmp_path, package):
    file, trace = package / "edited.py", tmp_path / "ran"
    (package / "beside.py").write_text("WORD = 'beside'\n")
    file.write_text("def run():\n    return 'old'\n")
    async with engine(tmp_path / "home", "operators_own") as one:
        await one.registries.register_tool(tool("operators_own.edited:run"))
        assert (await one.call("it", {})).output == "old"
        assert await one.registries.reload_adapters() == {}

        mark = f"try:\n    open({str(trace)!r}, 'w').close()\nexcept OSError:\n    pass\n"
        file.write_text(f"{mark}raise RuntimeError('not yet')\n")
        outcome = await one.registries.reload_adapters()
        assert "fails in a box: RuntimeError: not yet" in outcome["operators_own.edited"]
        assert not trace.exists()  # it ran in the box alone
        assert (await one.call("it", {})).output == "old"

        file.write_text(
            "from engine.contract.context import CallContext\nfrom operators_own.beside import WORD\n\n\n"
            "async def run(ctx: CallContext):\n    return f'new, {WORD}'\n"
        )
        assert await one.registries.reload_adapters() == {"operators_own.edited": ""}
        assert (await one.call("it", {})).output == "new, beside"


async def test_registering_a_tool_again_reloads_its_edited_adapter_in_running_engines(tmp_path, package):
    file = package / "again.py"
    file.write_text("def run():\n    return 1\n")
    async with engine(tmp_path / "home", "operators_own") as one, engine(tmp_path / "home", "operators_own") as other:
        await other.registries.register_tool(tool("operators_own.again:run"))
        assert (await one.list_tools()).tools
        assert (await one.call("it", {})).output == 1
        file.write_text("def run():\n    return 'two'\n")
        await other.registries.register_tool(tool("operators_own.again:run"))
        await one.list_tools()
        assert (await one.call("it", {})).output == "two"


async def test_the_schema_must_match_the_functions_signature(tmp_path):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder() | {"adapter_path": f"{HERE}:strange"})
        assert (
            "its parameters include a, b, which its function does not accept"
            in (await one.call("add", {"a": 1, "b": 2})).error
        )
        await one.registries.register_tool(
            {"spec_id": "add", "adapter_path": f"{HERE}:number", "params_schema": NUMBERS}
        )
        assert "int is neither" in (await one.registries.health())["add"]


async def test_an_edited_adapter_is_reloaded_automatically_and_a_broken_one_is_tried_once(tmp_path, package, caplog):
    file = package / "watched.py"
    file.write_text("def run():\n    return 'old'\n")
    async with engine(tmp_path / "home", "operators_own") as one:
        await one.registries.register_tool(tool("operators_own.watched:run"))
        assert (await one.call("it", {})).output == "old"
        file.write_text("def run():\n    return 'new'\n")

        async def is_new() -> bool:
            return (await one.call("it", {})).output == "new"

        async def is_logged() -> bool:
            await one.list_tools()
            return "not yet" in caplog.text

        await eventually(is_new)  # nothing else is registered or listed
        file.write_text("raise RuntimeError('not yet')\n")
        await eventually(is_logged)
        assert not one.registries.tools.adapters.edited()  # it is not tried again as it is
        assert (await one.call("it", {})).output == "new"
        assert "not yet" in (await one.registries.reload_adapters())["operators_own.watched"]  # unless asked
        file.write_text("def run():\n    return 'mended'\n")
        assert one.registries.tools.adapters.edited()


async def test_if_an_import_takes_too_long_nothing_is_run_and_the_error_says_so(tmp_path, package):
    trace = tmp_path / "ran"
    (package / "slow.py").write_text(
        f"import time\ntime.sleep(2)\n\n\ndef run():\n    open({str(trace)!r}, 'w').close()\n    return 'in the end'\n"
    )
    async with engine(tmp_path / "home", "operators_own") as one:
        await one.registries.register_tool(tool("operators_own.slow:run") | {"timeout_ms": 500})
        late = await one.call("it", {})
        assert late.failure is not None
        assert (late.failure.reason, late.failure.may_have_started) == ("adapter_unavailable", False)
        assert "Nothing was run" in late.error
        assert not trace.exists()

        async def is_healthy() -> bool:
            return not (await one.registries.health())["it"]

        await eventually(is_healthy)  # the import went on
        assert not trace.exists()


HANGS = """
import asyncio, sys
from engine.registry import adapters
from tests.registry.parts import engine

adapters.IMPORT_SHARE = {share}

async def main():
    async with engine({home!r}, "operators_own") as one:
        await one.registries.register_tool(
            {{"spec_id": "it", "adapter_path": {path!r}, "timeout_ms": 10_000}}
        )
        print((await one.call("it", {{}})).failure.may_have_started, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("source", "share", "started"),  # of the tool's time for its import: much is left of it for what comes next
    [
        ("import time\ntime.sleep(600)\n", 0.1, "False"),
        ("import time\n\n\ndef run():\n    time.sleep(600)\n", 0.8, "True"),
    ],
)
def test_a_hanging_import_or_first_call_does_not_keep_the_process_alive(tmp_path, package, source, share, started):
    (package / "hangs.py").write_text(source)
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
    code += HANGS.format(home=str(tmp_path / "home"), path="operators_own.hangs:run", share=share)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=110, check=False
    )  # far less than it hangs
    assert (done.returncode, done.stdout.strip()) == (0, started), done.stderr
