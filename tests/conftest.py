"""For all tests: how fast a machine is never decides a property test."""

from hypothesis import HealthCheck, settings

# A destructor that comes late may remark something on a stream that capture has closed. Python then prints the stack, for
# which it parses source, and before 3.11.8 fails when that happens within another parse (python/cpython#106905).
logging.raiseExceptions = False


settings.register_profile("knackbox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("knackbox")
