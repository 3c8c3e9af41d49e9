"""`knackbox bench …`: its arguments, without measuring anything."""

from pathlib import Path

import pytest

from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("FACE-1")


@pytest.mark.parametrize(("name", "file"), [("retrieval", "tools.jsonl"), ("admission", "problems.jsonl")])
def test_a_benchmark_without_its_public_data_says_where_to_get_it(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str, file: str
) -> None:
    for given in ([], ["--data", str(tmp_path)]):
        ran = here(capfd, "bench", name, *given)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.count("\n") == 1
        assert file in ran.err
        assert "https://github.com/" in ran.err
