"""`knackbox registry`, and commands that act as a registered agent. (REG-1, REG-4, REG-5, REG-7, REG-10)"""

import json
from pathlib import Path

import pytest

from tests.agent.scripted_model import says
from tests.interfaces.cli import here
from tests.interfaces.test_commands import model_server

pytestmark = pytest.mark.spec("REG-1", "REG-4", "REG-5", "REG-7", "REG-10", "FACE-1")

NUMBERS = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
ADD = {"spec_id": "add", "adapter_path": "tests.registry.adapters_here:add", "params_schema": NUMBERS}
AGENT = {"spec_id": "smith", "allowed_tools": ["add"]}
REPLAN = ("--args", '{"reason": "x", "new_plan": "y"}')
PROMPT = {"spec_id": "hi", "template": "Hello {name}"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KNACKBOX_REGISTRY_ADAPTER_PREFIXES", "tests.registry")
    (tmp_path / "all.json").write_text(json.dumps([ADD, AGENT, PROMPT]))
    return tmp_path / "home"


def test_a_tool_a_prompt_and_an_agent_are_registered_used_disabled_and_deleted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = here(capfd, "registry", "register", str(tmp_path / "all.json"), "--json")
    assert [each["kind"] for each in done.last["registered"]] == ["tool", "agent", "prompt"]
    args = ("--args", '{"a": 1, "b": 2}')
    assert here(capfd, "call", "add", *args, "--agent", "smith").out == "3\n"
    assert "allow-list" in here(capfd, "call", "replan", *REPLAN, "--agent", "smith").err
    assert [each["name"] for each in here(capfd, "tools", "--agent", "smith", "--json").last["tools"]] == ["add"]
    assert here(capfd, "registry", "health", "--json").last == {"ok": True, "tools": {"add": ""}, "problems": []}
    assert here(capfd, "registry", "disable", "replan").code == 0
    why = {each["name"]: each["reason"] for each in here(capfd, "tools", "--why", "--json").last["dropped"]}
    assert why["replan"].startswith("disabled since")
    listed = here(capfd, "registry", "list")
    assert all(name in listed.out for name in ("add", "smith", "hi", "replan"))
    assert here(capfd, "registry", "enable", "replan", "--json").last["changed"]
    assert here(capfd, "registry", "delete", "add").code == 0
    assert here(capfd, "registry", "delete", "hi", "--kind", "prompt").code == 0
    assert here(capfd, "registry", "disable", "smith", "--kind", "agent").code == 0
    assert "disabled since" in here(capfd, "tools", "--agent", "smith").err
    found = here(capfd, "registry", "list", "--json").last
    assert (found["tools"], found["prompts"], [each["id"] for each in found["agents"]]) == ([], [], ["smith"])


def test_a_snapshot_is_taken_verified_and_restored(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here(capfd, "registry", "register", str(tmp_path / "all.json"))
    name = here(capfd, "registry", "snapshot").out.strip()
    here(capfd, "registry", "delete", "add")
    assert here(capfd, "registry", "restore", name).code == 0
    assert [each["id"] for each in here(capfd, "registry", "list", "--json").last["tools"]] == ["add"]
    actions = [each["action"] for each in here(capfd, "registry", "snapshots", "--json").last["entries"]]
    assert actions == ["snapshot", "snapshot", "restore"]
    assert here(capfd, "registry", "verify", "--json").last == {"ok": True, "problems": []}
    file = home / "registries" / "snapshots" / f"{name}.json"
    file.write_text(file.read_text().replace("smith", "smyth"))
    checked = here(capfd, "registry", "verify")
    assert checked.code == 1
    assert name in checked.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("register", "/nowhere.json"), "cannot be read"),
        (("delete", "execute"), "Disable it instead"),
        (("disable", "nobody"), "no tool 'nobody'"),
        (("enable", "nobody", "--kind", "agent"), "no agent 'nobody'"),
        (("restore", "nothing"), "no snapshot 'nothing'"),
    ],
)
def test_a_registry_error_is_one_line_and_exit_code_2(
    words: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ran = here(capfd, "registry", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_broken_adapter_or_file_fails_only_the_health_check(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(ADD | {"adapter_path": "tests.registry.no_such:add"}))
    assert here(capfd, "registry", "register", str(tmp_path / "bad.json")).code == 0
    (home / "registries" / "agents.json").write_text("{")
    doctor = {each["name"]: each["state"] for each in here(capfd, "doctor", "--json").last["checks"]}
    assert (doctor["registered tools"], doctor["registered agents"]) == ("ok", "broken")
    ran = here(capfd, "registry", "health", "--json")
    assert ran.code == 1
    assert "no module tests.registry.no_such" in ran.last["tools"]["add"]
    assert "agents.json.corrupt-" in ran.last["problems"][0]
    assert here(capfd, "call", "replan", *REPLAN).code == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "non-empty list"),
        ({"spec_id": "invoice_total"}, "Add --kind"),
        ({"spec_id": "x", "desc": "shared by prompts and agents"}, "Add --kind"),
        ({"spec_id": "x", "template": "hi", "caps": []}, "several kinds"),
        ([ADD, {"spec_id": "x", "adapter_path": 7}], "entry 2 (x)"),
        ([PROMPT, ADD, {"spec_id": "x"}], "Nothing was registered"),
    ],
)
def test_ambiguous_or_incomplete_entries_are_refused_and_nothing_is_registered(
    tmp_path: Path, given: object, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(given))
    ran = here(capfd, "registry", "register", str(tmp_path / "bad.json"))
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
    found = here(capfd, "registry", "list", "--json").last
    assert found["tools"] == found["prompts"] == found["agents"] == []


def test_a_list_describes_each_item_and_reports_a_damaged_file_once(
    tmp_path: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert here(capfd, "registry", "register", str(tmp_path / "all.json")).code == 0
    listed = here(capfd, "registry", "list", "--json").last
    assert listed["tools"] == [
        {"id": "add", "disabled": None, "name": "add", "version": "1", "adapter_path": ADD["adapter_path"]}
    ]
    assert "Hello {name}" in here(capfd, "registry", "list").out
    (home / "registries" / "tools.json").write_text('{"items": 1e999}')
    assert "1e999" in here(capfd, "tools").err
    assert "corrupt" not in here(capfd, "tools").err
    assert here(capfd, "registry", "list").err.count("tools.json.corrupt-") == 1
    ran = here(capfd, "registry", "health")
    assert (ran.out, ran.err.count("tools.json.corrupt-")) == ("", 1)
    doctor = {each["name"]: each for each in here(capfd, "doctor", "--json").last["checks"]}
    assert "tools.json.corrupt-" in doctor["registered tools"]["detail"]


@pytest.mark.spec("LOOP-1")
def test_the_default_prompt_of_an_agent_is_added_to_its_instructions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = {"spec_id": "voice", "template": "Speak like {who}."}
    (tmp_path / "two.json").write_text(json.dumps([voice, AGENT | {"default_prompt_id": "voice"}]))
    assert here(capfd, "registry", "register", str(tmp_path / "two.json")).code == 0
    with model_server(monkeypatch, says("Done.")) as model:
        assert here(capfd, "chat", "Hello", "--agent", "smith").out == "Done.\n"
        assert "Speak like {who}." in json.dumps(model.requests[0]["messages"])
        assert here(capfd, "chat", "Hello").code == 0
        assert "Speak like" not in json.dumps(model.requests[1]["messages"])
        here(capfd, "registry", "disable", "voice", "--kind", "prompt")
        assert "disabled since" in here(capfd, "chat", "Hello", "--agent", "smith").err
