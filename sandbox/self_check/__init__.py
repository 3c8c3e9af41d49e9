"""The self-check: one suite of checks and escape attempts that every sandbox backend must pass."""

from sandbox.self_check.suite import CHECKS, DAMAGING, ESCAPES, Finding, OnResult, Verdict, self_check

__all__ = ["CHECKS", "DAMAGING", "ESCAPES", "Finding", "OnResult", "Verdict", "self_check"]
