"""What was simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from . import _falaj
from .plotting import Plot
from .table import Table


@dataclass(frozen=True)
class Until:
    """An interval that was asked for.

    Attributes:
        asked: As `until` of `simulate` had it.
        within: Half of the widest interval, as a part of its estimate; None where that is not known.
        reached: It is as narrow as was asked for.
    """

    asked: str
    within: Optional[float]
    reached: bool


class Result:
    """All replications of a scenario."""

    def __init__(self, inner: _falaj.Results) -> None:
        self._inner = inner

    @property
    def flows(self) -> Table:
        """A line for each flow that traffic is meant for.

        | columns | |
        |---|---|
        | `link`, `way`, `flow` | which; a flow is named as `falaj sim` prints it |
        | `replications` | how many there were |
        | `offered`, `delivered`, `dropped` | packets that came, that left and were not lost, that found no place; sums over all replications |
        | `dropped_by_policy`, `marked` | packets that the policy of the queue dropped, or marked instead; sums |
        | `lost`, `duplicated`, `corrupted`, `reordered` | what the link did to packets; sums |
        | `loss` | share of what came that was dropped or lost, 0 to 1; mean of replications |
        | `offered_rate`, `delivered_rate` | bit/s; mean of replications |
        | `goodput` | bit/s of payload that arrived, each byte once, of the connections of TCP that begin in this flow; mean of replications; missing where there is none |
        | `delay_mean_ns` | from last bit in to last bit out; mean of replications |
        | `…_half_width` | of each mean: half of its 95 % interval (Student); missing where there was one replication |
        | `delay_p50_ns`, `delay_p99_ns`, `delay_p999_ns` | quantiles of all packets, to three digits; half-widths are of the replications' own |
        | `delay_max_ns` | the longest that was seen, exactly |
        | `max_backlog_packets` | the most that were ever queued |
        """
        return Table(self._inner.flows)

    @property
    def connections(self) -> Table:
        """A line for each source of `model = "tcp"`; empty where there is none.

        | columns | |
        |---|---|
        | `traffic`, `congestion`, `connections` | which source; its control of congestion; how many connections it is |
        | `goodput`, `goodput_half_width` | bit/s of payload that arrived, each byte once, of all of them; half of the 95 % interval |
        | `bytes`, `segments`, `retransmitted`, `timeouts`, `reductions` | sums over all replications |
        | `complete`, `not_complete` | transfers that had all arrived, and those that had not at the end |
        | `round_trip_…_ns`, `completion_…_ns` | `mean`, `min`, `p50`, `p99`, `max`; of transfers from beginning to last byte there |
        """
        return Table(self._inner.connections)

    @property
    def until(self) -> List[Until]:
        """How far each interval has come that was asked for."""
        return [Until(*one) for one in self._inner.until]

    @property
    def replications(self) -> Table:
        """The same for each replication by itself, which `replication` numbers from 0: these are the columns of sweeps too."""
        return Table(self._inner.replications)

    @property
    def delays(self) -> Table:
        """The histogram: by `flow` and `delay_ns` (to three digits), how many `packets` of all replications."""
        return Table(self._inner.delays)

    @property
    def packets(self) -> Table:
        """Each packet that left, in the order in which transmissions began: `replication`, `flow`, `bytes` as the link
        accounts them, `arrival_ns` (last bit in), `start_ns` (first bit out), `end_ns` (last bit out).

        Raises:
            ValueError: They were not kept: `simulate(packets=True)`.
        """
        if self._inner.packets is None:
            raise ValueError("packets were not kept: simulate(packets=True)")
        return Table(self._inner.packets)

    @property
    def duration_ns(self) -> int:
        """How long each replication was, in simulated time."""
        return self._inner.duration_ns

    @property
    def warm_up_ns(self) -> int:
        """What of that was not counted."""
        return self._inner.warm_up_ns

    @property
    def plot(self) -> Plot:
        """Pictures, by matplotlib."""
        return Plot(self)

    def __repr__(self) -> str:
        flows = self.flows
        return f"Result({len(flows)} flows, {int(flows['replications'][0]) if len(flows) else 0} replications)"
