"""A wheel contains process 1 as a program for its architecture, or none if there was no compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

REPOSITORY = Path(__file__).resolve().parents[1]
PROGRAM = "sandbox/namespace/native/box_init"
NOT_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "box_init", "tests", "docs", "*.egg-info")
WAIT_S = 300

pytestmark = [pytest.mark.services, pytest.mark.spec("BOX-1", "FACE-20"), pytest.mark.timeout(2 * WAIT_S)]


def built(folder: Path, compiler: str) -> zipfile.ZipFile:
    """Build a wheel of a copy of the checkout; pip gets the build tools from the package index."""
    source = folder / "source"
    shutil.copytree(REPOSITORY, source, ignore=NOT_SOURCE)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True, timeout=WAIT_S, env={**os.environ, "CC": compiler})
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_a_wheel_built_with_a_compiler_contains_a_program_that_runs(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    with built(tmp_path, "cc") as wheel:
        *_, tags = parse_wheel_filename(Path(str(wheel.filename)).name)
        assert {tag.platform for tag in tags} != {"any"}
        assert tags & set(sys_tags())  # installers accept it on this machine
        wheel.extract(PROGRAM, tmp_path)
        assert wheel.getinfo(PROGRAM).external_attr >> 16 & 0o111
    (tmp_path / PROGRAM).chmod(0o755)
    without_arguments = subprocess.run([str(tmp_path / PROGRAM)], check=False, timeout=60)
    assert without_arguments.returncode == 2


@pytest.mark.parametrize("compiler", ["", "false"], ids=["no compiler", "a compiler that fails"])
def test_a_wheel_built_without_a_compiler_is_pure_python(tmp_path: Path, compiler: str) -> None:
    with built(tmp_path, compiler) as wheel:
        assert str(wheel.filename).endswith("-py3-none-any.whl")
        assert PROGRAM not in wheel.namelist()
        assert f"{PROGRAM}.c" in wheel.namelist()
