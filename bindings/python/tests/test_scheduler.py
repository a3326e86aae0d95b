import pytest

import falaj


class RoundRobin:
    """A packet of each flow in turn, as the built-in `rr` sends them with a quantum of 1."""

    work_conserving = True

    def __init__(self, link):
        self.link = link
        self.last = len(link.flows) - 1

    def next(self, queues, now):
        waiting = queues.backlogged()
        return min(waiting, key=lambda flow: (flow - self.last - 1) % len(queues), default=None)

    def served(self, flow, size, start, end):
        self.last = flow


class First:
    """First come first served, from the calls of `arrive` alone."""

    def __init__(self, link):
        self.line = []

    def arrive(self, flow, size, now):
        self.line.append((flow, size))

    def next(self, queues, now):
        return self.line[0][0] if self.line else None

    def served(self, flow, size, start, end):
        assert self.line.pop(0) == (flow, size) and end > start


def test_a_class_schedules_beside_the_built_in_ones(scenario):
    fifo = scenario.set({"link.uplink.scheduler": {"kind": "fifo", "queue": "100000p"}})
    long = scenario.set({"voice.queue": "100000p", "rest.queue": "100000p"})
    ours = long.simulate(schedulers={"uplink": First}, packets=True)
    theirs = fifo.simulate(packets=True)
    assert list(ours.packets["end_ns"]) == list(theirs.packets["end_ns"])
    turns = long.simulate(schedulers={"uplink": RoundRobin}).flows.to_dicts()
    assert turns[0]["delay_mean_ns"] < ours.flows.to_dicts()[0]["delay_mean_ns"]
    assert long.simulate(schedulers={"uplink": RoundRobin}).flows.to_dicts() == turns


def test_it_knows_what_it_is_made_for(scenario):
    made = []

    def maker(link):
        made.append(link)
        return RoundRobin(link)

    scenario.simulate(replications=1, schedulers={"uplink.up": maker})
    assert made[0].flows == ["voice", "rest"] and made[0].rate == 10_000_000 and made[0].largest >= 1500


def test_one_may_wait(scenario):
    class Slow(First):
        """Waits a millisecond from the beginning of the last packet."""

        until = 0

        def next(self, queues, now):
            flow = super().next(queues, now)
            return flow if flow is None or now >= self.until else falaj.Wait(self.until)

        def served(self, flow, size, start, end):
            super().served(flow, size, start, end)
            self.until = start + 1_000_000

    long = scenario.set({"voice.queue": "100000p", "rest.queue": "100000p"})
    start = long.simulate(replications=1, packets=True, schedulers={"uplink": Slow}).packets["start_ns"]
    assert len(start) > 500 and (start[1:] - start[:-1]).min() == 1_000_000


@pytest.mark.parametrize("answer, told", [
    (7, "it serves flow 7, and there are 2"),
    (None, "it waits for ever while"),
    (falaj.Wait(0), "it waits until"),
])
def test_what_breaks_the_contract_is_an_error(scenario, answer, told):
    class Wrong:
        def __init__(self, link):
            pass

        def next(self, queues, now):
            return answer

    with pytest.raises(falaj.SchedulerError, match=told):
        scenario.simulate(schedulers={"uplink": Wrong})


def test_what_it_raises_is_raised(scenario):
    class Forgetful(First):
        def served(self, flow, size, start, end):
            raise LookupError("what was I doing?")

    with pytest.raises(LookupError, match="what was I doing"):
        scenario.simulate(schedulers={"uplink": Forgetful})
    with pytest.raises(TypeError, match="it must return a flow's number"):
        scenario.simulate(schedulers={"uplink": type("Odd", (First,), {"next": lambda *_: "voice"})})
    with pytest.raises(TypeError, match="has no `next`"):
        scenario.simulate(schedulers={"uplink": lambda link: object()})
    with pytest.raises(ZeroDivisionError):
        scenario.simulate(schedulers={"uplink": lambda link: 1 / 0})
    with pytest.raises(falaj.UnknownKey, match="there is no link `elsewhere`; there is `uplink`"):
        scenario.simulate(schedulers={"elsewhere": First})
