"""End to end: a job lists its requirements, and its box has exactly these packages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.contract import Call, End, Job, UnresolvedRequirements
from sandbox.environments.environments import EnvironmentsConfig
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.sandbox.environments.wheels import from_folder, make_wheel

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIX = ("six==1.16.0",)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NamespaceSandbox]:
    """Yield a sandbox that gets packages from the index that this machine's pip uses."""
    cache = tmp_path_factory.mktemp("cache")
    async with NamespaceSandbox(NamespaceConfig(warm=1, environments=EnvironmentsConfig(cache=cache))) as sandbox:
        yield sandbox


@pytest.mark.spec("BOX-11")
async def test_a_job_can_import_its_requirements_and_none_of_the_engines_packages(box: NamespaceSandbox) -> None:
    code = """
import importlib.util, six
others = [n for n in ("pydantic", "numpy", "pytest", "uv", "engine") if importlib.util.find_spec(n)]
[six.__version__, six.__file__, others]
"""
    outcome = await box.run(Job(code=code, requirements=SIX))
    assert outcome.value == ["1.16.0", "/env/0/six.py", []], outcome
    without = await box.run(Job(code="import importlib.util\nimportlib.util.find_spec('pydantic') is not None"))
    assert without.value is True


async def test_a_called_function_and_a_child_interpreter_can_import_them_too(box: NamespaceSandbox) -> None:
    source = b"""
import subprocess, sys
import six
def versions():
    inner = subprocess.run(["python3", "-c", "import six; print(six.__version__)"], capture_output=True, text=True)
    return [six.__version__, inner.stdout.strip(), inner.stderr]
"""
    outcome = await box.run(Job(files={"v.py": source}, call=Call("v.py", "versions"), requirements=SIX))
    assert outcome.value == ["1.16.0", "1.16.0", ""], outcome


@pytest.mark.spec("BOX-11")
async def test_no_package_of_an_environment_is_imported_outside_of_a_box(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Require a package that records its rights: a template, which still has rights, must not import it."""
    source = b"rights = [line for line in open('/proc/self/status') if line.startswith(('CapEff', 'Seccomp:'))]\n"
    make_wheel(tmp_path, "curious", files={"curious.py": source})
    for name, value in from_folder(tmp_path).items():
        monkeypatch.setenv(name, value)
    code = "import sys\nbefore = 'curious' in sys.modules\nimport curious\n[before, *curious.rights]"
    async with NamespaceSandbox(NamespaceConfig(environments=EnvironmentsConfig(cache=tmp_path / "cache"))) as box:
        outcome = await box.run(Job(code=code, requirements=("curious",), preload=("curious",)))
    assert outcome.value == [False, "CapEff:\t0000000000000000\n", "Seccomp:\t2\n"], outcome


async def test_concurrent_jobs_can_use_different_versions(box: NamespaceSandbox) -> None:
    wanted = [("six==1.16.0",), ("six==1.15.0",), ("six==1.16.0",), ("six==1.15.0",)]
    jobs = [Job(code="import six\nsix.__version__", requirements=requirements) for requirements in wanted]
    outcomes = await asyncio.gather(*(box.run(job) for job in jobs))
    assert [outcome.value for outcome in outcomes] == ["1.16.0", "1.15.0", "1.16.0", "1.15.0"]


@pytest.mark.spec("BOX-11")
async def test_a_job_cannot_change_the_environment_it_shares(box: NamespaceSandbox) -> None:
    code = """
import os, six
tried = []
for attempt in (
    lambda: open(six.__file__, "a"),
    lambda: open("/env/0/more.py", "w"),
    lambda: os.remove(six.__file__),
    lambda: os.chmod(six.__file__, 0o777),
    lambda: os.rename("/env/0/six.py", "/env/0/seven.py"),
):
    try:
        attempt()
        tried.append("done")
    except OSError as problem:
        tried.append(problem.strerror)
tried
"""
    outcome = await box.run(Job(code=code, requirements=SIX))
    assert outcome.end is End.OK
    assert len(outcome.value) == 5
    assert set(outcome.value) <= {"Read-only file system", "Permission denied", "Operation not permitted"}


@pytest.mark.spec("BOX-11")
async def test_unavailable_requirements_are_refused_before_anything_runs(box: NamespaceSandbox, tmp_path: Path) -> None:
    with pytest.raises(UnresolvedRequirements, match=r"six==99\.0") as caught:
        await box.run(Job(code="1", requirements=("six==99.0",)))
    assert not caught.value.may_have_started
    assert "://" not in str(caught.value)


async def test_an_environment_is_kept_while_a_template_uses_it(tmp_path: Path) -> None:
    config = NamespaceConfig(warm=1, max_templates=1, environments=EnvironmentsConfig(cache=tmp_path, cap_bytes=1))
    async with NamespaceSandbox(config) as box:
        job = Job(code="import six\nsix.__version__", requirements=SIX)
        assert (await box.run(job)).value == "1.16.0"
        environments = box._environments
        assert environments.usage().in_use == 1
        assert await environments.evict(0) == ()
        assert (await box.run(job)).value == "1.16.0"
        assert (await box.run(Job(code="1 + 1"))).value == 2  # occupies the only slot for a template
        assert environments.usage().in_use == 0
        assert len(await environments.evict(0)) == 1
        assert (await box.run(job)).value == "1.16.0"
    assert environments.usage().in_use == 0


async def test_a_package_with_compiled_parts_works_in_a_box(box: NamespaceSandbox) -> None:
    code = "from markupsafe import _speedups\n[_speedups.__file__.endswith('.so'), _speedups._escape_inner('<')]"
    outcome = await box.run(Job(code=code, requirements=("MarkupSafe>=3",)))
    assert outcome.value == [True, "&lt;"], outcome
