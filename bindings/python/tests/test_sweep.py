import pytest

import falaj
from falaj import sweeping

AXES = {"link.uplink.rate": ["10mbit", "20mbit"], "scheduler": ["drr", "fifo"]}


def test_each_combination_is_simulated(scenario):
    table = falaj.sweep(scenario, AXES, replications=3, duration="200ms")
    assert table.columns[:5] == ["link.uplink.rate", "link.uplink.scheduler.kind", "link", "way", "flow"]
    rows = table.to_dicts()
    assert [(r["link.uplink.rate"], r["link.uplink.scheduler.kind"], r["flow"]) for r in rows[:3]] == [
        ("10mbit", "drr", "voice"), ("10mbit", "drr", "rest"), ("10mbit", "fifo", "voice")]
    assert len(rows) == 8 and len({r["offered"] for r in rows if r["flow"] == "rest"}) == 1
    assert rows[1]["delay_mean_ns"] > rows[5]["delay_mean_ns"]
    # A point equals a simulation of the scenario with those values.
    point = scenario.set({"uplink.rate": "20mbit", "uplink.scheduler.kind": "drr"})
    alone = point.simulate(replications=3, duration="200ms", warm_up=0).flows.to_dicts()[1]
    assert rows[5]["delay_mean_ns"] == pytest.approx(alone["delay_mean_ns"])
    assert rows[5]["delay_mean_ns_half_width"] == pytest.approx(alone["delay_mean_ns_half_width"])


def test_shards_merge_to_the_bytes_of_one(scenario, tmp_path):
    sweep = falaj.Sweep(scenario, AXES, replications=2, duration="50ms")
    assert (sweep.points, sweep.tasks) == (4, 8)
    files = []
    for n in (3, 1, 2):
        files.append(tmp_path / f"{n}.jsonl")
        files[-1].write_text(sweep.run(f"{n}/3"))
    assert sweeping.merge(files) == sweeping.merge([*reversed(files), files[0]]) == sweep.run()
    with pytest.raises(falaj.SweepError, match="of 8 tasks are missing"):
        sweeping.table(files[0].read_text())
    files[0].write_text(falaj.Sweep(scenario, AXES, replications=2, duration="50ms", seed=9).run("3/3"))
    with pytest.raises(falaj.SweepError, match="do not belong together: seeds"):
        sweeping.merge(files)


def test_what_is_wrong_is_said_before_anything_runs(scenario):
    with pytest.raises(falaj.SweepError, match="no table of the scenario has such a key"):
        falaj.sweep(scenario, {"nowhere.rate": ["1mbit"]})
    with pytest.raises(falaj.ScenarioError, match="with uplink.rate=5"):
        falaj.sweep(scenario, {"uplink.rate": [5]})
    with pytest.raises(TypeError, match="a list of values is needed"):
        falaj.sweep(scenario, {"uplink.rate": "1mbit"})
    with pytest.raises(falaj.SweepError, match="has no values"):
        falaj.sweep(scenario, {"uplink.rate": []})
    with pytest.raises(ValueError, match="is not a shard"):
        falaj.Sweep(scenario, AXES).run("0/3")


def test_numbers_stay_numbers(scenario):
    table = falaj.sweep(scenario, {"run.seed": [3, 4]}, replications=1, duration="50ms")
    assert list(table["run.seed"]) == [3, 3, 4, 4]


def test_goodput_is_that_of_connections(scenario):
    with_tcp = scenario.set({"traffic.load.model": "tcp", "traffic.load.rate": None, "traffic.load.size": "1514B"})
    rows = falaj.sweep(with_tcp, {"uplink.rate": ["5mbit", "10mbit"]}, replications=3, duration="3s", warm_up="1s").to_dicts()
    voice, slow, fast = rows[0], rows[1], rows[3]
    assert voice["goodput"] is None and slow["goodput_half_width"] >= 0
    # Payload is 1460 of 1514 bytes.
    for row in (slow, fast):
        assert row["goodput"] == pytest.approx(row["delivered_rate"] * 1460 / 1514, rel=0.02)
    r = with_tcp.simulate(replications=3, duration="3s", warm_up="1s")
    assert r.flows["goodput"][1] == pytest.approx(r.connections["goodput"][0]) == pytest.approx(fast["goodput"])
    assert r.flows["goodput_half_width"][1] == pytest.approx(fast["goodput_half_width"])
