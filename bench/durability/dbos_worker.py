"""Works on the run with an agent of pydantic-ai whose requests and calls are steps of a DBOS workflow in SQLite."""

import asyncio
import time

_BEGAN = time.monotonic()

from dbos import DBOS, SetWorkflowID  # noqa: E402 -- the imports are timed
from pydantic_ai import Agent, UsageLimits  # noqa: E402
from pydantic_ai.durable_exec.dbos import DBOSDurability  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

from bench.durability.worker import MESSAGE, Actions, Order, serve  # noqa: E402


def _agent(order: Order) -> Agent[None, str]:
    actions = Actions(order)
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=order.url, api_key="none"))
    agent = Agent(model, name="bench", capabilities=[DBOSDurability()])

    @agent.tool_plain
    @DBOS.step()
    async def look(n: int) -> str:
        """Look at something."""
        return actions.perform("look", n)

    @agent.tool_plain
    @DBOS.step()
    async def pay(n: int) -> str:
        """Pay an order."""
        return actions.perform("pay", n)

    @agent.tool_plain
    @DBOS.step()
    async def send(n: int) -> str:
        """Send a letter."""
        return actions.perform("send", n)

    @agent.tool_plain
    @DBOS.step()
    async def drop(n: int) -> str:
        """Delete something."""
        return actions.perform("drop", n)

    return agent


async def _work(order: Order) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{order.folder}/dbos.sqlite",
            "application_version": "1",
            "executor_id": "1",
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )
    agent = _agent(order)

    @DBOS.workflow(name="work")
    async def work(message: str) -> str:
        limits = UsageLimits(request_limit=None)
        return (await agent.run(message, usage_limits=limits)).output

    DBOS.launch()  # also continues the workflows of earlier processes
    try:
        with SetWorkflowID("run"):
            handle = await DBOS.start_workflow_async(work, MESSAGE)
        await handle.get_result()
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    serve(lambda order: asyncio.run(_work(order)), _BEGAN)
