"""For all tests: how fast a machine is never decides a property test."""

import logging

from hypothesis import HealthCheck, settings

settings.register_profile("knackbox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("knackbox")
# A destructor that comes late may remark something on a stream that capture has closed. Python then prints the stack, for
# which it parses source, and before 3.11.8 fails when that happens within another parse (python/cpython#106905).
logging.raiseExceptions = False
