"""`ChatRequest`: which conversation `knackbox chat` opens."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The options of `knackbox chat`.

    Attributes:
        agent: The id of a registered agent; None for the agent of the continued conversation, or none.
        project: The id or name of the project that the runs belong to; "" for none.
        latest: Whether to continue the latest conversation.
        resume: The id of a run whose conversation to continue; "" for none.
        as_json: Whether to print a JSON object for each run instead of text.
    """

    agent: str | None = None
    project: str = ""
    latest: bool = False
    resume: str = ""
    as_json: bool = False
