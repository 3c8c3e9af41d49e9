"""`knackbox kernelspec` installs, lists and removes kernelspecs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("KERN-2")
KERNELS = Path("share", "jupyter", "kernels")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    return tmp_path


def test_a_kernelspec_is_installed_found_listed_and_removed(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    ran = here(capfd, "kernelspec", "install", "--prefix", str(home), "--memory", "2GiB", "--json")
    assert ran.code == 0
    assert ran.last["folder"] == str(home / KERNELS / "knackbox")
    spec = KernelSpecManager().get_kernel_spec("knackbox")
    assert spec.metadata["kernel_provisioner"] == {
        "provisioner_name": "knackbox",
        "config": {"memory_bytes": 2 << 30},
    }
    assert (spec.language, spec.interrupt_mode, spec.metadata["debugger"]) == ("python", "signal", False)
    assert (home / KERNELS / "knackbox" / "logo-svg.svg").read_text().startswith("<svg")
    listed = [each for each in here(capfd, "kernelspec", "list", "--json").last if each["folder"].startswith(str(home))]
    assert [each["name"] for each in listed] == ["knackbox"]
    removed = here(capfd, "kernelspec", "remove", "--json")
    assert removed.last == {"removed": str(home / KERNELS / "knackbox")}
    assert list((home / KERNELS).iterdir()) == []


def test_installing_again_changes_the_options(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    first = ["kernelspec", "install", "--prefix", str(home), "--memory", "2GiB"]
    assert here(capfd, *first).code == 0
    assert here(capfd, *first).code == 0
    here(capfd, "kernelspec", "install", "--prefix", str(home), "--workspace", str(home), "--read-only")
    config = KernelSpecManager().get_kernel_spec("knackbox").metadata["kernel_provisioner"]["config"]
    assert config == {"workspace": str(home), "read_only": True}


def test_a_user_kernelspec_goes_to_the_users_folder(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    ran = here(capfd, "kernelspec", "install", "--user", "--name", "Boxed", "--display-name", "In a box", "--json")
    assert ran.last["folder"] == str(home / "data" / "kernels" / "boxed")
    assert json.loads((home / "data" / "kernels" / "boxed" / "kernel.json").read_text())["display_name"] == "In a box"


def test_jupyters_own_command_lists_the_kernelspec(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    here(capfd, "kernelspec", "install", "--prefix", str(home))
    command = [sys.executable, "-m", "jupyter_client.kernelspecapp", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["kernelspecs"]["knackbox"]["spec"]["display_name"] == "Python (in a box)"


def test_a_foreign_kernelspec_is_neither_overwritten_nor_removed(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    foreign = home / KERNELS / "python3"
    foreign.mkdir(parents=True)
    (foreign / "kernel.json").write_text('{"argv": ["python"], "display_name": "Theirs", "language": "python"}')
    install = ("kernelspec", "install", "--prefix", str(home), "--name", "python3")
    ran = here(capfd, *install)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--replace" in ran.err
    assert here(capfd, "kernelspec", "remove", "python3").code == 2
    assert KernelSpecManager().get_kernel_spec("python3").display_name == "Theirs"
    assert here(capfd, *install, "--replace").code == 0
    assert KernelSpecManager().get_kernel_spec("python3").display_name == "Python (in a box)"


def test_a_link_in_place_of_the_kernelspec_is_replaced_and_not_followed(
    capfd: pytest.CaptureFixture[str], home: Path
) -> None:
    (home / "precious").mkdir()
    (home / "precious" / "file").write_text("kept")
    (home / KERNELS).mkdir(parents=True)
    (home / KERNELS / "knackbox").symlink_to(home / "precious")
    assert here(capfd, "kernelspec", "install", "--prefix", str(home)).code == 2
    assert here(capfd, "kernelspec", "install", "--prefix", str(home), "--replace").code == 0
    assert os.listdir(home / "precious") == ["file"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--user", "--sys-prefix"], "one of --user, --sys-prefix and --prefix"),
        (["--workspace", "/nowhere"], "/nowhere is not a folder"),
        (["--workspace", "/tmp", "--notebook-folder"], "either --workspace or --notebook-folder"),
        (["--read-only"], "--read-only"),
        (["--memory", "much"], "is not a size"),
        (["--memory", "1MiB"], "1MiB is too little memory"),
        (["--name", ".."], "begins with a dot"),
        (["--name", "a/b"], "Invalid kernel name"),
        (["--prefix", "/proc/nowhere"], "cannot be written"),
    ],
)
def test_invalid_kernelspec_options_are_refused_in_one_line(
    capfd: pytest.CaptureFixture[str], home: Path, arguments: list[str], message: str
) -> None:
    place = [] if {"--user", "--prefix"} & set(arguments) else ["--prefix", str(home)]
    before = sorted(home.rglob("*"))
    ran = here(capfd, "kernelspec", "install", *place, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert message in ran.err
    assert sorted(home.rglob("*")) == before


def test_kernelspec_without_ipykernel_names_the_remedy(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    """The import is blocked in a subprocess, as in an environment without the extra."""
    code = (
        "import sys; sys.modules['ipykernel'] = None; sys.argv[1:] = ['kernelspec', 'install', '--prefix', sys.argv[1]]\n"
        "from engine.interfaces.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(home)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert "pip install 'knackbox[kernels]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_removing_an_unknown_kernelspec_lists_the_known_ones(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    here(capfd, "kernelspec", "install", "--prefix", str(home), "--name", "boxed")
    ran = here(capfd, "kernelspec", "remove", "bokst")
    assert ran.code == 2
    assert "boxed" in ran.err
