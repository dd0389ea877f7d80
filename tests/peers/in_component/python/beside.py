"""What tests share."""

import handlers  # noqa: F401 (registers them)
from host_jobs import MockHost


def call(name):
    return MockHost().call(name)
