"""Plots of simulation results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .planning import Plan
    from .results import Result

# Okabe and Ito, Color Universal Design (2008): distinguishable with colour blindness, and in grey by their strokes.
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_STROKES = ["-", "--", "-.", ":"]


class Plot:
    """Plots of a result. Each method draws on `ax`, or on new axes if `ax` is None, and returns the axes. ImportError without matplotlib.

    Plots over time show the first replication and need its packets: `simulate(packets=True)`.
    """

    def __init__(self, result: Result) -> None:
        self._result = result

    def delay_ccdf(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None) -> Axes:
        """For each delay in milliseconds, the share of each flow's packets that were delayed longer; the axis of shares is logarithmic.
        Horizontal bars are 95 % intervals of the median, the 99 % and the 99.9 % quantile, if they are known."""
        ax = _axes(ax)
        for n, name, delay, packets in self._histograms(flows):
            # For each delay, the fraction of delays that are longer.
            longer = 1 - np.cumsum(packets) / packets.sum()
            # The last fraction is exactly zero, which a logarithmic axis cannot show.
            x, y = np.concatenate([[0.0], delay]), np.concatenate([[1.0], longer])
            ax.step(x[:-1] / 1e6, y[:-1], where="post", label=name, **_style(n))
            self._intervals(ax, n, name, longer=True)
        ax.set_yscale("log")
        return _named(ax, "delay [ms]", "share of packets delayed longer")

    def delay_cdf(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None) -> Axes:
        """For each delay in milliseconds, the share of each flow's packets whose delay was at most this long, with intervals as in `delay_ccdf`."""
        ax = _axes(ax)
        for n, name, delay, packets in self._histograms(flows):
            share = np.cumsum(packets) / packets.sum()
            ax.step(np.concatenate([[0.0], delay]) / 1e6, np.concatenate([[0.0], share]), where="post", label=name, **_style(n))
            self._intervals(ax, n, name, longer=False)
        return _named(ax, "delay [ms]", "share of packets delayed at most this long")

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

    def throughput(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None, parts: int = 100) -> Axes:
        """Throughput of each flow in Mbit/s, in each of `parts` equal parts of the run."""
        ax = _axes(ax)
        edges = self._edges(parts)
        for n, name, packets in self._packets(flows):
            bits = 8 * np.histogram(packets["end_ns"], edges, weights=packets["bytes"])[0]
            ax.stairs(bits / np.diff(edges) * 1e3, edges / 1e9, baseline=None, label=name, **_style(n))
        ax.set_ylim(bottom=0)
        return _named(ax, "time [s]", "throughput [Mbit/s]")

    def backlog(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None) -> Axes:
        """Backlog of each flow in kB, including the packet in transmission; packets that were dropped are not counted."""
        ax = _axes(ax)
        for n, name, packets in self._packets(flows):
            at = np.concatenate([packets["arrival_ns"], packets["end_ns"]])
            change = np.concatenate([packets["bytes"], -packets["bytes"]])
            # At equal instants departures come before arrivals.
            order = np.lexsort((change, at))
            ax.step(at[order] / 1e9, np.cumsum(change[order]) / 1e3, where="post", label=name, **_style(n))
        ax.set_ylim(bottom=0)
        return _named(ax, "time [s]", "backlog [kB]")

    def fairness(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None, parts: int = 100) -> Axes:
        """Jain's fairness index in each part of the run, over the throughputs of the flows with packets in that part: 1 if all are equal, no
        value if fewer than two flows have packets."""
        ax = _axes(ax)
        edges = self._edges(parts)
        got = np.array([np.histogram(p["end_ns"], edges, weights=p["bytes"])[0] for _, _, p in self._packets(flows)])
        several = (got > 0).sum(axis=0) > 1
        squares = (got > 0).sum(axis=0) * (got**2).sum(axis=0)
        index = np.where(several, got.sum(axis=0) ** 2 / np.where(several, squares, 1), np.nan)
        ax.stairs(index, edges / 1e9, baseline=None, **_style(0))
        ax.set_ylim(0, 1.05)
        ax.set_xlabel("time [s]")
        ax.set_ylabel("Jain's index")
        return ax

    def cumulative(self, flow: str, ax: Optional[Axes] = None, plan: Optional[Plan] = None) -> Axes:
        """Arrivals and departures of a flow in kB, around its longest delay: the horizontal distance is a delay, the vertical
        distance a backlog. With a plan, also the guaranteed service."""
        ax = _axes(ax)
        (_, _, packets), = self._packets([flow])
        came, left, size = packets["arrival_ns"], packets["end_ns"], packets["bytes"]
        delay = left - came
        worst = int(np.argmax(delay))
        # A busy period of the flow begins with a packet that arrives when all packets before it have left.
        begins = np.concatenate([[True], came[1:] >= np.maximum.accumulate(left)[:-1]])
        first = int(np.flatnonzero(begins[: worst + 1])[-1])
        since, to = came[first], left[worst] + delay[worst] // 2
        early = max(since, came[worst] - 3 * delay[worst])
        for n, (name, at) in enumerate([("arrivals", came), ("departures", left)]):
            order = np.argsort(at[first:], kind="stable") + first
            x = np.concatenate([[since], at[order]])
            y = np.concatenate([[0], np.cumsum(size[order])])
            seen = np.flatnonzero((x >= early) & (x <= to))
            seen = np.concatenate([[max(seen[0] - 1, 0)], seen])
            ax.step((x[seen] - early) / 1e6, y[seen] / 1e3, where="post", label=name, **_style(n))
        if plan is not None:
            rate, latency = self._guaranteed(flow, plan)
            x = np.array([early, max(early, min(since + latency, to)), to], dtype=float)
            y = np.maximum(x - since - latency, 0) * rate / 8e9
            ax.plot((x - early) / 1e6, y / 1e3, label="served at least", **_style(2))
        ax.set_ylabel("data since its backlog began [kB]")
        ax.set_xlabel(f"time since {early / 1e9:.6f} s [ms]")
        ax.set_xlim(0, (to - early) / 1e6)
        ax.legend()
        return ax

    def timeline(self, ax: Optional[Axes] = None, flows: Optional[Iterable[str]] = None, packets: int = 60) -> Axes:
        """Transmissions of about `packets` packets around the longest delay, a lane for each flow; a thin line is the time that a packet waited."""
        ax = _axes(ax)
        names, lanes = [], []
        for n, name, table in self._packets(flows):
            names.append(name)
            lanes.append((n, table))
        ends = np.concatenate([table["end_ns"] for _, table in lanes])
        delays = np.concatenate([table["end_ns"] - table["arrival_ns"] for _, table in lanes])
        ends_in_order = np.sort(ends)
        middle = int(np.searchsorted(ends_in_order, ends[np.argmax(delays)]))
        low = ends_in_order[max(middle - packets // 2, 0)]
        high = ends_in_order[min(middle + packets // 2, len(ends) - 1)]
        for lane, (n, table) in enumerate(lanes):
            seen = (table["end_ns"] >= low) & (table["start_ns"] <= high)
            came, start, end = (table[key][seen] / 1e6 for key in ("arrival_ns", "start_ns", "end_ns"))
            ax.hlines(np.full(len(came), lane - 0.3), np.maximum(came, low / 1e6), start, color="0.55", linewidth=1)
            bars = list(zip(start, end - start))
            ax.broken_barh(bars, (lane - 0.2, 0.4), facecolor=_style(n)["color"], edgecolor="white", linewidth=0.5)
        ax.set_yticks(range(len(names)), names)
        ax.set_xlim(low / 1e6, high / 1e6)
        ax.set_xlabel("time [ms]")
        return ax

    def drops(self, ax: Optional[Axes] = None) -> Axes:
        """Reasons for lost packets of each flow, as shares of the packets that arrived, in all replications."""
        ax = _axes(ax)
        flows = self._result.flows
        offered = np.maximum(flows["offered"], 1)
        policy, lost = flows["dropped_by_policy"], flows["lost"]
        left = np.zeros(len(offered))
        reasons: List[Tuple[str, Any]] = [
            ("no room in the queue", flows["dropped"] - policy),
            ("the queue's policy", policy),
            ("on the link", lost),
        ]
        for n, (why, packets) in enumerate(reasons):
            share = packets / offered
            ax.barh(list(flows["flow"]), share, left=left, label=why, color=_COLOURS[n], hatch=["", "//", ".."][n], edgecolor="white")
            left = left + share
        ax.set_xlabel("share of packets that arrived")
        ax.legend()
        return ax

    def _histograms(self, flows: Optional[Iterable[str]]) -> Iterator[Any]:
        table = self._result.delays
        of, delay, packets = table["flow"], table["delay_ns"], table["packets"]
        for n, name in self._wanted(flows):
            these = of == name
            if these.any():
                yield n, name, delay[these], packets[these]

    def _packets(self, flows: Optional[Iterable[str]]) -> Iterator[Tuple[int, str, Dict[str, Any]]]:
        """Packets of the first replication, by flow."""
        table = self._result.packets
        of, first = table["flow"], table["replication"] == 0
        columns = {name: table[name] for name in ("arrival_ns", "start_ns", "end_ns")}
        # Squares exceed 32 bits.
        columns["bytes"] = table["bytes"].astype(np.float64)
        for n, name in self._wanted(flows):
            these = first & (of == name)
            if these.any():
                yield n, name, {key: column[these] for key, column in columns.items()}

    def _wanted(self, flows: Optional[Iterable[str]]) -> Iterator[Tuple[int, str]]:
        known = list(self._result.flows["flow"])
        for name in known if flows is None else flows:
            if name not in known:
                raise KeyError(f"there is no flow {name!r}; there are {', '.join(map(repr, known))}")
            yield known.index(name), name

    def _intervals(self, ax: Axes, n: int, name: str, longer: bool) -> None:
        flows = self._result.flows
        row = list(flows["flow"]).index(name)
        for quantile, share in [("delay_p50_ns", 0.5), ("delay_p99_ns", 0.99), ("delay_p999_ns", 0.999)]:
            middle, half = flows[quantile][row] / 1e6, flows[f"{quantile}_half_width"][row] / 1e6
            if half > 0:
                y = 1 - share if longer else share
                ax.hlines([y], [max(middle - half, 0)], [middle + half], color=_style(n)["color"], linewidth=4, alpha=0.35)

    def _edges(self, parts: int) -> Any:
        if parts < 1:
            raise ValueError(f"a run has one part or more, not {parts}")
        return np.linspace(0, self._result.duration_ns, parts + 1)

    def _guaranteed(self, flow: str, plan: Plan) -> Tuple[float, float]:
        flows = self._result.flows
        row = list(flows["flow"]).index(flow)
        own = flow.split(" ")[0].split(".")[-1]
        for way in plan.details["directions"]:
            for told in way["flows"]:
                ours = (way["link"], way["direction"], told["flow"]) == (flows["link"][row], flows["way"][row], own)
                if ours and "rate" in told and not told["shared"]:
                    return told["rate"], told["latency_ns"]
        raise ValueError(f"{flow!r} has no guaranteed rate of its own")


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
