"""The suite detects failures: attempts succeed without isolation, and wrong outcomes are reported."""

import platform

import pytest

from sandbox.contract import CodeError, End, Job, Language, OnOutput, Outcome, Protections, Usage
from sandbox.self_check import DAMAGING, ESCAPES, Finding, Verdict, self_check
from sandbox.self_check.attempts.attempt import FORGED, WORKED, Attempt, AttemptFamily
from sandbox.self_check.attempts.stage import Stage
from sandbox.self_check.attempts.suite import ALL
from sandbox.self_check.attempts.trial import judge, put
from sandbox.unsafe import UnsafeSandbox

ANY = Attempt(AttemptFamily.FILES, "anything", Language.PYTHON, "", "")
ERROR = CodeError("PermissionError", "refused", "")

# Attempts that only read, and must succeed without any isolation.
SEEN = [
    "see a process of the host",
    "read a file of the host that every user may read",
    "read a file of the host through a symbolic link",
    "find the self-check's folder on the host",
    "connect to a server on the host's loopback",
    "send a datagram to the host's loopback",
    "connect to an abstract socket of the host",
    "connect to a socket file of the host",
    "read the environment variables",
    "follow a link in the workspace to the host",
    "climb out of the workspace through a link",
    "reach a server of the host through its socket file",
    "reach a datagram server of the host by sending to its address from one socket of a pair",
    "read a file of the host (bash)",
    "find the self-check's folder (bash)",
    "connect to a server of the host through Bash's /dev/tcp (bash)",
]


@pytest.mark.spec("BOX-2", "BOX-14")
@pytest.mark.parametrize("name", SEEN)
async def test_without_isolation_attempts_succeed_and_are_detected(name: str) -> None:
    attempt = next(each for each in ALL if each.attempt == name)
    assert attempt.harmless
    with Stage() as stage:
        trial = await put(UnsafeSandbox(), attempt, stage)
    assert not trial.held


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [
        (Outcome(End.OK, stdout=WORKED.encode()), "the attempt worked"),
        (Outcome(End.OK, value={"x": WORKED}), "the attempt worked"),
        (Outcome(End.OK, stdout=b"kbx-canary-00"), "a secret"),
        (Outcome(End.OK, value=FORGED), "forged"),
        (Outcome(End.OK, exit_code=-9), "exit code"),
        (Outcome(End.ERROR, signal=900, error=ERROR), "signal"),
        (Outcome(End.OK, files={"x": b""}), "were not requested"),
        (Outcome(End.OK, usage=Usage(cpu_s=-1)), "CPU time"),
        (Outcome(End.TIMEOUT), "ended with timeout"),
        (
            Outcome(End.ERROR, error=CodeError("NameError", "name 'x' is not defined", "")),
            "the attempt itself has a bug",
        ),
    ],
)
def test_a_wrong_outcome_is_detected(outcome: Outcome, seen: str) -> None:
    assert any(seen in wrong for wrong in judge(ANY, outcome))


@pytest.mark.parametrize("outcome", [Outcome(End.OK), Outcome(End.ERROR, error=ERROR)])
def test_a_refusal_counts_as_a_failed_attempt(outcome: Outcome) -> None:
    assert judge(ANY, outcome) == []


def test_an_attempt_for_another_backend_or_machine_is_omitted() -> None:
    row = Attempt(AttemptFamily.KERNEL, "x", Language.PYTHON, "", "", only=frozenset({"namespace"}), machine="x86_64")
    assert row.applies("namespace", "x86_64")
    assert not row.applies("docker", "x86_64")
    assert not row.applies("namespace", "aarch64")
    assert ANY.applies("docker", platform.machine())


def test_the_stage_detects_damage_and_is_removed() -> None:
    with Stage() as stage:
        assert stage.damage() == []
        root = stage.root
        stage.canary.write_text("changed")
        (stage.workspace / "s").touch()
        (stage.workspace / "s").chmod(0o4755)
        (stage.root / f"planted-{stage.mark}").touch()
        seen = "\n".join(stage.damage())
        assert "was changed" in seen
        assert "set-id" in seen
        assert "was left on the host" in seen
    assert not root.exists()


class Broken:
    """A backend that runs nothing and returns an empty success for every job."""

    name = "broken"

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        return Outcome(End.OK)

    async def report(self) -> Protections:
        return Protections(self.name, ())

    async def aclose(self) -> None:
        """Do nothing: there are no resources."""


@pytest.mark.spec("BOX-14")
async def test_a_backend_that_does_nothing_fails_nearly_every_check() -> None:
    findings = await self_check(Broken(), escapes=False)
    assert [finding.name for finding in findings[1:] if not finding.failed] == ["nothing is left on the host"]


@pytest.mark.spec("BOX-2", "BOX-14")
async def test_a_backend_without_isolation_gets_no_damaging_checks() -> None:
    told: list[Finding] = []
    await self_check(UnsafeSandbox(), on_result=told.append)
    first, *others = told
    assert first.failed
    damaging = [finding for finding in others if finding.group in {*DAMAGING, ESCAPES}]
    assert {finding.verdict for finding in damaging} == {Verdict.SKIPPED}
    assert any(finding.verdict is Verdict.HOLDS for finding in others)
