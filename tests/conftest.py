"""For all tests: how fast a machine is never decides a property test."""

from hypothesis import HealthCheck, settings

settings.register_profile("knackbox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("knackbox")
