"""`RunningContainerJob`: the engine's side of one job in one container.

It sends the job, reads the job's output, and waits for the container's answer.
"""

import secrets
import time
from typing import Any

from sandbox import worker
from sandbox.capture import Capture
from sandbox.contract import CodeError, End, Job, OnOutput, Outcome, SandboxError, Stream, Usage
from sandbox.docker.client import Client
from sandbox.docker.container import Container
from sandbox.docker.frames import Frame, ProtocolError

_LAST_OUTPUT = 1 << 20  # output still in pipes or in transit when process 1 ends a job that exceeded its output limit


class NotTaken(SandboxError):
    """The container ended before it accepted the job, so the job may be offered to another container."""


class RunningContainerJob:
    """One job in a container. The container cannot be used again, and the caller must remove it."""

    def __init__(self, client: Client, container: Container, job: Job, on_output: OnOutput | None) -> None:
        self._client = client
        self._container = container
        self._on_output = on_output
        self._captures: dict[Stream, Capture] = {
            "stdout": Capture(job.limits.capture_bytes),
            "stderr": Capture(job.limits.capture_bytes),
        }
        self._most_output = job.limits.output_bytes + _LAST_OUTPUT
        self._began = time.monotonic()
        self._began_at = time.time()
        self._taken = False
        self._key = secrets.token_hex(16)

    async def outcome(self, header: dict[str, Any], body: bytes) -> Outcome:
        """Run the job to its end. If `on_output` raises an exception, this method raises it too.

        Raises:
            SandboxError: The container failed.
        """
        channel = self._container.channel
        try:
            frames = await self._client.call(self._put, worker.pack({**header, "key": self._key}, body))
            while frames is not None:
                if (outcome := self._process_all(frames)) is not None:
                    return outcome
                frames = await self._client.call(channel.receive)
        except ProtocolError as problem:
            return self._faulty(problem)
        except OSError as problem:
            return self._broken(problem)
        return await self._client.call(self._without_answer)

    def _put(self, frame: bytes) -> list[Frame] | None:
        """Send the job and receive the first frames. Blocking."""
        self._container.channel.send(frame)
        return self._container.channel.receive()

    def _process_all(self, frames: list[Frame]) -> Outcome | None:
        """Process the frames; return the outcome if one of them is the answer.

        Raises:
            SandboxError: The container could not run the job.
            ProtocolError: The container must not send one of the frames.
        """
        for frame in frames:
            if (outcome := self._process(frame)) is not None:
                return outcome
        return None

    def _process(self, frame: Frame) -> Outcome | None:
        if frame.header.get("key") == self._key:
            return self._answered(frame)
        self._take(frame)
        return None

    def _faulty(self, problem: ProtocolError) -> Outcome:
        """Process the frames that arrived before a faulty one, which may show that the job began. Return the outcome.

        Raises:
            NotTaken: The job had not begun.
            SandboxError: The container could not run the job.
        """
        try:
            outcome = self._process_all(problem.frames)
        except ProtocolError as earlier:
            return self._broken(earlier)
        return self._broken(problem) if outcome is None else outcome

    def _broken(self, problem: ProtocolError | OSError) -> Outcome:
        """Return the outcome of a job whose channel is broken.

        Raises:
            NotTaken: The job had not begun.
            SandboxError: The connection broke after the job had begun.
        """
        if isinstance(problem, ProtocolError):
            if not self._taken:
                raise NotTaken(f"The container sent {problem}.") from None
            # Process 1 sends only valid frames, so the job has written this one, which some runtimes do not prevent.
            return self._outcome(End.POLICY, usage={"limits_hit": []})
        if self._taken:
            raise SandboxError(f"The connection to the container broke: {problem}.", may_have_started=True) from None
        raise NotTaken(f"The container ended before it accepted the job: {problem}.") from None

    def _take(self, frame: Frame) -> None:
        stream = frame.header.get("printed")
        if stream in ("stdout", "stderr"):
            self._captures[stream].feed(frame.body)
            if sum(capture.seen for capture in self._captures.values()) > self._most_output:
                raise ProtocolError("more output than process 1 lets through")
            if self._on_output is not None:
                self._on_output(stream, frame.body)
        elif frame.header.get("taken"):
            self._taken = True
        elif "failed" in frame.header and not self._taken:
            raise SandboxError(f"The container could not run the job: {frame.header['failed']}.")
        else:
            raise ProtocolError("a frame of an unknown kind")

    def _without_answer(self) -> Outcome:
        """Return the outcome if process 1 ended without an answer. Blocking.

        Process 1 was then killed, perhaps because memory ran out.

        Raises:
            NotTaken: The container ended before it accepted the job.
        """
        if not self._taken:
            raise NotTaken(f"The container ended before it accepted the job. {self._container.channel.stderr}")
        short = self._client.ran_out_of_memory(self._container.id, self._began_at, time.time())
        end = End.MEMORY if short else End.KILLED
        return self._outcome(end, usage={"limits_hit": ["memory"] if short else []})

    def _answered(self, frame: Frame) -> Outcome:
        said = frame.header.get("answer")
        if said is None:
            raise SandboxError(f"The container failed: {frame.header.get('failed')}.", may_have_started=True)
        files, offset = {}, 0
        for path, size in said["files"]:
            files[path] = frame.body[offset : offset + size]
            offset += size
        error = said.get("error")
        return self._outcome(
            End(said["end"]),
            usage=said["usage"],
            exit_code=said.get("exit_code"),
            signal=said.get("signal"),
            value=said.get("value"),
            error=CodeError(error["type"], error["message"], error["traceback"]) if error else None,
            files=files,
        )

    def _outcome(self, end: End, *, usage: dict[str, Any], **rest: Any) -> Outcome:
        out, err = self._captures["stdout"], self._captures["stderr"]
        return Outcome(
            end=end,
            stdout=out.value(),
            stderr=err.value(),
            stdout_dropped=out.dropped,
            stderr_dropped=err.dropped,
            usage=Usage(
                wall_s=time.monotonic() - self._began,
                cpu_s=usage.get("cpu_s", 0.0),
                peak_memory_bytes=usage.get("peak_memory_bytes", 0),
                output_bytes=out.seen + err.seen,
                limits_hit=tuple(usage["limits_hit"]),
            ),
            **rest,
        )
