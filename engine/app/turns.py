"""`Turns`: what becomes of the turn that a caller asks for, so that it is never wider than the configuration."""

from dataclasses import replace

from engine.app.modules import modules_of_guest
from engine.app.settings import Settings
from engine.contract.allowed import Allowed
from engine.contract.turn import Turn
from engine.policy.access import tighter
from engine.policy.allow_lists import AllowLists


class Turns:
    """Of one engine."""

    def __init__(self, settings: Settings, features: frozenset[str], allow_lists: AllowLists) -> None:
        """features: what our model clients can do."""
        self._settings = settings
        self._allow_lists = allow_lists
        self._usual = Turn(features=features, band=settings.policy.band)
        self._widest = settings.access.allow_list

    def bounded(self, turn: Turn | None) -> Turn:
        """The turn, with what our model clients can do, and no less careful than the configuration."""
        features, band = self._usual.features, self._usual.band
        if turn is None:
            turn = self._usual
        modules = modules_of_guest(turn, self._settings.modules)
        if modules is not turn.modules:
            turn = replace(turn, modules=modules)
        if not self._widest and features <= turn.features and (band == "GREEN" or turn is self._usual):
            return turn
        ceiling = self.allow_list(self._widest) if self._widest else None
        allowed = ceiling if turn.allowed is None else turn.allowed.within(ceiling)
        return replace(turn, features=turn.features | features, band=tighter(band, turn.band), allowed=allowed)

    def allow_list(self, name: str, *, local_mode: bool | None = None, embedding_ok: bool = True) -> Allowed:
        """What an allow-list permits now. Raises ConfigError when there is none of this name.

        local_mode: None as configured. embedding_ok: with what the list adds when embeddings may be used.
        """
        local = self._settings.access.local_mode if local_mode is None else local_mode
        return self._allow_lists.resolve_allow_list(name, local_mode=local, embedding_ok=embedding_ok)
