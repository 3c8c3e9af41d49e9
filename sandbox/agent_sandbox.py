"""`AgentSandbox`: a sandbox whose jobs all count as one agent's, for the fair queue for boxes."""

from dataclasses import replace

from sandbox.contract import Job, OnOutput, Outcome, Protections, Sandbox


class AgentSandbox:
    """Wraps a sandbox for one agent: every job is queued under that agent, whatever the job itself says."""

    def __init__(self, sandbox: Sandbox, agent: str) -> None:
        self.name = sandbox.name
        self._sandbox = sandbox
        self._agent = agent

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        return await self._sandbox.run(replace(job, agent=self._agent), on_output=on_output)

    async def report(self) -> Protections:
        return await self._sandbox.report()

    async def aclose(self) -> None:
        """Do nothing: the sandbox belongs to whoever opened it."""
