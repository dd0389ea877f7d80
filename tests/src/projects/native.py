"""Calls each handler that is named ten times in CPython, and writes what it returns and the median of its CPU time in milliseconds."""

import json
import sys
import time
from statistics import median

sys.path.insert(0, ".")

import handlers  # noqa: E402, F401
from host_jobs import MockHost  # noqa: E402

for name in sys.argv[1:]:
    times = []
    for _ in range(10):
        before = time.process_time()
        result = MockHost().call(name, None)
        times.append((time.process_time() - before) * 1000)
    print(json.dumps([result, median(times)]))
