import os
import signal
import threading
import time

import numpy as np
import pytest

import falaj


def test_flows_are_measured_with_intervals(scenario):
    result = scenario.simulate(replications=5, warm_up=0)
    voice, rest = result.flows.to_dicts()
    assert (voice["flow"], rest["flow"], voice["replications"]) == ("voice", "rest", 5)
    # 1 Mbit/s in packets of 200 B is 3125 packets in five replications of one second; the
    # tolerance is four standard deviations.
    assert abs(voice["offered"] - 3125) < 4 * 3125**0.5
    assert voice["offered"] >= voice["delivered"] + voice["dropped"]
    assert rest["delay_p50_ns"] <= rest["delay_p99_ns"] <= rest["delay_max_ns"] * 1.001
    assert 0 < rest["delay_mean_ns_half_width"] < rest["delay_mean_ns"]
    assert scenario.simulate(replications=1).flows.to_dicts()[0]["delay_mean_ns_half_width"] is None
    each = result.replications
    assert len(each) == 10 and each["offered"][each["flow"] == "voice"].sum() == voice["offered"]
    assert each["delay_mean_ns"][each["flow"] == "rest"].mean() == pytest.approx(rest["delay_mean_ns"])
    assert (result.duration_ns, result.warm_up_ns) == (1_000_000_000, 0)


def test_what_comes_before_the_steady_state_is_not_counted(scenario):
    result = scenario.simulate(packets=True, warm_up="300ms")
    assert result.warm_up_ns == 300_000_000 < result.packets["end_ns"].min()
    assert result.flows["delivered"].sum() == len(result.packets)
    assert 0 <= scenario.simulate().warm_up_ns < 1_000_000_000 / 2
    with pytest.raises(ValueError, match="a warm-up of 1s is not shorter than the duration of 1s"):
        scenario.simulate(warm_up=1)


def test_the_same_seed_is_the_same_result_and_schedulers_see_the_same_packets(scenario):
    first, second = scenario.simulate().flows, scenario.simulate().flows
    assert first.to_dicts() == second.to_dicts()
    other = scenario.simulate(seed=77).flows
    assert list(other["offered"]) != list(first["offered"])
    drr = scenario.set({"link.uplink.scheduler": {"kind": "drr"}}).simulate().flows
    assert list(drr["offered"]) == list(first["offered"])


def test_replications_are_added_until_an_interval_is_narrow_enough(scenario):
    told = []
    result = scenario.simulate(until="rest.delay.mean ±3%", warm_up=0, progress=lambda n, of: told.append((n, of)))
    (until,) = result.until
    assert until == falaj.Until("rest.delay.mean ±3%", until.within, True) and 0 < until.within <= 0.03
    rest = result.flows.to_dicts()[1]
    assert rest["delay_mean_ns_half_width"] / rest["delay_mean_ns"] == pytest.approx(until.within)
    assert 10 <= rest["replications"] <= 1000 and told[-1] == (rest["replications"],) * 2
    # A run without a target, with the number of replications that were needed, has the same replications.
    again = scenario.simulate(replications=rest["replications"], warm_up=0)
    assert again.flows.to_dicts() == result.flows.to_dicts() and again.until == []


def test_there_may_be_too_few_replications_for_an_interval(scenario):
    result = scenario.simulate(until=["delay.mean +-0.01%", "loss ±50%"], replications=12)
    assert [until.reached for until in result.until][0] is False
    assert result.flows["replications"].max() == 12
    for until, why in [("delay.mean", "there is no `±`"), ("nobody.loss ±1%", "there is no flow `nobody`; there are `voice`, `rest`")]:
        with pytest.raises(ValueError, match=why):
            scenario.simulate(until=until)


def test_connections_are_told():
    tcp = falaj.Scenario.build({
        "link": {"x": {"rate": "10mbit", "delay": "20ms", "scheduler": {"kind": "fifo", "queue": "34p"}}},
        "traffic": {
            "a": {"model": "tcp", "congestion": "reno", "size": "1514B"},
            "b": {"model": "tcp", "size": "1514B", "bytes": "50kB", "pause": "1s", "sources": 2},
            "c": {"model": "cbr", "size": "214B", "rate": "80kbit"},
        },
    })
    a, b = tcp.simulate(replications=3, duration=20).connections.to_dicts()
    assert (a["traffic"], a["congestion"], a["connections"]) == ("a", "reno", 1)
    assert (b["traffic"], b["congestion"], b["connections"]) == ("b", "cubic", 2)
    assert 8e6 < a["goodput"] + b["goodput"] < 9.7e6 and a["goodput_half_width"] > 0
    assert 41_200_000 <= a["round_trip_min_ns"] < a["round_trip_p50_ns"] and a["completion_max_ns"] is None
    assert b["complete"] > 20 and b["completion_min_ns"] > 100_000_000 and a["retransmitted"] < a["segments"]


def test_packets_are_kept_and_make_the_same_delays(scenario):
    result = scenario.simulate(replications=2, packets=True)
    packets, flows = result.packets, result.flows.to_dicts()
    assert packets.columns == ["replication", "flow", "bytes", "arrival_ns", "start_ns", "end_ns"]
    delay = packets["end_ns"] - packets["arrival_ns"]
    assert delay.dtype == np.int64 and delay.shape == (len(packets),)
    for flow in flows:
        of = packets["flow"] == flow["flow"]
        assert delay[of].max() == flow["delay_max_ns"]
        means = [delay[of & (packets["replication"] == n)].mean() for n in (0, 1)]
        assert np.mean(means) == pytest.approx(flow["delay_mean_ns"])
    # 200 B take 160 us at 10 Mbit/s, and transmissions do not overlap.
    assert ((packets["end_ns"] - packets["start_ns"])[packets["bytes"] == 200] == 160_000).all()
    one = packets["replication"] == 0
    assert (packets["start_ns"][one][1:] >= packets["end_ns"][one][:-1]).all()
    with pytest.raises(ValueError, match=r"simulate\(packets=True\)"):
        scenario.simulate(replications=1).packets


