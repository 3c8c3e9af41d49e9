"""Converts a `Job` into the frame that is sent to its box.

The header's fields:
    language: A value of `Language`.
    cwd, folder: Absolute paths in the box.
    files: [[path, size], …], in the order of the body.
    stdin: The number of bytes at the end of the body.
    env, argv, limits, collect: As in the job.
    code, prelude, call, command: What to run.
    mount: How the job may write to its workspace; "" without a workspace.
    egress: null, or where the box listens in place of the allowed destinations, its /etc/hosts, and the certificate of
        an authority that it trusts (`sandbox.namespace.outlets`).
    inlets: Ports of the box that the engine connects to (`sandbox.namespace.inlets`).
    bridge: null, or the [address, port] at which the box's programs ask the engine (`sandbox.bridge`).
    stay: Whether the worker waits to be killed after its answer, so that its resource usage can be read.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import PurePosixPath
from typing import Any

from sandbox.bridge import plan as bridge_plan
from sandbox.contract import Call, Job, Language, SandboxError
from sandbox.egress.plan import EgressPlan, environment
from sandbox.wire.paths import AUTHORITIES, AUTHORITY, TMP, WORK
from sandbox.wire.programs import Programs

_SCRIPTS = {Language.NODE: "main.js", Language.BASH: "main.sh"}
# Variables that name the certificate authorities to trust: for OpenSSL and Python, requests, curl, git, and AWS.
_TRUST_ALL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE")
_TRUST_MORE = ("NODE_EXTRA_CA_CERTS",)  # those that name authorities in addition to the program's own
_NODE_HEAP_SHARE = 0.75  # V8's old space as a share of the memory limit; the rest is for buffers and the program itself


def build(
    job: Job,
    programs: Programs,
    egress: EgressPlan | None = None,
    inlets: Sequence[int] = (),
    *,
    bridged: bool = False,
    from_template: bool = False,
) -> tuple[dict[str, Any], bytes]:
    """Return the header and the body of the job's frame.

    Args:
        job: The job.
        programs: The programs of its box.
        egress: The ways out of the box; None if there are none.
        inlets: Ports of the box that the engine connects to.
        bridged: Whether the box's programs can ask the engine.
        from_template: Whether the box is forked from a template. Unless the job has requirements, the template has
            loaded the modules in `job.in_box`. Otherwise, the job gets their files.

    Raises:
        SandboxError: The job is not valid.
    """
    if job.in_box is not None and (job.requirements or not from_template):
        job = replace(job, files={**job.files, **job.in_box.files})
    _must_be_sensible(job)
    folder = f"{TMP}/job" if job.workspace else WORK
    files = dict(job.files)
    command: list[str] = []
    if job.language is not Language.PYTHON:
        script = _SCRIPTS[job.language]
        files[script] = _utf8(job.code)
        command = [*_interpreter(job, programs), f"{folder}/{script}", *job.argv]
    body = b"".join(files.values()) + job.stdin
    header = {
        "language": job.language.value,
        "cwd": WORK,
        "folder": folder,
        "files": [[path, len(data)] for path, data in files.items()],
        "stdin": len(job.stdin),
        "env": _environment(
            {
                **(_of_egress(egress) if egress else {}),
                **(bridge_plan.environment(programs.path, programs.packages) if bridged else {}),
                **job.env,
            },
            programs,
        ),
        "argv": list(job.argv),
        "code": job.code,
        "prelude": job.prelude,
        "call": _call(job.call) if job.call else None,
        "command": command,
        "limits": asdict(job.limits),
        "mount": job.workspace.writes.value if job.workspace else "",
        "collect": list(job.collect),
        "egress": {"listen": egress.listen, "hosts": egress.hosts, "authority": egress.authority} if egress else None,
        "inlets": list(inlets),
        "bridge": [bridge_plan.ADDRESS, bridge_plan.PORT] if bridged else None,
        "stay": True,
    }
    return header, body


def _must_be_sensible(job: Job) -> None:
    """Check the job's limits, strings, file names and call before anything runs.

    Raises:
        SandboxError: The job is not valid.
    """
    for limit in fields(job.limits):
        if not getattr(job.limits, limit.name) > 0:
            raise SandboxError(
                f"The limit {limit.name} is {getattr(job.limits, limit.name)!r}.", remedy="Set it to more than 0."
            )
    texts = "\n".join((*job.env.keys(), *job.env.values(), *job.argv, *job.files, *job.collect))
    if "\0" in texts:
        raise SandboxError("A name, argument or variable of the job contains a NUL byte.", remedy="Remove the byte.")
    _utf8(job.code + texts)
    if job.files:
        _must_fit_in_a_folder(job.files)
    if job.call is not None:
        _must_be_callable(job, job.call)


def _must_be_callable(job: Job, call: Call) -> None:
    if job.language is not Language.PYTHON:
        raise SandboxError(f"Only Python functions can be called, not {job.language}.")
    if call.path not in job.files:
        raise SandboxError(f"The job calls a function in {call.path!r}, which is not among its files.")
    try:
        json.dumps(dict(call.arguments))
    except (TypeError, ValueError, RecursionError) as problem:
        raise SandboxError(f"The arguments of the call cannot be converted to JSON: {problem}.") from None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as problem:
        raise SandboxError(f"The job contains text that UTF-8 cannot encode: {problem}.") from None


def _call(call: Call) -> dict[str, Any]:
    return {"path": call.path, "function": call.function, "arguments": dict(call.arguments)}


def _interpreter(job: Job, programs: Programs) -> list[str]:
    if job.language is Language.BASH:
        if programs.bash is None:
            raise SandboxError("Bash is not installed on this machine.", remedy="Install bash.")
        return [programs.bash]
    if programs.node is None:
        raise SandboxError(
            "Node is not installed on this machine.",
            remedy="To run JavaScript: pip install 'knackbox[node]', or install Node in /usr.",
        )
    heap = max(16, int(job.limits.memory_bytes * _NODE_HEAP_SHARE) >> 20)
    return [programs.node, f"--max-old-space-size={heap}"]


def _of_egress(egress: EgressPlan) -> dict[str, str]:
    trust = dict.fromkeys(_TRUST_ALL, AUTHORITIES) | dict.fromkeys(_TRUST_MORE, AUTHORITY) if egress.authority else {}
    return environment() | trust | dict(egress.variables)


def _environment(given: Mapping[str, str], programs: Programs) -> dict[str, str]:
    return {
        "PATH": ":".join(programs.path),
        "HOME": TMP,
        "TMPDIR": TMP,
        "USER": "box",
        "LANG": "C.UTF-8",
        "PYTHONPATH": ":".join(programs.packages),
        "PYTHONDONTWRITEBYTECODE": "1",
        **given,
    }


def _must_fit_in_a_folder(paths: Iterable[str]) -> None:
    """Check that no file leaves the folder, and that no file is the folder of another one."""
    files = {path: PurePosixPath(path) for path in paths}
    for path, pure in files.items():
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise SandboxError(
                f"File path {path!r} leaves the job's folder.", remedy="Use a relative path without '..'."
            )
    folders = {folder for pure in files.values() for folder in pure.parents}
    if both := sorted(folders.intersection(files.values())):
        raise SandboxError(f"'{both[0]}' is both a file and a folder of the job.", remedy="Rename one of them.")
