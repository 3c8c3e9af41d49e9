"""`knackbox call`, `tools`, `failures`, `chat` and `doctor`, with the included packs, on one home."""

import asyncio
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.scripted_model import PNG, Scripted, ScriptedModel, calls, fails, says, serving
from tests.interfaces.cli import Ran, here

BUILT_INS = {
    "abort_attempt",
    "compose_skill",
    "create_skill",
    "execute",
    "file_system",
    "manage_skills",
    "replan",
    "scratchpad",
}


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(shared_home))
    return shared_home


@contextmanager
def model_server(monkeypatch: pytest.MonkeyPatch, *script: Scripted) -> Iterator[ScriptedModel]:
    """Serve a scripted model in a thread, and configure it through the environment."""
    ready: list[ScriptedModel] = []
    up, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(*script) as model:
            ready.append(model)
            up.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert up.wait(20)
        monkeypatch.setenv("KNACKBOX_MODEL_NAME", "scripted")
        monkeypatch.setenv("KNACKBOX_MODEL_BASE_URL", ready[0].base_url)
        yield ready[0]
    finally:
        done.set()
        thread.join(20)


@pytest.mark.spec("LIST-1", "LIST-6", "FACE-1")
def test_tools_lists_tools_and_explains_which_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    fit = here(capfd, "tools", "--why", "I had eggs for breakfast", "--json").last["fit"]
    assert fit["probability"] < fit["least"]
    assert fit["nearest"][0]["evidence"].keys() == {"words", "request", "nearness", "head", "chat", "unmatched"}
    shown = here(capfd, "tools", "--why", "I had eggs for breakfast")
    assert "Nothing fits: the probability is 0.0" in shown.out + shown.err
    found = here(capfd, "tools", "--why", "--json").last
    names = [tool["name"] for tool in found["tools"]]
    dropped = {each["name"]: each["reason"] for each in found["dropped"]}
    assert set(names) >= BUILT_INS
    assert names == sorted(names)
    assert "vision" in dropped["vision_analysis"]
    assert "image_client" in dropped["image_generation"]


