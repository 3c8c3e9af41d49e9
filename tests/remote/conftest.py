"""Longer timeouts for all tests of modules, so that a busy machine delays the tests but does not fail them."""

import pytest

from engine.remote import modules

PATIENT_S = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give modules more time to answer than in production. Tests of these timeouts set their own."""
    monkeypatch.setattr(modules, "DISCOVERY_S", PATIENT_S)
    monkeypatch.setattr(modules, "PATIENCE_S", PATIENT_S)
