"""Building an environment: what is installed, what is refused, and the errors."""

import asyncio
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sandbox.contract import SandboxError, UnresolvedRequirements
from sandbox.environments.environments import Environments, EnvironmentsConfig
from sandbox.environments.installer import _BOOTSTRAP, _SOURCE
from sandbox.linux import landlock
from tests.sandbox.environments.wheels import from_folder, make_wheel, slow_index


def modules(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.py")}


def staged(config: EnvironmentsConfig) -> list[Path]:
    return list((config.cache / "environments/.staging").iterdir())


@pytest.mark.spec("BOX-11")
@pytest.mark.parametrize("path", ["msvcrt.py", "json/__init__.py", "nt.cpython-311-x86_64-linux-gnu.so"])
async def test_a_package_with_the_name_of_a_standard_module_is_refused(
    environments: Environments, links: Path, path: str
) -> None:
    make_wheel(links, "disguised", files={"disguised.py": b"", path: b""})
    with pytest.raises(UnresolvedRequirements, match="which is the name of a module of the standard library"):
        await environments.acquire(("disguised",))


@pytest.mark.spec("BOX-11")
async def test_a_requirement_is_installed_with_its_dependencies_and_nothing_else(environments: Environments) -> None:
    said: list[str] = []
    with await environments.acquire(("beta",), on_progress=said.append) as environment:
        assert modules(environment.site_packages) == {"alpha.py", "beta.py"}
        assert "2.0" in (environment.site_packages / "alpha.py").read_text()
        assert list((environment.site_packages / "__pycache__").glob("alpha.*.pyc"))
    assert any("Installed 2 packages" in line for line in said)


async def test_a_second_job_with_the_same_requirements_reuses_the_folder(environments: Environments) -> None:
    said: list[str] = []
    with (
        await environments.acquire(("alpha",)) as first,
        await environments.acquire((" Alpha ",), on_progress=said.append) as second,
    ):
        assert first.site_packages == second.site_packages
    with await environments.acquire(("ALPHA",), on_progress=said.append) as third:
        assert third.site_packages == first.site_packages
    assert said == []


@pytest.mark.spec("BOX-11")
@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (("delta-that-nobody-made",), "delta-that-nobody-made"),
        (("alpha==9",), "alpha==9"),
        (("beta", "gamma"), "alpha"),
    ],
)
async def test_the_error_for_unsolvable_requirements_is_the_installers_message(
    environments: Environments, config: EnvironmentsConfig, links: Path, wanted: tuple[str, ...], says: str
) -> None:
    with pytest.raises(UnresolvedRequirements, match="unsatisfiable") as caught:
        await environments.acquire(wanted)
    assert says in caught.value.message.partition("could not be installed.")[2]
    assert str(links) not in caught.value.message
    assert len(caught.value.message) < 5000
    assert staged(config) == []
    assert environments.usage().environments == 0
    assert list((config.cache / "environments/.locks").iterdir()) == []


