"""Fallback chains are followed, validated with the position of each error, and reloaded after an edit."""

import importlib
import logging
import os
import pkgutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builtin_tools
from builtin_tools.database.postgres_admin import postgres_admin
from builtin_tools.memory.recall_tool import recall
from builtin_tools.web.content import CONTENT_TOOLS
from builtin_tools.web.research.deep_research import deep_research
from builtin_tools.web.research.fact_checking.fact_check import fact_check
from engine.contract.failure import ConfigError, FailureClass, ToolFailure
from engine.contract.source import Tool
from engine.contract.spec import Annotations, ToolSpec
from engine.recovery.chains_file import read_chains
from engine.recovery.fallback import FallbackChains, shipped_chains
from engine.registry.decorate import tool
from tests.dispatch.pipeline_fixture import ManualClock, open_pipeline

READ_ONLY = Annotations(read_only=True)
FATAL, RETRYABLE, UNKNOWN = FailureClass.FATAL, FailureClass.RETRYABLE, FailureClass.UNKNOWN


@tool(annotations=READ_ONLY)
async def dead(query: str = "", kind: str = "unreachable") -> str:
    """Be dead."""
    if kind == "bug":
        raise KeyError("bug")
    if kind == "denied":
        raise PermissionError("not for you")
    if kind == "missing":
        raise ToolFailure("no client", failure_class=FATAL, reason="not_configured")
    if kind == "wrong":
        raise ValueError("correct yourself")
    raise ConnectionRefusedError("nobody there")


@tool(annotations=READ_ONLY)
async def spare(text: str, limit: int = 5) -> str:
    """Stand in."""
    if text == "fail":
        raise ConnectionRefusedError("nobody here either")
    return f"spare:{text}:{limit}"


@tool()
async def writer(text: str = "") -> str:
    """Write."""
    return "wrote"


TOOLS = [dead, spare, writer]
SPECS = {each.spec.name: each.spec for each in TOOLS}
AUTO = "chains:\n  dead:\n    - {tool: spare, arguments: {text: $query, limit: 7}, mode: auto}\n    - {tool: writer}\n"
SUGGEST = AUTO.replace("auto", "suggest")

_TENS = "".join(
    f"          - &{name} [{', '.join([of] * 10)}]\n"
    for name, of in zip("bcdef", ["1", "*b", "*c", "*d", "*e"], strict=True)
)
MULTIPLIED = f"chains:\n  dead:\n    - tool: spare\n      arguments:\n        text:\n{_TENS}"


@pytest.fixture
def chains_file(tmp_path):
    path = tmp_path / "chains.yaml"
    path.write_text(SUGGEST)
    return path


def refused(path, text):
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        FallbackChains(path, lambda: SPECS)
    return str(caught.value)


def edit(path, text):
    """Replace a file, as editors do. A new inode shows the change even if the time stamp stays the same."""
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)


@pytest.mark.spec("FAIL-6")
async def test_a_failed_tool_suggests_its_alternatives_with_mapped_arguments(tmp_path, chains_file):
    async with open_pipeline(tmp_path / "w", TOOLS, clock=ManualClock(), chains=chains_file) as h:
        result = await h.call("dead", query="cats")
    assert not result.success
    assert result.audit.attempts == 3
    assert '- `spare` with {"text": "cats", "limit": 7}' in result.error
    assert "- `writer`" in result.error


@pytest.mark.spec("FAIL-6")
async def test_an_automatic_alternative_runs_and_is_named_in_the_result(tmp_path, chains_file):
    chains_file.write_text(AUTO)
    async with open_pipeline(tmp_path / "w", TOOLS, clock=ManualClock(), chains=chains_file) as h:
        result = await h.call("dead", query="cats")
        assert [(call.name, each.success) for call, each in h.seen] == [("spare", True), ("dead", True)]
    assert result.success
    assert result.output == "spare:cats:7"
    assert result.message == "dead failed (unreachable); spare was used instead.\nspare:cats:7"
    assert result.audit.tool == "dead"


@pytest.mark.spec("FAIL-6")
async def test_a_failed_automatic_alternative_is_reported_and_its_arguments_are_validated(tmp_path, chains_file):
    chains_file.write_text(AUTO)
    async with open_pipeline(tmp_path / "w", TOOLS, clock=ManualClock(), chains=chains_file) as h:
        result = await h.call("dead", query="fail")
        assert "`spare` was tried instead and failed too" in result.error
        absent = await h.call("dead")
        assert "`text` is missing" in absent.error


@pytest.mark.spec("FAIL-3", "FAIL-6")
@pytest.mark.parametrize(
    ("kind", "follows"), [("denied", False), ("wrong", False), ("missing", True), ("bug", True), ("unreachable", True)]
)
async def test_there_is_no_fallback_for_denials_and_for_mistakes_that_the_model_can_correct(
    tmp_path, chains_file, kind, follows
):
    async with open_pipeline(tmp_path / "w", TOOLS, clock=ManualClock(), chains=chains_file) as h:
        result = await h.call("dead", kind=kind)
    assert ("`spare`" in result.error) is follows


