"""The settings that a sandbox backend gets when the engine opens it."""

from pathlib import Path

import pytest

from engine.app.home import Home
from engine.app.plugins import SANDBOXES, own
from engine.app.sandbox_choice import chosen_sandbox
from engine.app.sandboxes import open_sandbox, sandbox_settings
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from sandbox.contract import Sandbox, SandboxSettings
from sandbox.docker.backend import DockerSandbox
from sandbox.landlock_only.backend import LandlockSandbox
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from sandbox.unsafe import UnsafeSandbox


def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {"egress": {"allow_private": ["Printer.lan"]}, "environments": {"cap_bytes": 7, "build_s": 3}}
    )


@pytest.mark.spec("BOX-10", "BOX-11")
def test_the_cache_is_in_the_home_and_nothing_is_written_in_advance(tmp_path: Path) -> None:
    found = sandbox_settings(Home(tmp_path), settings(tmp_path))
    assert found == SandboxSettings(tmp_path / "cache", 7, 3, frozenset({"printer.lan"}), image="knackbox-box")
    config = NamespaceConfig.of(found)
    assert (config.environments.cache, config.environments.cap_bytes) == (tmp_path / "cache", 7)
    assert config.environments.build_s == 3
    assert config.egress.allow_private == {"printer.lan"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [NamespaceSandbox, LandlockSandbox, UnsafeSandbox])
async def test_every_backend_can_be_created_from_the_settings(tmp_path: Path, kind: type[NamespaceSandbox]) -> None:
    backend: Sandbox = kind.configured(sandbox_settings(Home(tmp_path), Settings()))
    assert type(backend) is kind
    await backend.aclose()


@pytest.mark.spec("BOX-9")
async def test_the_docker_settings_reach_the_backend(tmp_path: Path) -> None:
    docker = {"image": "mine", "runtime": "runsc", "url": "unix:///nowhere.sock"}
    box = DockerSandbox.configured(sandbox_settings(Home(tmp_path), Settings.model_validate({"docker": docker})))
    assert (box._config.image, box._config.runtime, box._config.url) == tuple(docker.values())
    await box.aclose()


def test_every_own_backend_is_created_by_its_configured_method() -> None:
    assert {point.name: point.value.rpartition(".")[2] for point in own(SANDBOXES)} == dict.fromkeys(
        ("docker", "landlock", "namespace"), "configured"
    )


async def test_the_configured_backend_is_opened_with_the_settings(tmp_path: Path) -> None:
    box = await open_sandbox("namespace", sandbox_settings(Home(tmp_path), settings(tmp_path)))
    assert isinstance(box, NamespaceSandbox)
    assert box._config.environments.cache == tmp_path / "cache"
    await box.aclose()


@pytest.mark.spec("FACE-11")
def test_without_a_configuration_the_default_sandbox_is_chosen(tmp_path: Path) -> None:
    name, found = chosen_sandbox(Home(tmp_path), {"KNACKBOX_HOME": str(tmp_path), "PATH": "/bin"})
    assert name == Settings().sandbox
    assert NamespaceConfig.of(found) == NamespaceConfig.of(sandbox_settings(Home(tmp_path), Settings()))


@pytest.mark.spec("FACE-11")
def test_the_configuration_chooses_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[environments]\nbuild_s = 7")
    name, found = chosen_sandbox(Home(tmp_path), {"KNACKBOX_SANDBOX": "landlock"})
    assert (name, found.build_s) == ("landlock", 7)


@pytest.mark.spec("FACE-11")
def test_an_invalid_configuration_is_an_error_even_if_only_the_sandbox_is_needed(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="KNACKBOX_NONSENSE"):
        chosen_sandbox(Home(tmp_path), {"KNACKBOX_NONSENSE": "1"})
    (tmp_path / "config.toml").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        chosen_sandbox(Home(tmp_path), {})
