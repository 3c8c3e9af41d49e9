"""`RequestLearning`: teaches searches which tool a request meant, from the calls that succeeded (GATE-3)."""

from engine.contract.failure import Failure
from engine.contract.guard import Guard, GuardRequest
from engine.contract.spec import Origin, ToolSpec
from engine.contract.tool_requests import ToolRequests
from engine.turn.availability import always_listed
from engine.turn.discovery import Discovery


class RequestLearning(Guard):
    """Records the request that led to a successful call, for all kinds of tools. The guard admits every call.

    The request is what the user wrote: the turn's `request` or, without one, its query. Turns of MCP clients have
    neither; there, it is the agent's latest search, if it found the tool.
    """

    def __init__(self, requests: ToolRequests, discovery: Discovery, configured: frozenset[str]) -> None:
        """Create the guard.

        Args:
            requests: Stores the requests.
            discovery: Knows the latest searches.
            configured: The requirements that are met (`ToolSpec.requires`).
        """
        self._requests = requests
        self._discovery = discovery
        self._configured = configured

    def concerns(self, spec: ToolSpec) -> bool:
        """Return whether searches can find the tool. What every list has need not be found."""
        return not always_listed(spec, self._configured)

    def ended(self, request: GuardRequest, failure: Failure | None, *, ran: bool) -> None:
        """Record the request of a success. Failures, trials and repeated results of keyed calls teach nothing.

        If another tool is called in place of one that failed, it is that tool which has succeeded.
        """
        spec, turn = request.spec, request.turn
        if failure is not None or not ran or turn.trial:
            return
        # Skills are searched for each message. Other tools are on the list anyway, unless somebody searches for tools.
        if spec.origin is Origin.STATIC and not (turn.use_tool_search_flow or self._discovery.searched):
            return
        text = turn.request if turn.request is not None else turn.query
        if text is None:
            text = self._discovery.query_that_found(spec.name, turn)
        if text is not None:
            self._requests.note(spec.name, text, turn.user)
