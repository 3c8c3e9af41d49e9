"""Programs in boxes call the tools of their turn."""

import pytest

from tests.builtin_tools.bridge.conftest import Run


@pytest.mark.spec("CODE-1")
async def test_a_python_program_calls_a_tool_and_gets_its_value(run: Run) -> None:
    result = await run(
        "from knackbox import tools\n"
        "tools.file_system(action='write', path='a.txt', content='one\\ntwo')\n"
        "tools.file_system(action='read', path='a.txt')"
    )
    assert result.success, result.text
    assert "two" in str(result.output["value"])
    assert result.output["calls"].startswith("Calls: file_system 2")
    assert result.audit.data["calls"] == {"file_system": 2}
