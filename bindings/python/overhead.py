"""Measures the time that Python adds to a simulation: for tables as data frames, and for keeping each packet.

    python bindings/python/overhead.py [MILLIONS]

The scenario is a link of 1 Gbit/s with DRR and two Poisson flows of 500 Mbit/s each; ten million packets by default. Prints the
shortest of five runs of each case.
Install the package by `pip install ./bindings/python` first.
"""

import sys
from time import perf_counter

import falaj

REPEAT = 5


def scenario(millions: float) -> falaj.Scenario:
    flows = {"a": {"match": "udp dport 5000", "queue": "20p"}, "b": {"match": "any", "queue": "20p"}}
    link = {"rate": "1gbit", "layer": "payload", "mtu": "1528B", "scheduler": {"kind": "drr"}, "flow": flows}
    load = {"model": "poisson", "rate": "500mbit", "size": "500B"}
    traffic = {name: {"flow": name, **load} for name in flows}
    duration = f"{round(millions * 4_000_000)}us"
    return falaj.Scenario.build({"run": {"duration": duration}, "link": {"l": link}, "traffic": traffic})


def least(act):
    """Returns the shortest time of several runs, in seconds, and the result of the last run."""
    times = []
    for _ in range(REPEAT):
        began = perf_counter()
        result = act()
        times.append(perf_counter() - began)
    return min(times), result


def main(millions: float) -> None:
    whole, short = scenario(millions), scenario(1e-4)

    def run(of: falaj.Scenario, **more) -> falaj.Result:
        return of.simulate(replications=1, warm_up=0, **more)

    def tables(result: falaj.Result):
        return [table.to_pandas() for table in (result.flows, result.replications, result.delays)]

    run(short)
    tables(run(short))  # imports pandas
    call, _ = least(lambda: run(short))
    plain, result = least(lambda: run(whole))
    framed, frames = least(lambda: tables(result))
    kept, result = least(lambda: run(whole, packets=True))
    pandas, frame = least(lambda: result.packets.to_pandas())
    polars, _ = least(lambda: result.packets.to_polars())
    packets = int(frames[0]["offered"].sum())
    print(f"{packets} packets came, {len(frame)} left; milliseconds, the least of {REPEAT}")
    for what, seconds in [
        ("the run", plain),
        ("a call, whatever it simulates", call),
        ("flows, replications and delays as data frames of pandas", framed),
        ("each packet kept, beyond the run", kept - plain),
        ("each packet as a data frame of pandas", pandas),
        ("each packet as a data frame of Polars", polars),
    ]:
        print(f"{seconds * 1e3:10.1f}  {what}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
