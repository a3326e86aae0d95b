"""Errors and warnings."""

from __future__ import annotations

from typing import Optional


class ScenarioError(ValueError):
    """A scenario cannot be used.

    Its text is the output of `falaj check`: every problem, with its line of the file and a correction. The attributes
    describe the first error.

    Attributes:
        file: The name of the file.
        line: The line, from 1; None if the problem concerns the file as a whole.
        column: The column in characters, from 1.
        message: The problem, in one line.
        help: The correction, and the allowed values; one line each.
    """

    def __init__(
        self,
        text: str,
        *,
        file: str = "",
        line: Optional[int] = None,
        column: Optional[int] = None,
        message: str = "",
        help: str = "",
    ) -> None:
        super().__init__(text)
        self.file = file
        self.line = line
        self.column = column
        self.message = message
        self.help = help


class ScenarioWarning(UserWarning):
    """A scenario is valid, but probably not as intended."""


class UnknownKey(KeyError):
    """A scenario has no such key, or the key is ambiguous."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SchedulerError(RuntimeError):
    """A scheduler written in Python broke the contract: for example, it served a flow without packets, or did not end its wait while packets were queued."""


class SweepError(ValueError):
    """A sweep cannot be made, or shards do not belong together, or tasks are missing."""
