"""What may be wrong."""

from __future__ import annotations

from typing import Optional


class ScenarioError(ValueError):
    """A scenario cannot be used.

    Its text is what `falaj check` prints: all that is wrong, each with its line of the file and what to write instead. The
    attributes are of the first problem.

    Attributes:
        file: The name of the file.
        line: The line, from 1; None where the file as a whole is wrong.
        column: The column in characters, from 1.
        message: What is wrong, in one line.
        help: What to write, what is allowed; one line each.
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
    """A scenario can be used, but this is hardly what was meant."""


class UnknownKey(KeyError):
    """A scenario has no such key, or several that could be meant."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SchedulerError(RuntimeError):
    """A scheduler of Python's broke the contract: it served a flow without packets, or waited for ever."""


class SweepError(ValueError):
    """A sweep cannot be made, or shards do not belong together, or tasks are missing."""
