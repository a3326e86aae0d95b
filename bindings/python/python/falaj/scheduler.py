"""Schedulers written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Protocol, Union

from ._falaj import Queues

__all__ = ["Link", "Queues", "Scheduler", "Wait"]


@dataclass(frozen=True)
class Link:
    """One direction of a link, for which a scheduler is created.

    Attributes:
        flows: The names of the flows; methods identify a flow by its index in this list, from 0.
        limits: The limit of each flow's queue, as a text with a unit.
        rate: Rate in bits per second.
        largest: Length of the largest packet in bytes, as the link accounts it.
    """

    flows: List[str]
    limits: List[str]
    rate: int
    largest: int


@dataclass(frozen=True)
class Wait:
    """An answer of `Scheduler.next`: send nothing before this instant, in nanoseconds; then `next` is called again."""

    until: int


class Scheduler(Protocol):
    """Methods of a class that replaces a built-in discipline. Only `next` is required.

    falaj keeps the packets; a scheduler only decides which flow is served. Instants are nanoseconds of simulated time. Each replication has its own
    instance, which is called by one thread at a time. A class with `work_conserving = True` must never wait while a
    packet is queued; this is checked.

    Such a scheduler is for learning and experiments: it takes one or two microseconds for each packet, ten times as long as a
    built-in discipline.
    """

    def __init__(self, link: Link) -> None:
        """Creates the scheduler of this direction of a link."""

    def arrive(self, flow: int, size: int, now: int) -> None:
        """A packet of `size` bytes joins the queue of `flow`. Optional."""

    def next(self, queues: Queues, now: int) -> Union[int, None, Wait]:
        """Returns the flow to serve when the link is free, None if there is nothing to send, or `Wait`.

        It must not change the state of the scheduler, since it may be called twice.
        """

    def served(self, flow: int, size: int, start: int, end: int) -> None:
        """The transmission of the head-of-line packet of `flow` begins: charge its `size` bytes to the flow now. The packet counts as queued until `end`. Optional."""
