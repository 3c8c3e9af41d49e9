"""Settings come from three sources, and an invalid one is reported in one line."""

from pathlib import Path

import pytest

from engine.app.config import load_settings
from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.failure import ConfigError


def home_with(folder: Path, text: str = "") -> Home:
    home = Home(folder)
    home.config.write_text(text)
    return home


def refusal(home: Home, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(home, environ or {})
    return str(caught.value)


def test_without_a_file_the_defaults_apply(tmp_path: Path) -> None:
    assert load_settings(Home(tmp_path / "none"), {}) == Settings()


def test_the_environment_overrides_the_file_and_the_command_line_overrides_both(tmp_path: Path) -> None:
    home = home_with(tmp_path, '[model]\nname = "from-file"\nbase_url = "http://file"\n[budget]\nturns = 3\n')
    settings = load_settings(home, {"KNACKBOX_MODEL_NAME": "from-env", "KNACKBOX_HOME": "/x"}, {"budget.turns": 5})
    assert (settings.model.name, settings.model.base_url, settings.budget.turns) == ("from-env", "http://file", 5)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[model]\nnmae = 'x'\n", ["config.toml", "model.nmae", "Did you mean model.name?"]),
        ("[modle]\nname = 'x'\n", ["config.toml", "modle", "not a setting"]),
        ("[budget]\nturns = 'many'\n", ["config.toml", "budget.turns", "many"]),
        ("[budget]\nturns = 0\n", ["config.toml", "budget.turns", "greater than or equal to 1"]),
        ("model = 'x'\n", ["config.toml", "model"]),
        ("[model\n", ["config.toml", "not valid TOML", "line 1"]),
        ("[model]\nprovider = 'acme'\n", ["config.toml", "model.provider", "'anthropic'", "acme"]),
    ],
)
def test_an_invalid_file_is_reported_in_one_line_with_field_and_remedy(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    message = refusal(home_with(tmp_path, text))
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_an_unknown_variable_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    message = refusal(Home(tmp_path), {"KNACKBOX_MODEL_NAM": "x"})
    assert "KNACKBOX_MODEL_NAM is not a setting" in message
    assert "KNACKBOX_MODEL_NAME" in message


def test_variables_that_are_read_elsewhere_are_not_refused_as_unknown(tmp_path: Path) -> None:
    environment = {"KNACKBOX_HOME": str(tmp_path), "KNACKBOX_PROCESS_1": "python"}
    assert load_settings(Home(tmp_path), environment) == load_settings(Home(tmp_path), {})


def test_an_invalid_variable_is_attributed_to_the_environment(tmp_path: Path) -> None:
    message = refusal(home_with(tmp_path, "[budget]\nturns = 3\n"), {"KNACKBOX_BUDGET_TOKENS": "lots"})
    assert message.startswith("environment: budget.tokens")


def test_a_key_is_never_shown(tmp_path: Path) -> None:
    settings = load_settings(Home(tmp_path), {"KNACKBOX_MODEL_API_KEY": "sk-secret"})
    assert "sk-secret" not in repr(settings)
    assert "sk-secret" not in refusal(home_with(tmp_path, "[model]\napi_key = ['sk-secret']\n"))


def test_a_pack_has_its_own_table_of_settings(tmp_path: Path) -> None:
    home = home_with(tmp_path, "[packs.acme]\nurl = 'http://acme'\n[packs.acme.deep]\nx = 1\n")
    assert load_settings(home, {}).packs["acme"] == {"url": "http://acme", "deep": {"x": 1}}


@pytest.mark.spec("LIST-2")
def test_the_chat_model_is_the_vision_model_only_if_it_accepts_images(tmp_path: Path) -> None:
    blind = {"KNACKBOX_MODEL_NAME": "m"}
    assert load_settings(Home(tmp_path), blind).vision_endpoint is None
    seeing = load_settings(Home(tmp_path), blind | {"KNACKBOX_MODEL_SEES": "true"})
    assert seeing.vision_endpoint == seeing.model
    other = load_settings(Home(tmp_path), blind | {"KNACKBOX_VISION_NAME": "eyes"})
    assert other.vision_endpoint is not None
    assert other.vision_endpoint.name == "eyes"


@pytest.mark.spec("BOX-10")
def test_egress_destinations_come_from_the_file_or_the_environment(tmp_path: Path) -> None:
    text = '[egress]\nallow = ["API.example.com.:443", "[::1]:80"]\nallow_private = ["::1"]\n'
    home = home_with(tmp_path, text)
    assert load_settings(home, {}).egress.allow == ("api.example.com:443", "[::1]:80")
    assert load_settings(home, {}).egress.allow_private == ("::1",)
    chosen = {"KNACKBOX_EGRESS_ALLOW": "a.example:1, b.example:2,", "KNACKBOX_EGRESS_ALLOW_PRIVATE": "10.0.0.1"}
    assert load_settings(home, chosen).egress.allow == ("a.example:1", "b.example:2")
    assert load_settings(home, chosen).egress.allow_private == ("10.0.0.1",)
    assert load_settings(home, {"KNACKBOX_EGRESS_ALLOW": ""}).egress.allow == ()
    assert Settings().egress.allow == ()


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("allow", "example.com", "'example.com' is not host:port"),
        ("allow", "*.example.com:443", "wildcard"),
        ("allow", "example.com:99999", "is not host:port"),
        ("allow", "0.0.0.0:80", "no host has such an address"),
        ("allow_private", "10.0.0.0/8", "neither a host name"),
    ],
)
def test_an_invalid_destination_is_reported_in_one_line(tmp_path: Path, field: str, value: str, reason: str) -> None:
    from_file = refusal(
        home_with(
            tmp_path,
            f"[egress]\n{field} = ['ok.example:1', '{value}']\n".replace(
                "ok.example:1", "10.0.0.1:1" if field == "allow" else "10.0.0.1"
            ),
        )
    )
    assert from_file.startswith(str(tmp_path))
    from_variable = refusal(Home(tmp_path / "none"), {f"KNACKBOX_EGRESS_{field.upper()}": value})
    assert from_variable.startswith(f"environment: egress.{field}.0: ")
    for message in (from_file, from_variable):
        assert reason in message
        assert message.endswith("Correct or remove it.")
        assert "\n" not in message


