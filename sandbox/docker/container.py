"""Starts a container that waits for one job, and stops containers."""

import contextlib
from dataclasses import dataclass
from typing import Any

from sandbox.contract import SandboxError
from sandbox.docker.bundle import boot_frame
from sandbox.docker.channel import Channel
from sandbox.docker.client import Client
from sandbox.docker.config import Shape
from sandbox.docker.frames import ProtocolError
from sandbox.wire.programs import Programs

_END_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Container:
    """A started container. `facts` are the facts that it reported about itself (`sandbox.docker.inside.facts`)."""

    id: str
    shape: Shape
    channel: Channel
    facts: dict[str, Any]

    @property
    def programs(self) -> Programs:
        """The interpreters in the image, such as Bash and Node."""
        return Programs(self.facts["bash"], self.facts["node"], tuple(self.facts["path"]), ())


def launch(client: Client, creation: dict[str, Any], shape: Shape, wait_s: float) -> Container:
    """Start a container and wait until it is ready. Blocking.

    Raises:
        SandboxError: The container could not be started, and was removed.
    """
    name = client.create(creation)
    channel = None
    try:
        channel = client.attach(name)
        client.start(name)
        with contextlib.suppress(OSError):  # the container has already ended, and its last output says why
            channel.send(boot_frame(shape.preload))
        return Container(name, shape, channel, _ready(channel, wait_s))
    except BaseException:
        if channel is not None:
            channel.close()
        client.remove(name)
        raise


def _ready(channel: Channel, wait_s: float) -> dict[str, Any]:
    try:
        frames = channel.receive(wait_s)
    except TimeoutError:
        raise SandboxError(f"The container was not ready within {wait_s:g} s. {channel.stderr}") from None
    except ProtocolError as problem:
        raise SandboxError(f"The container sent {problem}, so the image's Python command is not Python.") from None
    if not frames:
        raise SandboxError(
            f"The container ended before it was ready: {channel.stderr or 'it wrote nothing to stderr'}."
        )
    header = frames[0].header
    if "ready" not in header:
        raise SandboxError(f"The container could not prepare for a job: {header.get('failed', header)}.")
    facts: dict[str, Any] = header["ready"]
    return facts


def dismiss(client: Client, container: Container) -> None:
    """Stop a container and everything in it, and return once it is dead. Blocking.

    Closing its standard input is fastest: process 1 then kills and reaps all other processes, and exits. If that takes
    too long or the connection fails, the Docker Engine kills the container.
    """
    channel = container.channel
    channel.end_input()
    try:
        while channel.receive(_END_WAIT_S) is not None:
            pass
    except (OSError, ProtocolError):  # includes TimeoutError
        client.remove(container.id)
    finally:
        with contextlib.suppress(OSError):
            channel.close()
