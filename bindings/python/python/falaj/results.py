"""Results of simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from . import _falaj
from .plotting import Plot
from .table import Table


@dataclass(frozen=True)
class Until:
    """A required precision, and the precision reached.

    Attributes:
        asked: The requirement, as written in the argument `until` of `simulate`.
        within: Half-width of the widest 95 % interval, as a fraction of its estimate; None if unknown.
        reached: True if the interval is as narrow as required.
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
        """A row for each flow that has a traffic source, or for each flow if the scenario has rules that route packets.

        | columns | |
        |---|---|
        | `link`, `way`, `flow` | names; flows are named as `falaj sim` prints them |
        | `replications` | number of replications |
        | `offered`, `delivered`, `dropped` | packets that arrived, that were delivered, and that were dropped for any reason; sums over all replications |
        | `dropped_by_policy`, `marked` | packets of `dropped` that the queue's policy dropped, and packets that it marked instead; sums |
        | `lost`, `duplicated`, `corrupted`, `reordered` | packets impaired by the link; sums |
        | `loss` | fraction of the offered packets that was dropped or lost, 0 to 1; mean of replications |
        | `offered_rate`, `delivered_rate` | bit/s; mean of replications |
        | `goodput` | bit/s of payload that arrived, each byte once, of the TCP connections that begin in this flow; mean of replications; missing if it has no such connection |
        | `delay_mean_ns` | from last bit in to last bit out; mean of replications |
        | `…_half_width` | of each mean: half of its 95 % interval (Student); missing if there was one replication |
        | `delay_p50_ns`, `delay_p99_ns`, `delay_p999_ns` | quantiles of all packets, to three digits; half-widths come from the quantiles of each replication |
        | `delay_max_ns` | exact maximum |
        | `max_backlog_packets` | maximum number of packets queued |
        """
        return Table(self._inner.flows)

    @property
    def connections(self) -> Table:
        """A row for each source of `model = "tcp"`; empty if there is none.

        | columns | |
        |---|---|
        | `traffic`, `congestion`, `connections` | name of the source; its congestion control; its number of connections |
        | `goodput`, `goodput_half_width` | bit/s of payload that arrived, each byte once, over all connections of the source; half of the 95 % interval |
        | `bytes`, `segments`, `retransmitted`, `timeouts`, `reductions` | sums over all replications |
        | `complete`, `not_complete` | transfers completed, and not completed at the end |
        | `round_trip_…_ns`, `completion_…_ns` | `mean`, `min`, `p50`, `p99`, `max`; completion is from the beginning of a transfer to the arrival of its last byte |
        """
        return Table(self._inner.connections)

    @property
    def until(self) -> List[Until]:
        """The precision reached for each `until` of `simulate`."""
        return [Until(*one) for one in self._inner.until]

    @property
    def replications(self) -> Table:
        """A row for each replication and flow. The column `replication` counts from 0; the others are the columns of `flows` without half-widths."""
        return Table(self._inner.replications)

    @property
    def delays(self) -> Table:
        """The histogram: number of `packets` by `flow` and `delay_ns` (to three digits), over all replications."""
        return Table(self._inner.delays)

    @property
    def packets(self) -> Table:
        """Each sent packet that was counted, in the order in which transmissions began: `replication`, `flow`, `bytes` as the link accounts
        them, `arrival_ns` (last bit in), `start_ns` (first bit out), `end_ns` (last bit out).

        Raises:
            ValueError: Packets were not kept: `simulate(packets=True)`.
        """
        if self._inner.packets is None:
            raise ValueError("packets were not kept: simulate(packets=True)")
        return Table(self._inner.packets)

    @property
    def duration_ns(self) -> int:
        """Duration of each replication, in simulated time."""
        return self._inner.duration_ns

    @property
    def warm_up_ns(self) -> int:
        """The warm-up at the beginning of each replication, which is not counted."""
        return self._inner.warm_up_ns

    @property
    def plot(self) -> Plot:
        """Plots, by matplotlib."""
        return Plot(self)

    def __repr__(self) -> str:
        flows = self.flows
        return f"Result({len(flows)} flows, {int(flows['replications'][0]) if len(flows) else 0} replications)"
