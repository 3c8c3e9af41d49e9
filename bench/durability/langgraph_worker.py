"""Works on the run with an agent of LangGraph and its SQLite checkpointer, which writes before each step goes on."""

import asyncio
import time

_BEGAN = time.monotonic()

from typing import Any  # noqa: E402 -- the imports are timed

from langchain_openai import ChatOpenAI  # noqa: E402
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: E402
from langgraph.prebuilt import create_react_agent  # noqa: E402

from bench.durability.worker import MESSAGE, Actions, Order, serve  # noqa: E402


def _tools(actions: Actions) -> list[Any]:
    async def look(n: int) -> str:
        """Look at something."""
        return actions.perform("look", n)

    async def pay(n: int) -> str:
        """Pay an order."""
        return actions.perform("pay", n)

    async def send(n: int) -> str:
        """Send a letter."""
        return actions.perform("send", n)

    async def drop(n: int) -> str:
        """Delete something."""
        return actions.perform("drop", n)

    return [look, pay, send, drop]


async def _work(order: Order) -> None:
    model = ChatOpenAI(model="scripted", base_url=order.url, api_key="none")
    async with AsyncSqliteSaver.from_conn_string(f"{order.folder}/checkpoints.db") as saver:
        agent = create_react_agent(model, _tools(Actions(order)), checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 1000}
        state = await agent.aget_state(config)
        if state.values and not state.next:
            return  # it had ended
        given = None if state.next else {"messages": [("user", MESSAGE)]}  # None continues from the checkpoint
        await agent.ainvoke(given, config, durability="sync")


if __name__ == "__main__":
    serve(lambda order: asyncio.run(_work(order)), _BEGAN)
