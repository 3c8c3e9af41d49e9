"""`CallSecrets`: keeps the values of secrets out of calls and their results.

Only the tools that the operator lists for a secret receive its value, in their arguments.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.contract.context import OutputListener, no_progress
from engine.contract.events import StreamName
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.result import ToolCall, ToolContext
from engine.contract.spec import Origin, ToolSpec
from engine.dispatch.ended import CallEnd
from sandbox.secrets.redactor import Redactor
from sandbox.secrets.secret import Secret

_RUNS_CODE = "sandbox"  # the requirement of tools that run code in boxes


class CallSecrets:
    """The secrets of an engine, for its pipeline of calls."""

    def __init__(
        self, secrets: Sequence[Secret], tools: Mapping[str, Collection[str]], missing: Mapping[str, str] | None = None
    ) -> None:
        """Compile the secrets.

        Args:
            secrets: The secrets whose values are known.
            tools: For each secret, the tools that may have the value.
            missing: The placeholders of secrets whose values are not known, with what to do about each.
        """
        self._secrets = tuple(secrets)
        self._tools = {name: frozenset(allowed) for name, allowed in tools.items()}
        self._missing = dict(missing or {})
        self._names = {placeholder: problem.partition(":")[0] for placeholder, problem in self._missing.items()}
        self._values = {secret.placeholder: secret.value for secret in secrets}
        self._names |= {secret.placeholder: secret.name for secret in secrets}
        self._placeholder = re.compile("|".join(map(re.escape, self._names)))
        self.redactor = Redactor(secrets) if secrets else None

    @property
    def for_tools(self) -> tuple[Secret, ...]:
        """The secrets that at least one tool may have."""
        return tuple(secret for secret in self._secrets if self._tools.get(secret.name))

    def placeholders(self, tools: Collection[str]) -> dict[str, str]:
        """Return the placeholders, by name, of the secrets that at least one of these tools may have."""
        wanted = frozenset(tools)
        return {s.name: s.placeholder for s in self._secrets if self._tools.get(s.name, frozenset()) & wanted}

    def hidden(self, call: ToolCall) -> ToolCall:
        """Return the call with placeholders for values, whoever wrote them."""
        if self.redactor is None:
            return call
        arguments = self.redactor.data(call.arguments)
        context = None if call.context is None else self._hidden_context(call.context, self.redactor)
        if arguments is call.arguments and context is call.context:
            return call
        return replace(call, arguments=arguments, context=context)

    def filled(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments for the tool itself: with the values that it may have.

        A tool that runs code in boxes gets no value, even if it is listed.

        Raises:
            ToolFailure: The value of a secret that the tool may have is not known.
        """
        if _RUNS_CODE in spec.requires or spec.origin is not Origin.STATIC:
            return arguments
        allowed = {held for held, name in self._names.items() if spec.name in self._tools.get(name, frozenset())}
        if not allowed:
            return arguments

        def value(match: re.Match[str]) -> str:
            placeholder = match[0]
            if placeholder not in allowed:
                return placeholder
            if placeholder in self._missing:
                raise ToolFailure(
                    f"The secret {self._missing[placeholder]}",
                    failure_class=FailureClass.FATAL,
                    reason="secret_missing",
                )
            return self._values[placeholder]

        filled: Mapping[str, Any] = self._replaced(arguments, value)
        return filled

    def redact(self, ended: CallEnd) -> CallEnd:
        """Put placeholders into everything that a call returns. Returns the same object."""
        if self.redactor is not None:
            redact = self.redactor
            ended.output = redact.data(ended.output)
            ended.message = None if ended.message is None else redact.text(ended.message)
            ended.error = redact.text(ended.error)
            ended.side_effects = tuple(map(redact.text, ended.side_effects))
        return ended

    def audit_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return what a tool added to its audit, with placeholders. Never raises."""
        if self.redactor is None:
            return data
        try:
            redacted: dict[str, Any] = self.redactor.data(dict(data))
        except Exception:  # noqa: BLE001 -- an abandoned thread may still change the data
            return {}
        return redacted

    def listener(self, listener: Callable[..., None]) -> Callable[..., None]:
        """Return a listener that passes progress and output on with placeholders."""
        if self.redactor is None or listener is no_progress:
            return listener
        if isinstance(listener, OutputListener):
            return RedactedOutput(listener, self.redactor)
        return RedactedProgress(listener, self.redactor)

    @staticmethod
    def _hidden_context(context: ToolContext, redactor: Redactor) -> ToolContext:
        texts = {name: getattr(context, name) for name in ("raw_arg", "user_message", "kb_context")}
        changed = redactor.data(texts)
        return context if changed is texts else replace(context, **changed)

    def _replaced(self, value: Any, by: Callable[[re.Match[str]], str]) -> Any:
        if isinstance(value, str):
            return self._placeholder.sub(by, value)
        if isinstance(value, Mapping):
            return {key: self._replaced(each, by) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(each, by) for each in value]
        return value


class RedactedProgress:
    """A listener for progress whose messages have placeholders."""

    def __init__(self, listener: Callable[..., None], redactor: Redactor) -> None:
        self._listener = listener
        self._redactor = redactor

    def __call__(self, message: str, fraction: float | None = None) -> None:
        self._listener(self._redactor.text(message), fraction)


class RedactedOutput(RedactedProgress):
    """A listener for progress and output whose texts have placeholders."""

    def __init__(self, listener: OutputListener, redactor: Redactor) -> None:
        super().__init__(listener, redactor)
        self._output = listener.output

    def output(self, stream: StreamName, text: str) -> None:
        self._output(stream, self._redactor.text(text))
