"""The algebra of queues: phase-type distributions, Markovian arrivals, quasi-birth-death processes, queues.

Times are in any unit, rates are per that unit.

>>> from falaj.queueing import Arrivals, PhaseType, Queue
>>> queue = Queue(Arrivals.renewal(PhaseType.erlang(4, 3.2)), PhaseType.exponential(1.0))
>>> round(queue.mean_wait, 6)
2.267384
"""

from ._falaj import Arrivals, PhaseType, Qbd, Queue, Solved

__all__ = ["Arrivals", "PhaseType", "Qbd", "Queue", "Solved"]
