"""A process that begins a research and is killed: ``python -m tests.builtin_tools.web.research.victim FOLDER QUESTION``.

After two pages, the web does not answer any more.
"""

import asyncio
import sys
from pathlib import Path

from builtin_tools.web.research.deep_research import deep_research
from builtin_tools.web.research.service import ResearchService
from engine.contract.context import CallContext
from engine.contract.turn import Turn
from engine.stores.clock import SystemClock
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.workspace import FolderWorkspace
from tests.builtin_tools.conftest import NoSandbox
from tests.builtin_tools.web.research.local_web import LocalWeb, page_of
from tests.builtin_tools.web.research.material_pages import pages_of


async def main(folder: Path, question: str) -> None:
    web = LocalWeb.of(page_of(each.url, each.text, each.title, each.date) for each in pages_of("building"))

    def stop_after_two(url: str) -> None:
        if len(web.reads) > 2:
            web.hold = asyncio.Event()

    web.on_read = stop_after_two
    ctx = CallContext(
        turn=Turn(user="ada", agent="main"),
        call_id="call-1",
        sandbox=NoSandbox(),
        workspace=FolderWorkspace(folder / "workspace"),
        clock=SystemClock(),
        services={ResearchService: ResearchService(web, web, WordLlamaEmbedder, folder / "journals")},
    )
    await deep_research.run(ctx, {"question": question, "pages": 4})


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
