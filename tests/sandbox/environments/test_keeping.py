"""Environments in the cache are shared between processes, complete or absent, and evicted when space is needed."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sandbox.contract import SandboxError
from sandbox.environments import indexes
from sandbox.environments.environments import Environments, EnvironmentsConfig
from tests.sandbox.environments.wheels import SlowIndex, from_folder, slow_index


def start_builder(config: EnvironmentsConfig, environ: dict[str, str], requirement: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.sandbox.environments.builder",
            str(config.cache),
            json.dumps(environ),
            requirement,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def until(builder: subprocess.Popen[str], word: str) -> list[str]:
    """Return the lines up to the one that starts with the word. Only the timeout of the test limits the wait."""
    lines = []
    assert builder.stdout is not None
    for line in builder.stdout:
        lines.append(line.strip())
        if line.startswith(word):
            return lines
    raise AssertionError(f"the builder ended: {lines}")


@pytest.fixture
def index(links: Path):
    with slow_index(links) as served:
        yield served


@pytest.mark.spec("BOX-11")
async def test_two_processes_with_the_same_requirements_share_one_build(
    config: EnvironmentsConfig, index: SlowIndex
) -> None:
    builders = [start_builder(config, index.environ(), spelling) for spelling in ("alpha", "Alpha")]
    try:
        for builder in builders:
            await asyncio.to_thread(until, builder, "waiting")
        assert await asyncio.to_thread(index.asked.wait, 30)
        index.go.set()
        heard = [await asyncio.to_thread(until, builder, "have") for builder in builders]
    finally:
        for builder in builders:
            builder.communicate("")
    assert [builder.returncode for builder in builders] == [0, 0]
    assert index.served == ["alpha-2.0-py3-none-any.whl"]
    assert heard[0][-1] == heard[1][-1]
    assert sum(any(line.startswith("Installed") for line in lines) for lines in heard) == 1


async def test_many_tasks_with_the_same_requirements_share_one_build(
    config: EnvironmentsConfig, index: SlowIndex
) -> None:
    index.go.set()
    environments = Environments(config, environ=index.environ())
    leases = await asyncio.gather(*(environments.acquire(("alpha",)) for _ in range(8)))
    assert len({lease.site_packages for lease in leases}) == 1
    assert len(index.served) == 1
    assert environments.usage().in_use == 1
    for lease in leases:
        lease.release()
        lease.release()
    assert environments.usage().in_use == 0


@pytest.mark.spec("BOX-11")
async def test_a_killed_builder_leaves_no_environment(config: EnvironmentsConfig, index: SlowIndex) -> None:
    builder = start_builder(config, index.environ(), "alpha")
    try:
        assert await asyncio.to_thread(index.asked.wait, 30)
        started = psutil.Process(builder.pid).children(recursive=True)
        assert started
    finally:
        builder.send_signal(signal.SIGKILL)
        builder.communicate()
    _, alive = await asyncio.to_thread(psutil.wait_procs, started, timeout=60)
    assert alive == []  # the installer ended together with the process that had started it
    root = config.cache / "environments"
    assert [path.name for path in root.iterdir() if not path.name.startswith(".")] == []
    assert len(list((root / ".staging").iterdir())) == 1
    index.go.set()
    environments = Environments(config, environ=index.environ())
    with await environments.acquire(("alpha",)) as environment:
        assert (environment.site_packages / "alpha.py").exists()
    assert list((root / ".staging").iterdir()) == []


async def test_eviction_removes_what_a_killed_builder_left(
    environments: Environments, config: EnvironmentsConfig
) -> None:
    with await environments.acquire(("alpha",)):
        pass
    root = config.cache / "environments"
    (root / ".staging" / f"{'0' * 32}.feedbeef/site-packages").mkdir(parents=True)
    (root / ("1" * 32)).mkdir()  # without a marker
    assert await environments.evict() == ()
    assert list((root / ".staging").iterdir()) == []
    assert len([path for path in root.iterdir() if not path.name.startswith(".")]) == 1
    assert len(list((root / ".locks").iterdir())) == 1


def _append(packages: Path) -> None:
    with (packages / "alpha.py").open("a") as file:
        file.write("import os\n")


def _same_size(packages: Path) -> None:
    file = packages / "alpha.py"
    before = file.stat()
    file.write_text(file.read_text().replace("VERSION", "NOISREV"))
    import os

    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _cut_marker(packages: Path) -> None:
    marker = packages.parent / "complete.json"
    marker.write_text(marker.read_text()[:40])


@pytest.mark.spec("BOX-11")
@pytest.mark.parametrize(
    "damage",
    [
        _append,
        _same_size,
        _cut_marker,
        lambda packages: (packages / "alpha.py").unlink(),
        lambda packages: (packages / "more.py").write_text("x = 1\n"),
        lambda packages: (packages / "alpha.py").chmod(0o777),
        lambda packages: (packages.parent / "complete.json").unlink(),
        lambda packages: (packages.parent / "complete.json").write_text("{}"),
        shutil.rmtree,
    ],
)
async def test_an_environment_that_was_changed_is_detected_and_built_again(
    config: EnvironmentsConfig, links: Path, damage: Callable[[Path], object]
) -> None:
    environments = Environments(config, environ=from_folder(links))
    with await environments.acquire(("alpha",)) as environment:
        packages = environment.site_packages
        good = (packages / "alpha.py").read_text()
    damage(packages)
    said: list[str] = []
    with await environments.acquire(("alpha",), on_progress=said.append):
        assert (packages / "alpha.py").read_text() == good
        assert not (packages / "more.py").exists()
    assert any(line.startswith("Installed") for line in said)


class Ticks:
    """A clock that advances by one second at every call."""

    def __init__(self) -> None:
        self.now = 10**18

    def __call__(self) -> int:
        self.now += 10**9
        return self.now


@pytest.mark.spec("BOX-11")
async def test_the_least_recently_used_environment_is_evicted_first_and_one_in_use_never(
    config: EnvironmentsConfig, links: Path
) -> None:
    ours = Environments(config, environ=from_folder(links), clock_ns=Ticks())
    theirs = Environments(config, environ=from_folder(links))  # with its own locks, like another process
    keys = {}
    for wanted in ("alpha==1.0", "alpha==2.0", "beta", "gamma"):
        with await ours.acquire((wanted,)) as environment:
            keys[wanted] = environment.key
    with await ours.acquire(("alpha==1.0",)):
        pass  # used again, so it is now the most recently used
    usage = ours.usage()
    assert (usage.environments, usage.in_use) == (4, 0)
    with await theirs.acquire(("alpha==2.0",)) as held:
        assert ours.usage().in_use == 1
        assert await ours.evict(usage.size_bytes - 1) == (keys["beta"],)
        assert await ours.evict(0) == (keys["gamma"], keys["alpha==1.0"])
        assert (held.site_packages / "alpha.py").exists()
    assert await ours.evict(0) == (keys["alpha==2.0"],)
    assert ours.usage().size_bytes == 0
    assert list((config.cache / "environments/.locks").iterdir()) == []


async def test_a_build_over_the_cap_evicts_others_and_keeps_the_new_environment(
    config: EnvironmentsConfig, links: Path
) -> None:
    small = Environments(
        EnvironmentsConfig(cache=config.cache, cap_bytes=1, build_s=60), environ=from_folder(links), clock_ns=Ticks()
    )
    with await small.acquire(("alpha==1.0",)) as first:
        pass
    with await small.acquire(("alpha==2.0",)) as second:
        assert second.site_packages.exists()
        assert not first.site_packages.exists()
    assert small.usage().environments == 1


async def test_a_missing_cache_counts_as_empty(config: EnvironmentsConfig) -> None:
    environments = Environments(config)
    usage = environments.usage()
    assert (usage.environments, usage.size_bytes) == (0, 0)
    assert not config.cache.exists()
    assert await environments.evict(0) == ()


def test_the_settings_of_pip_are_passed_to_uv_in_the_order_of_pip(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = http://one.test/simple\nextra-index-url =\n  http://two.test/simple\n  file:///three\n"
        "find-links = ~/wheels\n[install]\ntrusted-host = one.test\n"
    )
    environ = {"HOME": str(home), "PIP_TIMEOUT": "7", "PIP_PROXY": "proxy.test:3128", "SECRET": "x"}
    found = indexes.of_this_machine(environ)
    assert found.environment["UV_DEFAULT_INDEX"] == "http://one.test/simple"
    assert found.environment["UV_INDEX"] == "http://two.test/simple file:///three"
    assert found.environment["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert found.environment["UV_INSECURE_HOST"] == "one.test"
    assert found.environment["UV_HTTP_TIMEOUT"] == "7"
    assert found.environment["HTTPS_PROXY"] == "http://proxy.test:3128"
    assert "SECRET" not in found.environment
    assert found.redact("at one.test: (http://u:p@one.test/simple/six/).") == "at <index>: (<index>)."
    over = indexes.of_this_machine({**environ, "PIP_INDEX_URL": "http://four.test/simple"})
    assert over.environment["UV_DEFAULT_INDEX"] == "http://four.test/simple"


def test_settings_of_uv_take_precedence_over_those_of_pip(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PIP_INDEX_URL": "http://one.test/simple"}
    told = indexes.of_this_machine({**environ, "UV_INDEX_URL": "http://two.test/simple"})
    assert told.environment["UV_INDEX_URL"] == "http://two.test/simple"
    assert "UV_DEFAULT_INDEX" not in told.environment
    (tmp_path / ".config/uv").mkdir(parents=True)
    file = tmp_path / ".config/uv/uv.toml"
    file.write_text('[[index]]\nurl = "http://u:pass@three.test/simple"\ndefault = true\n')
    found = indexes.of_this_machine(environ)
    assert found.environment["UV_CONFIG_FILE"] == str(file)
    assert "UV_DEFAULT_INDEX" not in found.environment
    assert found.redact("three.test said pass") == "<index> said <index>"


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("index-url = nowhere\n")
    with pytest.raises(SandboxError, match=r"pip\.conf cannot be read"):
        indexes.of_this_machine({"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(file)})
