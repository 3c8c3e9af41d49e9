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
        name: The key of the answer.
        title: The question.
        hint: How to write the answer.
    """

    name: str
    title: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """Questions for a person, to be shown together.

    Attributes:
        message: What the questions are about, and why they are asked.
    """

    message: str
    fields: Sequence[FormField]


class FormFiller(Protocol):
    """Shows forms to a person."""

    async def fill(self, form: Form) -> Mapping[str, str] | None:
        """Return the answers by field name, or None if the person declines or cannot be asked."""
        ...


class PersonForms:
    """Asks people to fill in the forms of one engine."""

    def __init__(self, filler: FormFiller | None = None) -> None:
        """Create the object.

        Args:
            filler: Shows a form to a person. If it is None, nobody can be asked, and no form is answered.
        """
        self._filler = filler

    @property
    def can_ask(self) -> bool:
        """Whether a form can be shown to a person. An MCP client may still decline all of them."""
        return self._filler is not None

    async def fill(self, form: Form, within_s: float) -> dict[str, str]:
        """Return the answers that are not empty, by field name.

        The result is empty if the person declined, did not answer in time or cannot be asked. This is not a failure,
        because answering a form is always optional.
        """
        if self._filler is None:
            return {}
        try:
            async with asyncio.timeout(within_s):
                found = await self._filler.fill(form) or {}
        except TimeoutError:
            return {}
        except Exception:  # noqa: BLE001 -- a client may fail in any way, and the caller continues without answers
            _log.warning("Asking a person to fill in a form failed. The call goes on without answers.", exc_info=True)
            return {}
        names = {field.name for field in form.fields}
        return {name: text.strip() for name, text in found.items() if name in names and text.strip()}
