"""`AgentSandbox`: a wrapper that queues every job of a sandbox under one agent."""

from dataclasses import dataclass, replace

from sandbox.contract import Job, OnOutput, Outcome, Protections, Sandbox


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

    async def report(self) -> Protections:
        return await self.sandbox.report()

    async def aclose(self) -> None:
        """Do nothing, because the owner of the wrapped sandbox closes it."""