@pytest.mark.spec("KERN-6")
def test_kernel_limits_come_from_the_file_and_the_environment(tmp_path: Path) -> None:
    home = home_with(tmp_path, "[kernels]\nidle_s = 60\nper_agent = 2\npreload = ['numpy']\n")
    kernels = load_settings(home, {"KNACKBOX_KERNELS_PER_AGENT": "3", "KNACKBOX_KERNELS_MOST": "5"}).kernels
    assert (kernels.idle_s, kernels.per_agent, kernels.most, kernels.preload) == (60, 3, 5, ("numpy",))
    preload = {"KNACKBOX_KERNELS_PRELOAD": "numpy, pandas", "KNACKBOX_KERNELS_MEMORY_BYTES": str(1 << 29)}
    assert load_settings(home, preload).kernels.preload == ("numpy", "pandas")
    assert load_settings(home, preload).kernels.memory_bytes == 1 << 29
    for variable, value in (("WARM", "-1"), ("IDLE_S", "0"), ("PRELOAD", "os; rm"), ("MEMORY_BYTES", "1")):
        message = refusal(home, {f"KNACKBOX_KERNELS_{variable}": value})
        assert message.startswith(f"environment: kernels.{variable.lower()}")
        assert "\n" not in message


def test_a_list_must_be_a_list_in_the_file(tmp_path: Path) -> None:
    message = refusal(home_with(tmp_path, "[egress]\nallow = 'a.example:1'\n"))
    assert "egress.allow: Input should be a valid tuple, not 'a.example:1'" in message