@pytest.mark.spec("FAIL-3")
async def test_a_fatal_failure_is_not_retried_and_suggests_replan(tmp_path):
    async with open_pipeline(tmp_path, TOOLS) as h:
        result = await h.call("dead", kind="denied")
    assert result.failure.failure_class is FATAL
    assert "call `replan`" in result.error
    assert result.audit.attempts == 1


@pytest.mark.spec("FAIL-6")
@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("chains:\n  ded:\n    - tool: spare\n", "2:3", "unknown tool 'ded' (did you mean 'dead'?)"),
        ("chains:\n  dead:\n    - tool: sparr\n", "3:13", "unknown tool 'sparr' (did you mean 'spare'?)"),
        ("chains:\n  dead:\n    - tool: spare\n      mod: auto\n", "4:7", "unknown field 'mod' (did you mean 'mode'?)"),
        (
            "chains:\n  dead:\n    - tool: spare\n      mode: maybe\n",
            "4:13",
            "must be 'suggest' or 'auto', not 'maybe'",
        ),
        ("chains:\n  dead:\n    - tool: writer\n      mode: auto\n", "4:13", "writer is not; use `suggest`"),
        ("chains:\n  writer:\n    - tool: spare\n      mode: auto\n", "4:13", "writer is not; use `suggest`"),
        ("chains:\n  dead:\n    - mode: auto\n", "3:7", "`tool` is missing"),
        (
            "chains:\n  dead:\n    - spare\n",
            "3:7",
            "chains.dead[0] must be a mapping with the fields: tool, arguments, note, mode",
        ),
        ("chains:\n  dead: spare\n", "2:9", "chains.dead must be a list, not 'spare'"),
        ("chains:\n  dead:\n    - tool: spare\n      arguments: {txt: $query}\n", "4:19", "no argument 'txt'"),
        ("chains:\n  dead:\n    - tool: spare\n      arguments: {text: $quer}\n", "4:25", "no argument 'quer'"),
        (
            "chains:\n  dead:\n    - tool: spare\n      arguments: [1]\n",
            "4:18",
            "chains.dead[0].arguments must be a mapping, not a list",
        ),
        ("chains:\n  dead:\n    - tool: spare\n      note: 3\n", "4:13", "chains.dead[0].note must be a string, not 3"),
        ("chains:\n  dead:\n    - tool: spare\n      arguments: {text: 2026-01-01}\n", "4:25", "no JSON form"),
        ("chains:\n  dead:\n    - tool: spare\n      note: 2026-13-45\n", "1:1", "cannot be used here"),
        ("chains:\n  dead:\n    - tool: dead\n", "3:7", "a cycle: dead -> dead"),
        ("chains:\n  dead:\n    - tool: spare\n  spare:\n    - tool: dead\n", "5:7", "a cycle: dead -> spare -> dead"),
        ("chains:\n  dead:\n    - ? - :\n", "1:1", "cannot be used here"),
        ("chain:\n  dead: []\n", "1:1", "unknown field 'chain'"),
        ("- dead\n", "1:1", "the document must be a mapping with the fields: chains"),
        ("chains: 3\n", "1:9", "chains must be a mapping, not 3"),
        ("chains:\n  dead: [\n", "3:1", "not valid YAML"),
        ("chains:\n\tdead: []\n", "2:1", "not valid YAML"),
        ("chains:\n  dead: []\n  dead: []\n", "3:3", "not valid YAML"),
        (MULTIPLIED, "6:11", "more than 10000 values"),
        ("chains:\n  dead:\n    - <<: {tool: sparr}\n", "3:18", "unknown tool 'sparr'"),
    ],
)
def test_an_invalid_file_is_rejected_with_file_line_and_column(tmp_path, text, place, problem):
    path = tmp_path / "chains.yaml"
    said = refused(path, text)
    assert said.startswith(f"{path}:{place}: ")
    assert problem in said
    assert "\n" not in said


FRAGMENTS = [
    "chains",
    ":",
    " ",
    "\n",
    "  ",
    "- ",
    "tool",
    "dead",
    "spare",
    "mode",
    "auto",
    "arguments",
    "text",
    "$query",
]
FRAGMENTS += ["{", "}", "[", "]", "&a ", "*a", "<<", "!!x ", "? ", "| ", "#", "'", '"', "\t", "%", "---\n", "null", "1"]


