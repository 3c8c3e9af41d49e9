"""Finds the signing key and the trusted keys of a home in its configuration (SKILL-17)."""

from pathlib import Path

from acquired_skills.store.trust import Trust
from engine.app.home import Home
from engine.app.settings import SkillSettings
from engine.contract.failure import ConfigError
from engine.registry.signing import SigningKey


def key_path(home: Home, settings: SkillSettings) -> Path:
    """Return the path of the signing key, which need not exist."""
    return home.root / settings.signing_key.expanduser() if settings.signing_key else home.skills_key


def trust_of(home: Home, settings: SkillSettings) -> Trust:
    """Return the trust settings of a home.

    Raises:
        ConfigError: Signatures are required, but there is no key to check them with.
    """
    path = key_path(home, settings)
    key = SigningKey(path)
    required = settings.require_signed
    if required is None and settings.signing_key:
        required = True  # a key was configured, so its absence must not disable signature checks
    if not key.exists and (settings.signing_key or (required and not settings.trusted_keys)):
        raise ConfigError(
            f"{path}: the key that signs skills does not exist. Make one with `knackbox skills sign --new-key`, or "
            "remove `signing_key` and `require_signed` from `[skills]` in config.toml."
        )
    return Trust(key, frozenset(settings.trusted_keys), required)
