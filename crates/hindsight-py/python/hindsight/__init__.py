"""Continual learning you can trust, and that is fast: numpy in and out.

``Agent`` is a learner for data as it comes; ``run`` compares methods on benchmarks or on your arrays
(``stream``); ``hindsight.sklearn`` and ``hindsight.river`` have estimators.
"""

from importlib.metadata import PackageNotFoundError as _NotInstalled
from importlib.metadata import version as _version

from ._agent import Agent
from ._errors import Diverged, HindsightError
from ._records import Figure, Record, Records, read
from ._run import run
from ._stream import Stream, stream
from ._tables import Table, benchmarks, methods, settings

try:
    __version__ = _version("hindsight-cl")
except _NotInstalled:  # a checkout that is on the path and not installed
    __version__ = "unknown"

__all__ = [
    "Agent",
    "Diverged",
    "Figure",
    "HindsightError",
    "Record",
    "Records",
    "Stream",
    "Table",
    "benchmarks",
    "methods",
    "read",
    "run",
    "settings",
    "stream",
]
