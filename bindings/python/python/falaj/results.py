"""What was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Optional

import numpy as np

from . import _falaj
from .table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        | `delay_mean_ns` | from last bit in to last bit out; mean of replications |
        | `…_half_width` | of each mean: half of its 95 % interval (Student); missing where there was one replication |
        | `delay_p50_ns`, `delay_p99_ns`, `delay_p999_ns` | quantiles of all packets, to three digits; half-widths are of the replications' own |
        | `delay_max_ns` | the longest that was seen, exactly |
        | `max_backlog_packets` | the most that were ever queued |
        """
        return Table(self._inner.flows)

    @property
    def replications(self) -> Table:
        """The same for each replication by itself, which `replication` numbers from 0."""
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


# Okabe and Ito, Color Universal Design (2008): told apart by those who see few colours, and in grey by their strokes.
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_STROKES = ["-", "--", "-.", ":"]


class Plot:
    """Pictures of a result. Each is drawn on `ax` if that is given, and returned. ImportError without matplotlib."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def delay_ccdf(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None) -> Axes:
        """Which share of each flow's packets is delayed longer than so many milliseconds; logarithmic."""
        ax = _axes(ax)
        for n, name, delay, packets in self._histograms(flows):
            # Of all, those that are longer than each.
            longer = 1 - np.cumsum(packets) / packets.sum()
            # The last is exact zero, which no logarithm shows.
            x, y = np.concatenate([[0.0], delay]), np.concatenate([[1.0], longer])
            ax.step(x[:-1] / 1e6, y[:-1], where="post", label=name, **_style(n))
        ax.set_yscale("log")
        return _named(ax, "delay [ms]", "share of packets that is delayed longer")

    def delay_cdf(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None) -> Axes:
        """Which share of each flow's packets is delayed at most so many milliseconds."""
        ax = _axes(ax)
        for n, name, delay, packets in self._histograms(flows):
            share = np.cumsum(packets) / packets.sum()
            ax.step(np.concatenate([[0.0], delay]) / 1e6, np.concatenate([[0.0], share]), where="post", label=name, **_style(n))
        return _named(ax, "delay [ms]", "share of packets that is delayed at most so long")

    def delay_means(self, ax: Optional[Axes] = None) -> Axes:
        """Each flow's mean delay with its 95 % interval."""
        ax = _axes(ax)
        flows = self._result.flows
        mean, half = flows["delay_mean_ns"] / 1e6, flows["delay_mean_ns_half_width"] / 1e6
        for n, name in enumerate(flows["flow"]):
            ax.errorbar([name], [mean[n]], yerr=[np.nan_to_num(half[n])], fmt="o", capsize=4, color=_style(n)["color"])
        ax.set_ylim(bottom=0)
        ax.set_ylabel("mean delay [ms]")
        return ax

    def _histograms(self, flows: Optional[Iterable[str]]) -> Iterable[Any]:
        table = self._result.delays
        of, delay, packets = table["flow"], table["delay_ns"], table["packets"]
        known = list(self._result.flows["flow"])
        wanted = known if flows is None else list(flows)
        for name in wanted:
            if name not in known:
                raise KeyError(f"there is no flow {name!r}; there is {', '.join(map(repr, known))}")
            these = of == name
            if these.any():
                yield known.index(name), name, delay[these], packets[these]


def _axes(ax: Optional[Axes]) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _style(n: int) -> Any:
    return {"color": _COLOURS[n % len(_COLOURS)], "linestyle": _STROKES[n % len(_STROKES)]}


def _named(ax: Axes, x: str, y: str) -> Axes:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_xlim(left=0)
    ax.legend()
    return ax
