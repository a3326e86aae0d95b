"""Durations as arguments of functions."""

from __future__ import annotations

from typing import Union

from ._falaj import Scenario as _Scenario

Duration = Union[str, int, float]
"""A text with a unit as in a scenario (`"10s"`), or a number of seconds."""


def nanoseconds(duration: Duration) -> int:
    """Returns a duration in nanoseconds, above zero; ValueError otherwise. A text is read as in a scenario."""
    if isinstance(duration, str):
        text = duration.replace("\\", "\\\\").replace('"', '\\"')
        read = _Scenario(f'run.duration = "{text}"\nlink.link.rate = "1gbit"\n', "duration")
        return read.run[2]
    if not 0 < duration < 1e10:
        raise ValueError(f"a duration of {duration} s; it must be above zero, and finite")
    return max(1, round(duration * 1e9))


def warm_up(duration: Duration) -> int:
    """Returns a warm-up in nanoseconds, as `nanoseconds` does; a warm-up may also be 0."""
    return 0 if duration in (0, "0s") else nanoseconds(duration)
