"""Small real programs, each with its expected result in `cases.json`."""

import programs.documents
import programs.money
import programs.remote
import programs.texts
import programs.waiting  # noqa: F401
