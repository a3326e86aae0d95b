"""Sweeps: a scenario with other values, each combination."""

from __future__ import annotations

import os
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _falaj, clusters, units
from .scenario import Scenario
from .table import Table
from .units import Duration, nanoseconds


# The places where tasks may run.
ENGINES = ("local", "ray")


class Sweep:
    """A scenario with each combination of some values, replicated: tasks that any machine may do.

    What comes of a task follows from the sweep and its number alone. The files are those of `falaj sweep`.
    """

    def __init__(
        self,
        scenario: Union[Scenario, str, os.PathLike[str]],
        axes: Mapping[str, Sequence[Any]],
        *,
        replications: Optional[int] = None,
        duration: Optional[Duration] = None,
        warm_up: Duration = 0,
        seed: Optional[int] = None,
    ) -> None:
        """See `sweep`."""
        scenario = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
        if replications is not None and not 1 <= replications <= 10_000:
            raise ValueError(f"{replications} replications; 1 to 10000 are allowed")
        for key, values in axes.items():
            if isinstance(values, str):
                raise TypeError(f"{key}: a list of values is needed, and {values!r} is one: write [{values!r}]")
        self._inner = _falaj.Sweep(
            scenario.text,
            scenario._inner.file,
            [(key, list(values)) for key, values in axes.items()],
            replications,
            seed,
            (None if duration is None else nanoseconds(duration), units.warm_up(warm_up)),
        )

    @property
    def points(self) -> int:
        """How many combinations there are."""
        return self._inner.points

    @property
    def tasks(self) -> int:
        """How many tasks: each point, each replication."""
        return self._inner.tasks

    @property
    def text(self) -> str:
        """What `falaj sweep plan` writes."""
        return self._inner.text

    def run(self, shard: str = "1/1", *, engine: str = "local") -> str:
        """Simulates the tasks of a shard, `"2/8"` for the second of eight; returns the lines that `falaj sweep run` writes.

        Args:
            shard: Which part.
            engine: As of `sweep`; the lines are the same.
        """
        if engine not in ENGINES:
            raise ValueError(f"{engine!r} is no engine: " + " and ".join(map(repr, ENGINES)) + " are")
        if engine == "ray":
            return clusters.run(self._inner, shard)
        return self._inner.run(shard)

    def __repr__(self) -> str:
        return f"Sweep({self.points} points, {self.tasks} tasks)"


def merge(shards: Iterable[Union[str, os.PathLike[str]]]) -> str:
    """Lays the files of shards together, in any order, one twice or not; returns the lines.

    Raises:
        SweepError: They do not belong together, or a file is not whole.
        OSError: One cannot be read.
    """
    read: List[Tuple[str, str]] = []
    for path in shards:
        with open(path, encoding="utf-8") as file:
            read.append((os.fspath(path), file.read()))
    return _falaj.merge(read)


def table(lines: str) -> Table:
    """A line for each point and flow of a sweep whose tasks are all done; see `sweep`.

    Raises:
        SweepError: Tasks are missing.
    """
    return Table(_falaj.table(lines, "sweep"))


def sweep(
    scenario: Union[Scenario, str, os.PathLike[str]],
    axes: Mapping[str, Sequence[Any]],
    *,
    replications: Optional[int] = None,
    duration: Optional[Duration] = None,
    warm_up: Duration = 0,
    seed: Optional[int] = None,
    engine: str = "local",
) -> Table:
    """Simulates a scenario with each combination of values; Ctrl-C ends it.

    Packets are the same at every point as far as sources are.

    Args:
        scenario: A scenario, or its file.
        axes: Values by key, as `Scenario.set` takes keys: `{"link.uplink.rate": ["10mbit", "20mbit"]}`. A text for a
            key `scheduler` is its kind. The later ones change fastest.
        replications: Independent runs of each, 1 to 10000; else the scenario's.
        duration: Simulated time of each, `"10s"` or seconds; else the scenario's.
        warm_up: How much of each is not counted.
        seed: Where random numbers begin; else the scenario's.
        engine: `"local"`: on all cores of this machine. `"ray"`: on the Ray cluster that this process is connected to, or that
            `RAY_ADDRESS` names, or that runs here; the same falaj is installed on its machines, and files that the scenario
            names stand at the same paths. What comes out is the same, to the byte.

    Returns:
        A line for each point and flow: the value of each key, `link`, `way`, `flow`, and what `Result.replications`
        has, as mean over the replications with `…_half_width`, half of its 95 % interval.

    Raises:
        SweepError: No such key, or more than 100000 points; no cluster.
        ImportError: `"ray"` without Ray: `pip install 'falaj[ray]'`.
        ScenarioError: A scenario would be wrong, with which values. Nothing has run then.
    """
    asked = Sweep(scenario, axes, replications=replications, duration=duration, warm_up=warm_up, seed=seed)
    return table(asked.run(engine=engine))