def test_tables_are_handed_over_without_a_copy(scenario):
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    result = scenario.simulate(replications=1, packets=True)
    packets = result.packets
    first, second = packets["end_ns"], packets["end_ns"]
    assert first.ctypes.data == second.ctypes.data and not first.flags.writeable
    frame = packets.to_pandas()
    assert frame["end_ns"].to_numpy().ctypes.data == first.ctypes.data
    assert frame["flow"].dtype == "category" and list(frame["flow"]) == list(packets["flow"])
    table = packets.to_polars()
    assert table["end_ns"].to_numpy().ctypes.data == first.ctypes.data
    assert table["flow"].to_list() == list(packets["flow"])
    flows = result.flows
    assert polars.DataFrame(flows)["delay_mean_ns"].to_list() == list(flows["delay_mean_ns"])
    assert isinstance(flows.to_pandas(), pandas.DataFrame) and list(flows.to_pandas()["flow"]) == ["voice", "rest"]
    # The memory lives as long as an array uses it.
    total = first.sum()
    del result, packets, frame, table, second
    assert first.sum() == total


def test_numbers_out_of_range_are_refused(scenario):
    for wrong in [{"replications": 0}, {"replications": 10_001}, {"seed": -1}, {"seed": 2**64}, {"duration": 0},
                  {"duration": float("nan")}, {"duration": "5"}, {"duration": "0s"}]:
        with pytest.raises(ValueError):
            scenario.simulate(**wrong)
    with pytest.raises(ValueError, match=r"has no \[traffic.NAME\]"):
        falaj.Scenario.build({"link": {"a": {"rate": "1mbit"}}}).simulate()
    assert scenario.simulate(duration="250ms").duration_ns == scenario.simulate(duration=0.25).duration_ns == 250_000_000


def test_it_is_told_how_far_it_is_and_what_that_raises_ends_it(scenario):
    heard = []
    scenario.simulate(replications=3, progress=lambda done, of: heard.append((done, of)))
    assert heard == [(1, 3), (2, 3), (3, 3)]

    def enough(done, of):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        scenario.simulate(progress=enough)


def test_other_threads_run_while_it_simulates(scenario):
    counted = 0
    done = threading.Event()

    def simulate():
        try:
            scenario.simulate(replications=2, duration="20s")
        finally:
            done.set()

    worker = threading.Thread(target=simulate)
    worker.start()
    while not done.wait(0.001):
        counted += 1
    worker.join()
    assert counted > 0


def test_ctrl_c_ends_it(scenario):
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        scenario.simulate(replications=1000, duration="10000s")
    assert time.monotonic() - began < 60
    timer.join()


def test_pictures_are_drawn(scenario):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = scenario.simulate()
    ax = result.plot.delay_ccdf()
    assert [line.get_label() for line in ax.get_lines()] == ["voice", "rest"]
    for line in ax.get_lines():
        y = line.get_ydata()
        assert y[0] == 1 and (np.diff(y) <= 0).all() and (y > 0).all()
    rest = result.plot.delay_cdf(flows=["rest"]).get_lines()
    assert len(rest) == 1 and rest[0].get_ydata()[-1] == pytest.approx(1)
    result.plot.delay_means().figure.canvas.draw()
    result.plot.drops().figure.canvas.draw()
    with pytest.raises(ValueError, match=r"simulate\(packets=True\)"):
        result.plot.throughput()
    with pytest.raises(KeyError, match="there is no flow 'nobody'"):
        result.plot.delay_ccdf(flows=["nobody"])


def test_pictures_over_time_are_of_the_first_replications_packets(scenario):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = scenario.simulate(replications=2, packets=True, warm_up=0)
    packets = result.packets
    voice = (packets["replication"] == 0) & (packets["flow"] == "voice")
    # The sum of rates, each times its duration, equals the bytes.
    stairs = result.plot.throughput(flows=["voice"], parts=10).patches[0].get_data()
    assert (stairs.values * np.diff(stairs.edges)).sum() * 1e6 / 8 == pytest.approx(packets["bytes"][voice].sum())
    backlog = result.plot.backlog(flows=["voice"]).get_lines()[0].get_ydata()
    assert (backlog >= 0).all() and backlog[-1] == 0 and backlog.max() >= 0.2
    index = result.plot.fairness(parts=4).patches[0].get_data().values
    assert ((index > 0.5) & (index <= 1)).all()
    with pytest.raises(ValueError, match="'rest' has no guaranteed rate of its own"):
        result.plot.cumulative("rest", plan=scenario.plan())
    divided = scenario.set({"link.uplink.scheduler": {"kind": "drr"}})
    ax = divided.simulate(packets=True, warm_up=0).plot.cumulative("rest", plan=divided.plan())
    came, left, least = ax.get_lines()
    assert [line.get_label() for line in (came, left, least)] == ["arrivals", "departures", "served at least"]
    for x, y in zip(*least.get_data()):
        at = np.searchsorted(left.get_xdata(), x, side="right") - 1
        # `departures` does not yet count the packet in transmission, which has at most 1.5 kB.
        assert y <= left.get_ydata()[max(at, 0)] + 1.5
    result.plot.timeline().figure.canvas.draw()
    for wrong in [lambda: result.plot.throughput(parts=0), lambda: result.plot.cumulative("nobody")]:
        with pytest.raises((ValueError, KeyError)):
            wrong()
