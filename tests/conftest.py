"""For all tests: neither the speed of the machine nor the width of a terminal decides one."""

import logging
import os

from hypothesis import HealthCheck, settings

settings.register_profile("knackbox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("knackbox")
# A destructor that comes late may remark something on a stream that capture has closed. Python then prints the stack, for
# which it parses source, and before 3.11.8 fails when that happens within another parse (python/cpython#106905).
logging.raiseExceptions = False
# readline sets these for the processes that pytest-xdist starts, and tables would be fitted into them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
