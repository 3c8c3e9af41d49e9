"""Redacts log records: messages, arguments and tracebacks get placeholders for the values of secrets."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.secrets.redactor import Redactor

_PLAIN = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Changes every record that a handler gets. It rejects none."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # the arguments do not fit the message; the handler would report both
            message = f"{record.msg} {record.args!r}"
        record.msg, record.args = self._redactor.text(message), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = _PLAIN.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text, record.exc_info = self._redactor.text(record.exc_text), None
        if record.stack_info:
            record.stack_info = self._redactor.text(record.stack_info)
        return True


@contextmanager
def redacted_logs(redactor: Redactor | None) -> Iterator[None]:
    """Redact what the log handlers that exist now write, while the context is open. Without a redactor, do nothing."""
    if redactor is None:
        yield
        return
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    handlers = {handler for each in loggers if isinstance(each, logging.Logger) for handler in each.handlers}
    redacting = RedactingFilter(redactor)
    for handler in handlers:
        handler.addFilter(redacting)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(redacting)
