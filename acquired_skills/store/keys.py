"""Which keys count for the skills of a home, by its configuration (SKILL-17)."""

from pathlib import Path

from acquired_skills.store.trust import Trust
from engine.app.home import Home
from engine.app.settings import SkillSettings
from engine.contract.failure import ConfigError
from engine.registry.signing import SigningKey


def key_path(home: Home, settings: SkillSettings) -> Path:
    """Where the key that signs is, or would be made."""
    return home.root / settings.signing_key.expanduser() if settings.signing_key else home.skills_key


def trust_of(home: Home, settings: SkillSettings) -> Trust:
    """Raises ConfigError when signatures are asked for and no key is there to check any by."""
    path = key_path(home, settings)
    key = SigningKey(path)
    required = settings.require_signed
    if required is None and settings.signing_key:
        required = True  # somebody meant it: a key that goes missing must not switch signatures off
    if not key.exists and (settings.signing_key or (required and not settings.trusted_keys)):
        raise ConfigError(
            f"{path}: the key that signs skills is not there. `knackbox skills sign --new-key` makes one; or take "
            "`signing_key` and `require_signed` out of `[skills]` in config.toml."
        )
    return Trust(key, frozenset(settings.trusted_keys), required)
