"""The files of Knackbox in a box are complete and compiled, and cannot clash with those of a skill."""

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from acquired_skills.jobs.box_files import HARNESS, ISOLATED, JUDGE, NEIGHBOUR, TYPED_CALL, box_files
from acquired_skills.model.names import name_problems

pytestmark = pytest.mark.spec("SKILL-1")
ENTRIES = (HARNESS, TYPED_CALL, NEIGHBOUR, JUDGE, ISOLATED)


@pytest.mark.parametrize("entry", ENTRIES)
def test_compiled_files_match_their_sources(entry: str) -> None:
    files = box_files(entry)
    compiled = {path: data for path, data in files.items() if path.endswith(".pyc")}
    assert compiled
    for path, data in compiled.items():
        source = importlib.util.source_from_cache(path)
        assert data[8:16] == importlib.util.source_hash(files[source])
        assert marshal.loads(data[16:]) == compile(files[source], source, "exec", dont_inherit=True)


@pytest.mark.parametrize("entry", ENTRIES)
def test_box_files_are_imported_compiled_and_need_no_other_files(entry: str, tmp_path: Path) -> None:
    for path, data in box_files(entry).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    for path in tmp_path.rglob("*.py"):
        if path.stat().st_size and "entry" not in path.parts:
            path.write_bytes(b"raise ImportError('read from its source')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); exec(open({str(tmp_path / entry)!r}).read())"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_skill_can_have_the_name_of_an_entry_file(entry: str) -> None:
    assert name_problems(Path(entry).stem, frozenset())