@pytest.mark.spec("BOX-11")
async def test_no_code_of_a_package_runs_while_it_is_installed(
    environments: Environments, links: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    code = f"open({str(trace)!r}, 'w').close()\n".encode()
    files = {"sitecustomize.py": code, "usercustomize.py": code, "evil.pth": b"import " + b"evil\n", "evil.py": code}
    make_wheel(links, "evil", files=files)
    with await environments.acquire(("evil",)) as environment:
        assert "sitecustomize.py" in modules(environment.site_packages)
    assert not trace.exists()


async def test_a_package_that_would_have_to_be_built_is_refused(
    environments: Environments, links: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    source = tmp_path / "sourced-1.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(trace)!r}, 'w').close()\nimport setuptools; setuptools.setup()\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: sourced\nVersion: 1.0\n")
    with tarfile.open(links / "sourced-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "sourced-1.0")
    with pytest.raises(UnresolvedRequirements, match="no usable wheels"):
        await environments.acquire(("sourced",))
    assert not trace.exists()


async def test_building_from_source_is_refused(config: EnvironmentsConfig) -> None:
    with pytest.raises(SandboxError, match="cannot be built from source"):
        await Environments(replace(config, allow_builds=True)).acquire(("six",))


@pytest.mark.parametrize(
    "inside", ["../../escaped.py", "/tmp/knackbox-escaped.py", "evil-1.0.data/data/../../../escaped.py"]
)
async def test_a_wheel_cannot_write_outside_its_folder(
    environments: Environments, links: Path, config: EnvironmentsConfig, inside: str
) -> None:
    make_wheel(links, "evil", files={"evil.py": b"", inside: b"escaped = True\n"})
    try:
        with await environments.acquire(("evil",)):
            pass
    except UnresolvedRequirements:
        pass
    found = [path for path in config.cache.rglob("*escaped*") if "site-packages" not in path.parts]
    assert found == []
    assert not Path("/tmp/knackbox-escaped.py").exists()


async def test_packages_larger_than_the_limit_are_refused_while_they_are_unpacked(
    config: EnvironmentsConfig, links: Path
) -> None:
    make_wheel(links, "bomb", files={f"bomb/{i}.bin": bytes(4 << 20) for i in range(32)})
    make_wheel(links, "lump", files={"lump.bin": bytes(64 << 20)})
    environments = Environments(replace(config, build_bytes=16 << 20), environ=from_folder(links))
    for name in ("bomb", "lump"):
        with pytest.raises(UnresolvedRequirements, match="too large"):
            await environments.acquire((name,))
    assert staged(config) == []
    with await environments.acquire(("alpha",)):
        pass


@pytest.mark.spec("BOX-11")
async def test_errors_contain_neither_the_index_nor_its_password(config: EnvironmentsConfig, links: Path) -> None:
    said: list[str] = []
    with slow_index(links) as index:
        environ = index.environ()
        index.go.set()
        with await Environments(config, environ=environ).acquire(("alpha",), on_progress=said.append):
            pass
        assert index.served == ["alpha-2.0-py3-none-any.whl"]
    with pytest.raises(UnresolvedRequirements, match="<index>") as caught:  # the index is gone now
        await Environments(config, environ=environ).acquire(("beta",), on_progress=said.append)
    for text in (*said, str(caught.value)):
        assert "hunter2" not in text
        assert "127.0.0.1" not in text


async def test_an_index_that_does_not_answer_is_given_up_at_the_time_limit(
    config: EnvironmentsConfig, links: Path
) -> None:
    with slow_index(links) as index:
        slow = Environments(replace(config, build_s=2), environ=index.environ())
        with pytest.raises(UnresolvedRequirements, match="longer than 2 s"):
            await slow.acquire(("alpha",))
        assert index.asked.is_set()
        assert children() == []
    assert staged(config) == []


async def test_cancelling_kills_the_installer_and_leaves_nothing(config: EnvironmentsConfig, links: Path) -> None:
    with slow_index(links) as index:
        environments = Environments(config, environ=index.environ())
        task = asyncio.ensure_future(environments.acquire(("alpha",)))
        assert await asyncio.to_thread(index.asked.wait, 30)
        assert children() != []
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert children() == []
        assert staged(config) == []
        index.go.set()
        with await environments.acquire(("alpha",)) as environment:  # its lock has been released
            assert modules(environment.site_packages) == {"alpha.py"}


async def test_the_installer_gets_only_the_variables_about_indexes(
    config: EnvironmentsConfig, links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for others")
    with slow_index(links) as index:
        environ = {**index.environ(), "AWS_SECRET_ACCESS_KEY": "not for others", "UV_TARGET": "/", "PYTHONPATH": "/"}
        task = asyncio.ensure_future(Environments(config, environ=environ).acquire(("alpha",)))
        assert await asyncio.to_thread(index.asked.wait, 30)
        (installer,) = children()
        seen, line = installer.environ(), " ".join(installer.cmdline())
        index.go.set()
        (await task).release()
    assert not {"AWS_SECRET_ACCESS_KEY", "UV_TARGET", "PYTHONPATH"} & seen.keys()
    assert seen["HOME"] != os.environ.get("HOME")
    assert "hunter2" in seen["UV_DEFAULT_INDEX"]
    assert "hunter2" not in line  # everybody on the machine can read the command line


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_the_installer_can_write_only_to_its_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f"echo x > {inside}/a && ! echo x > {tmp_path}/b && head -c 9000 /dev/zero > {inside}/c"
    command = [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, _SOURCE, str(os.getpid()), "8192", str(inside)]
    done = subprocess.run([*command, "/bin/sh", "-c", script], capture_output=True, check=False)
    assert done.returncode != 0
    assert (inside / "a").exists()
    assert not (tmp_path / "b").exists()
    assert (inside / "c").stat().st_size == 8192


async def test_an_unusable_cache_is_refused_with_a_remedy(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SandboxError, match=r"cannot be used.*disk with free space"):
        await Environments(EnvironmentsConfig(cache=blocked)).acquire(("six",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_a_cache_that_belongs_to_another_user_is_refused(config: EnvironmentsConfig, links: Path) -> None:
    (config.cache / "environments").mkdir(parents=True)
    os.chown(config.cache / "environments", 12345, 12345)
    with pytest.raises(SandboxError, match="belongs to user 12345"):
        await Environments(config, environ=from_folder(links)).acquire(("alpha",))


async def test_folders_are_readable_by_a_boxs_user_with_any_umask(config: EnvironmentsConfig, links: Path) -> None:
    before = os.umask(0o077)
    try:
        with await Environments(config, environ=from_folder(links)).acquire(("beta",)) as environment:
            for path in (environment.site_packages, *environment.site_packages.rglob("*")):
                assert path.stat().st_mode & 0o044 == 0o044, path
                assert not path.stat().st_mode & 0o022, path
    finally:
        os.umask(before)


def children() -> list[psutil.Process]:
    return [
        child for child in psutil.Process().children(recursive=True) if "uv" in child.name() or "uv" in child.cmdline()
    ]
