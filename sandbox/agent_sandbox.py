"""`AgentSandbox`: a wrapper that queues every job of a sandbox under one agent."""

from dataclasses import dataclass, replace

from sandbox.bridge.bridge import Bridge, BridgedSandbox
from sandbox.contract import Job, OnOutput, Outcome, Protections, Sandbox, Unsupported


@dataclass(frozen=True, slots=True)
class AgentSandbox:
    """Wraps a sandbox for one agent. Every job is queued under that agent, even if the job names another agent."""

    sandbox: Sandbox
    agent: str

    @property
    def name(self) -> str:
        return self.sandbox.name

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        return await self.sandbox.run(replace(job, agent=self.agent), on_output=on_output)

    async def run_bridged(self, job: Job, bridge: Bridge, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one job whose programs can ask the engine for something. Closes the bridge.

        Raises:
            Unsupported: The wrapped sandbox has no bridges.
        """
        if not isinstance(self.sandbox, BridgedSandbox):
            await bridge.aclose()
            raise Unsupported(
                f"The sandbox {self.sandbox.name!r} cannot let programs call tools.",
                remedy='Use the sandbox "namespace", or make the calls one by one.',
            )
        return await self.sandbox.run_bridged(replace(job, agent=self.agent), bridge, on_output=on_output)

    async def report(self) -> Protections:
        return await self.sandbox.report()

    async def aclose(self) -> None:
        """Do nothing, because the owner of the wrapped sandbox closes it."""


def has_bridges(sandbox: Sandbox) -> bool:
    """Return whether programs in this sandbox, or in the one that it wraps, can have bridges."""
    inner = sandbox.sandbox if isinstance(sandbox, AgentSandbox) else sandbox
    return isinstance(inner, BridgedSandbox)
