"""Schedulers written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Protocol, Union

from ._falaj import Queues

__all__ = ["Link", "Queues", "Scheduler", "Wait"]


@dataclass(frozen=True)
class Link:
    """What a scheduler is made for: one direction of a link.

    Attributes:
        flows: The names of the flows; a flow is known by its place here, from 0.
        limits: The limit of each flow's queue, as a scenario has it.
        rate: Bits per second.
        largest: Bytes of the largest packet, as the link accounts it.
    """

    flows: List[str]
    limits: List[str]
    rate: int
    largest: int


@dataclass(frozen=True)
class Wait:
    """An answer of `Scheduler.next`: nothing before this instant, in nanoseconds; ask again then."""

    until: int


class Scheduler(Protocol):
    """What a class has that schedules in the place of a built-in discipline. Only `next` is needed.

    Packets stay with falaj: a scheduler names flows. Instants are nanoseconds of simulated time. Each replication has an instance
    of its own, and one is called by one thread at a time. A class that sets `work_conserving = True` says that it never waits
    while there is a packet, and is held to it.

    It is for learning and trying: a packet costs one or two microseconds, ten times what it costs a built-in discipline.
    """

    def __init__(self, link: Link) -> None:
        """For this direction of a link."""

    def arrive(self, flow: int, size: int, now: int) -> None:
        """A packet of so many bytes joins the queue of `flow`. Optional."""

    def next(self, queues: Queues, now: int) -> Union[int, None, Wait]:
        """The link is free: the flow whose head goes, None if there is nothing to send, or `Wait`.

        It changes nothing that counts: it may be asked twice.
        """

    def served(self, flow: int, size: int, start: int, end: int) -> None:
        """The head of `flow` goes on the wire: the moment to charge for it. It counts in its queue until `end`. Optional."""
