"""Virtual links with guarantees: simulated, planned and swept.

>>> import falaj
>>> r = falaj.Scenario.load("uplink.toml").simulate(replications=20)    # doctest: +SKIP
>>> r.flows.to_pandas()                                                 # doctest: +SKIP

Times are nanoseconds and named so (`delay_mean_ns`), rates are bits per second, lengths are bytes as the link accounts them.
Errors in a scenario raise `ScenarioError`, which has the line.

The same engine forwards live packets, so `falaj run` behaves as simulated here. See the book for the scenario file.
"""

from . import queueing
from ._falaj import __version__
from .errors import ScenarioError, ScenarioWarning, SchedulerError, SweepError, UnknownKey
from .planning import Plan
from .plotting import Plot
from .results import Result, Until
from .scenario import Scenario, plan
from .scheduler import Link, Queues, Scheduler, Wait
from .sweeping import Sweep, sweep
from .table import Table

__all__ = [
    "Link",
    "Plan",
    "Plot",
    "Queues",
    "Result",
    "Scenario",
    "ScenarioError",
    "ScenarioWarning",
    "Scheduler",
    "SchedulerError",
    "Sweep",
    "SweepError",
    "Table",
    "UnknownKey",
    "Until",
    "Wait",
    "__version__",
    "plan",
    "queueing",
    "sweep",
]
