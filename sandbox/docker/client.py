"""`Client`: calls the docker SDK in separate threads, and converts its errors to SandboxError.

The SDK blocks, so its calls run in a thread pool of their own. The event loop's default executor stays free for other
code.
"""

import asyncio
import functools
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import docker
import docker.errors
import docker.utils
import requests.exceptions

from sandbox.contract import SandboxError
from sandbox.docker.channel import Channel, Socket
from sandbox.docker.owner import OWNER

_CALL_WAIT_S = 60
_GONE = (404, 409)  # not found; already being removed

P = ParamSpec("P")
R = TypeVar("R")


class _Silent(Exception):
    """Nothing listens at the address of a Docker Engine."""


class Client:
    """A client of one Docker Engine. Methods that send it a request block; run them in a thread with `call`."""

    def __init__(self, url: str, threads: int) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="knackbox-docker")
        self._api: docker.APIClient | None = None

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a thread.

        Raises:
            SandboxError: The engine refuses the call or is unreachable.
        """
        work = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.converting_errors, work)

    def shut(self) -> None:
        """End the threads once they are idle. No further calls are possible."""
        self._threads.shutdown(wait=False)
        if self._api is not None:
            self._api.close()

    @property
    def address(self) -> str:
        return self._url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this machine and sees its folders."""
        return self.address.startswith(("unix://", "http+unix://"))

    def info(self) -> dict[str, Any]:
        """Return the engine's description of itself and its machine."""
        found: dict[str, Any] = self._connected().info()
        return found

    def require_image(self, name: str) -> None:
        self._connected().inspect_image(name)  # type: ignore[no-untyped-call]

    def create(self, creation: dict[str, Any]) -> str:
        """Return the id of a new container, which is not started yet."""
        made: dict[str, Any] = self._connected().create_container_from_config(creation)  # type: ignore[no-untyped-call]
        return str(made["Id"])

    def attach(self, container: str) -> Channel:
        """Return the container's standard streams. Call it before `start`, so that nothing is missed."""
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        owner: Any = self._connected().attach_socket(container, params=params)
        raw: Socket = getattr(owner, "_sock", owner)  # the socket inside a file-like wrapper
        return Channel(raw, owner)

    def start(self, container: str) -> None:
        self._connected().start(container)

    def remove(self, container: str) -> None:
        """Kill and remove the container, and return once it is dead. It is no error if the container is gone."""
        try:
            self._connected().remove_container(container, v=True, force=True)
        except docker.errors.APIError as problem:
            if problem.status_code not in _GONE:
                raise

    def containers(self, owner: str = "") -> list[dict[str, Any]]:
        """Return the containers that this backend labelled, in every state. With `owner`, return only that owner's."""
        label = f"{OWNER}={owner}" if owner else OWNER
        found: list[dict[str, Any]] = self._connected().containers(all=True, filters={"label": label})
        return found

    def ran_out_of_memory(self, container: str, since: float, until: float) -> bool:
        """Return whether the engine reported an out-of-memory kill in the container between two Unix times."""
        seen = self._connected().events(
            since=int(since), until=int(until) + 1, filters={"container": container, "event": "oom"}, decode=True
        )
        try:
            return any(True for _ in seen)
        finally:
            seen.close()

    def _connected(self) -> docker.APIClient:
        if self._api is None:
            if self.is_local:
                _must_listen(self.address)
            settings = {"base_url": self._url} if self._url else docker.utils.kwargs_from_env()
            api = docker.APIClient(version="auto", timeout=_CALL_WAIT_S, **settings)
            # A socket file is never behind a proxy. Reading proxy settings from the environment on every call, in a
            # thread, would fail if another thread changed the environment at the same time.
            api.trust_env = not self.is_local
            self._api = api
        return self._api

    def converting_errors(self, work: Callable[[], R]) -> R:
        """Run a function in the caller's thread, converting the SDK's errors to SandboxError."""
        try:
            return work()
        except docker.errors.ImageNotFound as problem:
            raise SandboxError(
                f"The Docker image was not found: {problem.explanation}.",
                remedy="Pull or build it (scripts/docker_image.sh builds one), or choose another image.",
            ) from None
        except docker.errors.APIError as problem:
            raise SandboxError(f"The Docker Engine refused: {problem.explanation or problem}.") from None
        except (docker.errors.DockerException, requests.exceptions.RequestException, _Silent, TimeoutError) as problem:
            raise SandboxError(
                f"No Docker Engine answered at {self.address} ({problem}).",
                remedy="Start one, or set DOCKER_HOST to the address of one you may use.",
            ) from None


def _must_listen(address: str) -> None:
    """Check that something listens at a socket file, because otherwise the SDK would leak a socket.

    Raises:
        _Silent: Nothing listens there.
    """
    path = "/" + address.partition("://")[2].lstrip("/")
    with socket.socket(socket.AF_UNIX) as end:
        try:
            end.settimeout(_CALL_WAIT_S)
            end.connect(path)
        except OSError as problem:
            raise _Silent(str(problem)) from None
