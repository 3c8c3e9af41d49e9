"""`PersonForms`: asks the person behind a call to fill in a form, at the terminal or in an MCP client."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FormField:
    """One line of text to fill in. Every field may be left empty.

    Attributes:
        name: The key of its answer.
        title: What is asked.
        hint: How the answer is written.
    """

    name: str
    title: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """A form.

    Attributes:
        message: What it is about and why.
    """

    message: str
    fields: Sequence[FormField]


class FormFiller(Protocol):
    """Shows forms to a person."""

    async def fill(self, form: Form) -> Mapping[str, str] | None:
        """Return the answers by the names of the fields, or None if the person declines or cannot be asked."""
        ...


class PersonForms:
    """The forms of one engine."""

    def __init__(self, filler: FormFiller | None = None) -> None:
        """Create it.

        Args:
            filler: None if nobody can be asked; then no form is answered.
        """
        self._filler = filler

    async def fill(self, form: Form, within_s: float) -> dict[str, str]:
        """Return the answers that are not empty, by the names of the fields.

        There are none if the person declined, did not answer in time or cannot be asked: a form only offers a person to
        help, so its absence is no failure.
        """
        if self._filler is None:
            return {}
        try:
            async with asyncio.timeout(within_s):
                found = await self._filler.fill(form) or {}
        except TimeoutError:
            return {}
        except Exception:  # noqa: BLE001 -- a client may fail in any way, and the caller goes on without answers
            _log.warning("A form could not be shown to a person.", exc_info=True)
            return {}
        names = {field.name for field in form.fields}
        return {name: text.strip() for name, text in found.items() if name in names and text.strip()}
