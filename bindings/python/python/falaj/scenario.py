"""Scenarios: read, built, changed, simulated."""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _falaj, units
from .errors import ScenarioWarning, UnknownKey
from .planning import Plan
from .results import Result
from .units import Duration, nanoseconds


class Scenario:
    """Links, their schedulers and flows, the traffic, and the settings of a simulation.

    Created by `load`, `parse` or `build`; it is valid and immutable.
    """

    def __init__(self, inner: _falaj.Scenario) -> None:
        self._inner = inner

    @classmethod
    def _read(cls, text: str, file: str) -> Scenario:
        inner = _falaj.Scenario(text, file)
        if inner.warnings:
            warnings.warn(inner.warnings, ScenarioWarning, stacklevel=3)
        return cls(inner)

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Scenario:
        """Reads a scenario file.

        Raises:
            ScenarioError: The scenario is invalid; `line` and `column` are the position of the first error.
            OSError: The file cannot be read.
        """
        with open(path, encoding="utf-8") as file:
            return cls._read(file.read(), os.fspath(path))

    @classmethod
    def parse(cls, text: str, file: str = "scenario.toml") -> Scenario:
        """Reads the text of a scenario. `file` is the scenario's name in messages; files named in the scenario are searched in the folder of `file`.

        Raises:
            ScenarioError: The scenario is invalid.
        """
        return cls._read(text, file)

    @classmethod
    def build(cls, scenario: Mapping[str, Any], file: str = "scenario.toml") -> Scenario:
        """Builds a scenario from dicts with the keys of a scenario file: `{"link": {"uplink": {"rate": "10mbit"}}}`.

        Quantities are texts with units, as in the file. Flows are in the order of the dict. Keys with value None are left out.

        Raises:
            ScenarioError: The scenario is invalid; `line` and `column` are positions in the TOML text generated from the dicts.
                The message shows the line.
            TypeError: A value has a type that scenarios do not have; the message names its key.
        """
        return cls._read(_falaj.document(scenario), file)

    @property
    def text(self) -> str:
        """The scenario as TOML, the format of the scenario files of `falaj`."""
        return self._inner.text

    @property
    def links(self) -> Dict[str, Dict[str, List[str]]]:
        """The names of the flows, by link and direction (`up`, `down`)."""
        return {name: {"up": up, "down": down} for name, up, down in self._inner.links}

    def set(self, values: Optional[Mapping[str, Any]] = None, **more: Any) -> Scenario:
        """Returns a copy with other values, by key: `scenario.set({"link.uplink.rate": "20mbit"})`.

        A key may be shortened as long as it is unique (`uplink.rate`), as for `falaj set`; the value None removes the key.

        Raises:
            UnknownKey: There is no such key, or it is ambiguous.
            ScenarioError: The new scenario would be invalid.
        """
        pairs = list({**(values or {}), **more}.items())
        inner = self._inner.set(pairs)
        if inner.warnings and inner.warnings != self._inner.warnings:
            warnings.warn(inner.warnings, ScenarioWarning, stacklevel=2)
        return Scenario(inner)

    def plan(self) -> Plan:
        """Returns the guarantees of the scenario, before anything runs; see `falaj.plan`."""
        return Plan(self._inner)

    def simulate(
        self,
        *,
        replications: Optional[int] = None,
        duration: Optional[Duration] = None,
        warm_up: Optional[Duration] = None,
        seed: Optional[int] = None,
        until: Union[str, Sequence[str]] = (),
        packets: bool = False,
        schedulers: Optional[Mapping[str, Callable[..., Any]]] = None,
        progress: Optional[Callable[[int, int], Any]] = None,
    ) -> Result:
        """Simulates the scenario on all cores, without holding the interpreter's lock; Ctrl-C ends it.

        The same scenario and seed give the same result on any number of cores. Sources other than TCP send the same packets with
        any scheduler, so that two schedulers are compared on equal terms.

        Args:
            replications: Independent runs, 1 to 10000; by default the scenario's. With `until`, their maximum; by default 1000.
            duration: Simulated time of each run, `"10s"` or seconds; by default the scenario's.
            warm_up: Warm-up of each run, which is not counted; 0 for none. By default it is found by MSER-5, as for `falaj sim`,
                with the scenario's own schedulers.
            seed: Seed of random numbers, 0 or more; by default the scenario's.
            until: Add replications until a 95 % interval is this narrow, as `--until` of `falaj sim`: `"delay.mean ±1%"`,
                `"loss ±5%"`, `"voice.delay.p99 ±2%"`, or several; `+-` may replace `±`. See `Result.until` for the result.
            packets: Keep all packets, with 34 bytes of memory each.
            schedulers: For each direction of a link whose discipline a class replaces, the class. The key is `uplink` or `uplink.up`
                for the up direction of the link `uplink`, `uplink.down` for the down direction; see `falaj.Scheduler`.
            progress: Called after each replication with the number completed, and the total number, which may grow with `until`.

        Raises:
            ValueError: A number is out of range, `until` is invalid, or there is no traffic.
            SchedulerError: A scheduler broke the contract. Exceptions of a scheduler are raised here unchanged.
            KeyboardInterrupt: Ctrl-C.
        """
        own_replications, own_seed, own_duration = self._inner.run
        until = [until] if isinstance(until, str) else list(until)
        if replications is None:
            replications = 1000 if until else own_replications
        if not 1 <= replications <= 10_000:
            raise ValueError(f"{replications} replications; 1 to 10000 are allowed")
        seed = own_seed if seed is None else seed
        if not 0 <= seed < 2**64:
            raise ValueError(f"a seed of {seed}; 0 to 2**64 - 1 are allowed")
        inner = self._inner.simulate(
            (replications, seed, own_duration if duration is None else nanoseconds(duration)),
            None if warm_up is None else units.warm_up(warm_up),
            until,
            packets,
            [(*_direction(name), cls) for name, cls in (schedulers or {}).items()],
            progress,
        )
        return Result(inner)

    def __repr__(self) -> str:
        return f"Scenario({self._inner.file!r}: link {', '.join(self.links)})"


def _direction(name: str) -> Tuple[str, bool]:
    """Splits `uplink.down` into the link's name and True for up, False for down; without a direction, up."""
    link, dot, way = name.rpartition(".")
    if not dot:
        return name, True
    if way not in ("up", "down"):
        raise UnknownKey(f"{name!r} is no direction of a link: write \"{link}.up\" or \"{link}.down\"")
    return link, way == "up"


def plan(scenario: Union[Scenario, str, os.PathLike[str]]) -> Plan:
    """Returns the guarantees of a scenario, or of a scenario file.

    Raises:
        ScenarioError: The scenario is invalid.
        OSError: The file cannot be read.
    """
    return (scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)).plan()
