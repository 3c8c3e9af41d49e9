"""Runs jobs without a sandbox, as plain child processes."""

from sandbox.unsafe.backend import WARNING, UnsafeSandbox

__all__ = ["WARNING", "UnsafeSandbox"]
