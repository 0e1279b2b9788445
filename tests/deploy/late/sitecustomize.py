"""Python imports this when it starts, where a test puts this folder on its path: its clock is an hour late."""

import time

LATE = 3600
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() - LATE
time.time_ns = lambda: _time_ns() - LATE * 10**9