@pytest.mark.spec("FAIL-6")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join))
@settings(max_examples=120, deadline=None)
def test_any_file_is_either_read_or_rejected_in_one_line(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    for whole in (text, "chains:\n  dead:\n    - " + text):
        path.write_text(whole)
        said = ""
        try:
            read_chains(path, SPECS)
        except ConfigError as error:
            said = str(error)
        assert not said or said.startswith(f"{path}:")
        assert "\n" not in said


@pytest.mark.spec("FAIL-6")
def test_a_binary_or_missing_file_is_rejected_with_a_clear_error(tmp_path):
    path = tmp_path / "chains.yaml"
    path.write_bytes(b"chains:\n  # \xff\n")
    with pytest.raises(ConfigError, match=r"chains.yaml:2:5: this is not UTF-8 text"):
        FallbackChains(path, lambda: SPECS)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        FallbackChains(tmp_path / "none.yaml", lambda: SPECS)


@pytest.mark.spec("FAIL-6")
def test_an_edit_applies_from_the_next_use_on(chains_file):
    chains = FallbackChains(chains_file, lambda: SPECS)
    assert [each.tool for each in chains.alternatives("dead")] == ["spare", "writer"]
    edit(chains_file, "chains:\n  dead:\n    - tool: writer\n")
    assert [each.tool for each in chains.alternatives("dead")] == ["writer"]
    assert chains.problem == ""


@pytest.mark.spec("FAIL-6")
async def test_an_invalid_edit_keeps_the_last_valid_chains_and_is_reported(tmp_path, chains_file, caplog):
    async with open_pipeline(tmp_path / "w", TOOLS, clock=ManualClock(), chains=chains_file) as h:
        edit(chains_file, "chains:\n  dead: [\n")
        with caplog.at_level(logging.WARNING):
            results = [await h.call("dead", query="q") for _ in range(2)]
        for result in results:
            assert "`spare`" in result.error
            assert "chains.yaml:3:1" in result.error
        assert caplog.text.count("stay in use") == 1
        edit(chains_file, "chains:\n  dead:\n    - tool: writer\n")
        mended = await h.call("dead")
        assert "`spare`" not in mended.error
        assert "chains.yaml" not in mended.error


@pytest.mark.spec("FAIL-6")
def test_a_deleted_file_keeps_the_last_valid_chains_and_a_new_file_applies(chains_file):
    chains = FallbackChains(chains_file, lambda: SPECS)
    chains_file.unlink()
    assert len(chains.alternatives("dead")) == 2
    assert "cannot be read" in chains.problem
    chains_file.write_text("chains: {}\n")
    assert chains.alternatives("dead") == ()
    assert chains.problem == ""


def test_literals_keep_their_types_and_a_double_dollar_is_a_literal_one(tmp_path):
    path = tmp_path / "chains.yaml"
    path.write_text(
        "chains:\n  writer:\n    - tool: open\n      arguments:\n"
        "        {a: 1, b: 1.5, c: true, d: null, e: [x, {y: 0x10}], f: $$home, g: $text, h: 'quoted'}\n"
    )

    @tool(name="open")
    async def anything(a: object = None) -> None:
        """Take anything."""

    spec = anything.spec
    spec.parameters["additionalProperties"] = True
    chains = FallbackChains(path, lambda: {**SPECS, "open": spec})
    (alternative,) = chains.alternatives("writer")
    made = alternative.arguments_for({"text": "t"})
    assert made == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": ["x", {"y": 16}],
        "f": "$home",
        "g": "t",
        "h": "quoted",
    }
    assert {type(each) for each in made.values()} <= {int, float, bool, type(None), list, str}


@pytest.mark.spec("FAIL-6")
def test_creating_or_removing_the_file_takes_effect_at_the_next_failure(tmp_path):
    own, shipped = tmp_path / "own.yaml", tmp_path / "shipped.yaml"
    shipped.write_text(SUGGEST.replace("dead", "nobody_has_it"))
    chains = FallbackChains(own, lambda: SPECS, otherwise=shipped)
    assert (chains.path, chains.chains()) == (shipped, {})
    own.write_text(SUGGEST)
    assert chains.chains()
    assert chains.path == own
    own.unlink()
    assert chains.chains() == {}


@pytest.mark.spec("FAIL-6")
def test_unknown_tools_in_the_shipped_chains_are_skipped_and_logged():
    chains = FallbackChains(Path("nowhere"), lambda: SPECS, otherwise=shipped_chains())
    assert chains.chains() == {}
    assert any("unknown tool 'vision_analysis'" in each for each in chains.skipped)


@pytest.mark.spec("FAIL-6")
def test_the_shipped_chains_are_valid_for_the_shipped_tools():
    modules = [
        importlib.import_module(f"builtin_tools.{each.name}") for each in pkgutil.iter_modules(builtin_tools.__path__)
    ]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Tool)]
    specs = {
        each.spec.name: each.spec
        for each in [*found, *CONTENT_TOOLS, deep_research, fact_check, postgres_admin]
        if isinstance(each.spec, ToolSpec)
    }
    chains = FallbackChains(shipped_chains(), lambda: {**specs, "recall": recall.spec})
    assert set(chains.chains()) == set(specs)
    assert "`execute`" in chains.suggestion("vision_analysis", {"path": "a.png"})
