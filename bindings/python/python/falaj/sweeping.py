"""Sweeps: simulate a scenario with each combination of given values."""

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
    """The tasks of a sweep: each replication of a scenario with each combination of values. Any machine may run a task.

    The result of a task depends on the sweep and the task's number alone.
    The texts of the plan and of the results are those of `falaj sweep`.
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
                raise TypeError(f"{key}: a list of values is needed, and {values!r} is a single value: write [{values!r}]")
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
        """Number of combinations."""
        return self._inner.points

    @property
    def tasks(self) -> int:
        """Number of tasks: each replication of each point."""
        return self._inner.tasks

    @property
    def text(self) -> str:
        """The plan, as `falaj sweep plan` writes it."""
        return self._inner.text

    def run(self, shard: str = "1/1", *, engine: str = "local") -> str:
        """Simulates the tasks of a shard, `"2/8"` for the second of eight; returns the lines that `falaj sweep run` writes.

        Args:
            shard: The shard.
            engine: As for `sweep`; the lines are the same.
        """
        if engine not in ENGINES:
            raise ValueError(f"there is no engine {engine!r}; there are " + " and ".join(map(repr, ENGINES)))
        if engine == "ray":
            return clusters.run(self._inner, shard)
        return self._inner.run(shard)

    def __repr__(self) -> str:
        return f"Sweep({self.points} points, {self.tasks} tasks)"


def merge(shards: Iterable[Union[str, os.PathLike[str]]]) -> str:
    """Merges the files of shards, in any order; a file may be given twice. Returns the lines.

    Raises:
        SweepError: The files do not belong together, or a file is incomplete.
        OSError: A file cannot be read.
    """
    read: List[Tuple[str, str]] = []
    for path in shards:
        with open(path, encoding="utf-8") as file:
            read.append((os.fspath(path), file.read()))
    return _falaj.merge(read)


def table(lines: str) -> Table:
    """Returns a row for each point and flow of a sweep whose tasks are all done; see `sweep`.

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

    Sources other than TCP send the same packets at every point, unless a key of the sweep changes them.

    Args:
        scenario: A scenario, or the path of its file.
        axes: Values by key, with keys as for `Scenario.set`: `{"link.uplink.rate": ["10mbit", "20mbit"]}`. A text as
            the value of a key `scheduler` is the scheduler's kind. The last key varies fastest.
        replications: Independent runs of each point, 1 to 10000; by default the scenario's.
        duration: Simulated time of each run, `"10s"` or seconds; by default the scenario's.
        warm_up: Warm-up of each run, which is not counted.
        seed: Seed of random numbers; by default the scenario's.
        engine: `"local"`: on all cores of this machine. `"ray"`: on the Ray cluster that this process is connected to, or that
            `RAY_ADDRESS` names, or that runs here. Its machines need the same version of falaj, and the files that the
            scenario names at the same paths. The results are the same, to the byte.

    Returns:
        A row for each point and flow: the value of each key, `link`, `way`, `flow`, and the columns of
        `Result.replications`, as means over the replications with `…_half_width`, half of the 95 % interval.

    Raises:
        SweepError: There is no such key, or no cluster, or there are more than 100000 points.
        ImportError: `"ray"` without Ray: `pip install 'falaj[ray]'`.
        ScenarioError: A scenario would be invalid; the message has its values. Nothing has run then.
    """
    asked = Sweep(scenario, axes, replications=replications, duration=duration, warm_up=warm_up, seed=seed)
    return table(asked.run(engine=engine))
