"""What every test of modules wants: that a busy machine costs time, and not the result."""

import pytest

from engine.remote import modules

PATIENT_S = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules get longer to answer than they would; a test of these times sets its own."""
    monkeypatch.setattr(modules, "DISCOVERY_S", PATIENT_S)
    monkeypatch.setattr(modules, "PATIENCE_S", PATIENT_S)