@pytest.mark.spec("LIST-2")
def test_configured_models_make_their_tools_available(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNACKBOX_VISION_NAME", "eyes")
    monkeypatch.setenv("KNACKBOX_VISION_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("KNACKBOX_IMAGE_NAME", "brush")
    monkeypatch.setenv("KNACKBOX_IMAGE_BASE_URL", "http://127.0.0.1:9/v1")
    names = [tool["name"] for tool in here(capfd, "tools", "--json").last["tools"]]
    assert {"vision_analysis", "image_generation"} <= set(names)


@pytest.mark.spec("TOOL-13")
def test_vision_and_image_generation_work_against_a_compatible_endpoint(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    with model_server(monkeypatch, says("unused"), says("One dark pixel.")) as model:
        monkeypatch.setenv("KNACKBOX_MODEL_SEES", "true")
        monkeypatch.setenv("KNACKBOX_IMAGE_NAME", "brush")
        monkeypatch.setenv("KNACKBOX_IMAGE_BASE_URL", model.base_url)
        drawn = here(capfd, "call", "image_generation", "--args", '{"prompt": "a dot", "path": "dot.png"}', "--json")
        assert drawn.last["success"], drawn.last
        assert (home / "workspace" / "dot.png").read_bytes() == PNG
        seen = here(capfd, "call", "vision_analysis", "--args", '{"path": "dot.png"}', "--json")
    assert seen.last["output"]["answer"] == "One dark pixel."


@pytest.mark.spec("FACE-1", "TOOL-1")
def test_a_call_prints_the_text_or_with_json_the_complete_result(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = json.dumps({"language": "python", "code": "print(6 * 7)"})
    assert "42" in here(capfd, "call", "execute", "--args", arguments).out
    found = here(capfd, "--json", "call", "execute", "--args", arguments).last
    assert found["success"] is True
    assert (found["audit"]["tool"], found["audit"]["end"]) == ("execute", "ok")


def test_arguments_are_read_from_a_file_or_from_stdin(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"language": "bash", "code": "echo from a file"})
    (tmp_path / "args.json").write_text(text)
    assert "from a file" in here(capfd, "call", "execute", "--args", f"@{tmp_path}/args.json").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "from a file" in here(capfd, "call", "execute", "--args", "@-").out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["call", "execute", "--args", "{bad"], 2, "not valid JSON"),
        (["call", "execute", "--args", "[1]"], 2, "one JSON object"),
        (["call", "execute", "--args", "@/nowhere"], 2, "/nowhere cannot be read"),
        (["call", "execute", "--args", "{}"], 2, "`code` is missing"),
        (["call", "exekute"], 2, "execute"),
        (["call", "execute", "--args", '{"language": "python", "code": "1/0"}'], 1, "ZeroDivisionError"),
        (["failures", "--class", "SOME"], 2, "SOME"),
    ],
)
def test_errors_are_printed_on_stderr_and_set_the_exit_code(
    capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    ran = here(capfd, *arguments)
    assert ran.code == code
    assert message in ran.err
    assert ran.out == ""
    assert "Traceback (most recent call last)" not in ran.err or "1/0" in ran.err


@pytest.mark.spec("FAIL-5")
def test_failures_are_listed_newest_first(capfd: pytest.CaptureFixture[str]) -> None:
    here(capfd, "call", "exekute")
    here(capfd, "call", "execute", "--args", "{}")
    newest, older = here(capfd, "failures", "--json").last["failures"][:2]
    assert (newest["tool"], newest["reason"]) == ("execute", "invalid_arguments")
    assert (older["tool"], older["failure_class"]) == ("exekute", "DIAGNOSTIC")
    assert "exekute" in here(capfd, "failures").out


@pytest.mark.spec("LOOP-1", "FACE-1")
def test_chat_calls_tools_and_answers_on_stdout(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = {"language": "python", "code": "print(6 * 7)"}
    with model_server(monkeypatch, calls(("execute", code)), says("It is 42.")) as model:
        ran = here(capfd, "chat", "What is six times seven?")
        assert any("42" in content for content in model.tool_messages())
        assert set(model.offered()) >= BUILT_INS
    assert (ran.code, ran.out) == (0, "It is 42.\n")
    assert "execute" in ran.err


def test_chat_with_json_prints_one_object(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    abort = calls(("abort_attempt", {"reason": "no key", "learned": "the door is locked"}))
    with model_server(monkeypatch, abort):
        ran = here(capfd, "chat", "Open it", "--json")
    assert (ran.code, ran.last["finish"]) == (1, "aborted")
    assert "the door is locked" in ran.last["answer"]
    assert ran.last["calls"][0]["tool"] == "abort_attempt"


def test_chat_without_a_model_names_the_setting(capfd: pytest.CaptureFixture[str]) -> None:
    ran = here(capfd, "chat", "hello")
    assert ran.code == 3
    assert "KNACKBOX_MODEL_NAME" in ran.err
    assert ran.err.count("\n") == 1


def test_chat_gives_exit_code_3_if_the_model_rejects_the_key(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(monkeypatch, fails(401, "bad key")):
        ran = here(capfd, "chat", "hello")
    assert ran.code == 3
    assert "Check the API key." in ran.out + ran.err


@pytest.mark.spec("BOX-2", "FACE-1")
def test_doctor_shows_every_protection_and_component(capfd: pytest.CaptureFixture[str]) -> None:
    found = here(capfd, "doctor", "--json")
    by_name = {check["name"]: check for check in found.last["checks"]}
    assert found.code == 0, [check for check in found.last["checks"] if check["state"] != "ok"]
    assert found.last["ok"] is True
    for name in ("user namespace", "seccomp", "network namespace"):
        assert by_name[name]["state"] == "enforced"
    assert {"python", "node", "bash", "folder", "records", "embedder", "chat"} <= by_name.keys()
    assert by_name["chat"]["state"] == "not configured"
    shown = here(capfd, "doctor")
    assert "[model]" in shown.out.replace("\n", "")
    assert "seccomp" in shown.out


def test_doctor_finds_broken_components_and_gives_exit_code_3(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))
    (tmp_path / "records.db").write_bytes(b"no database at all" * 200)
    (tmp_path / "config.toml").write_text("wrong = 1\n")
    ran: Ran = here(capfd, "doctor", "--json")
    broken = {check["name"]: check for check in ran.last["checks"] if check["state"] == "broken"}
    assert ran.code == 3
    assert {"records", "config.toml"} <= broken.keys()
    assert "restore" in broken["records"]["remedy"]
    assert (tmp_path / "records.db").read_bytes() == b"no database at all" * 200


@pytest.mark.spec("HOME-1")
def test_doctor_reports_a_readable_home_as_exposed_but_not_as_broken(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    ran = here(capfd, "doctor", "--json")
    (folder,) = [check for check in ran.last["checks"] if check["name"] == "folder"]
    assert (ran.code, folder["state"]) == (0, "exposed")
    assert folder["remedy"].endswith(f"chmod 700 {tmp_path}")
    shown = here(capfd, "doctor")
    assert "Check: folder (exposed)." in shown.err
    tmp_path.chmod(0o700)
    assert here(capfd, "doctor").err.endswith("everything required works.\n")


@pytest.mark.spec("FACE-1")
@pytest.mark.parametrize(
    "arguments",
    [
        ["exec", "python", "MISSING"],
        ["run", "MISSING"],
        ["call", "execute", "--args", "@MISSING"],
        ["skills", "import", "MISSING"],
        ["skills", "add", "MISSING", "--tests", "MISSING", "-d", "x"],
        ["skills", "compose", "MISSING"],
        ["skills", "show", "MISSING"],
        ["skills", "export", "MISSING"],
        ["registry", "register", "MISSING"],
        ["chat", "hello", "--agent", "MISSING"],
        ["tools", "--agent", "MISSING"],
        ["tools", "--allow-list", "MISSING"],
        ["kernelspec", "remove", "MISSING"],
        ["serve", "token", "remove", "MISSING"],
    ],
)
def test_a_missing_file_or_name_gives_exit_code_2_in_every_command(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = here(capfd, *arguments)
    assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, ""), ran
    assert "MISSING" in ran.err


@pytest.mark.spec("FACE-1")
@pytest.mark.parametrize("command", ["exec", "skills", "kernel", "mcp", "serve", "bench", "registry"])
def test_shell_completion_is_not_offered(capfd: pytest.CaptureFixture[str], command: str) -> None:
    assert "completion" not in here(capfd, command, "--help").out
    assert here(capfd, command, "--install-completion").code == 2


@pytest.mark.spec("BOX-2")
def test_doctor_reports_missing_isolation(capfd: pytest.CaptureFixture[str]) -> None:
    found = here(capfd, "--unsafe-no-sandbox", "doctor", "--json").last
    (isolation,) = [check for check in found["checks"] if check["name"] == "isolation"]
    assert isolation["state"] == "absent"
