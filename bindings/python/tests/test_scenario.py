import pytest

import falaj

ROOMY = {"link": {"uplink": {"rate": "10mbit", "scheduler": {"kind": "drr"}, "flow": {
    "voice": {"match": "udp dport 5004", "quantum": "1514B"},
    "rest": {"match": ["tcp", "any"]},
}}}, "traffic": {"load": {"flow": "rest", "model": "cbr", "rate": "1mbit", "size": "500B"}}, "run": {"replications": 2}}


def test_a_file_is_read(scenario, file):
    assert scenario.links == {"uplink": {"up": ["voice", "rest"], "down": ["voice", "rest"]}}
    assert scenario.text == file.read_text()
    with pytest.raises(FileNotFoundError):
        falaj.Scenario.load(file.with_name("missing.toml"))


def test_what_is_wrong_is_said_with_its_place(file):
    text = file.read_text().replace('"10mbit"', '"10M"')
    with pytest.raises(falaj.ScenarioError) as wrong:
        falaj.Scenario.parse(text, "wrong.toml")
    error = wrong.value
    assert (error.file, error.line, error.column) == ("wrong.toml", 3, 8)
    assert "10M" in error.message and "write `10mbit` for bits" in error.help
    assert "wrong.toml:3:8" in str(error) and isinstance(error, ValueError)
    with pytest.raises(falaj.ScenarioError) as unsound:
        falaj.Scenario.parse("[[link", "cut.toml")
    assert unsound.value.line == 1


def test_a_scenario_is_built_of_dicts_by_the_same_parser():
    scenario = falaj.Scenario.build(ROOMY)
    assert scenario.links["uplink"]["up"] == ["voice", "rest"]
    assert "[link.uplink.flow.voice]" in scenario.text
    assert falaj.Scenario.parse(scenario.text).text == scenario.text
    wrong = {**ROOMY, "link": {"uplink": {"rate": 10_000_000}}}
    with pytest.raises(falaj.ScenarioError) as error:
        falaj.Scenario.build(wrong)
    assert "10000000" in str(error.value) and error.value.line is not None
    with pytest.raises(TypeError, match=r"link\.uplink\.rate: a set is not a value of a scenario"):
        falaj.Scenario.build({"link": {"uplink": {"rate": {1, 2}}}})
    with pytest.raises(TypeError, match="a key must be a text"):
        falaj.Scenario.build({"link": {1: {}}})


def test_values_are_set_by_their_keys(scenario):
    faster = scenario.set({"uplink.rate": "20mbit", "link.uplink.scheduler": {"kind": "drr"}})
    assert 'rate = "20mbit"' in faster.text and 'rate = "10mbit"' in scenario.text
    assert "scheduler" not in faster.set({"link.uplink.scheduler": None}).text
    with pytest.raises(falaj.UnknownKey, match="no table of the scenario has such a key"):
        scenario.set({"nowhere.rate": "1mbit"})
    with pytest.raises(falaj.ScenarioError, match="with uplink.rate = 5"):
        scenario.set({"uplink.rate": 5})


def test_what_is_hardly_meant_is_a_warning(file):
    text = file.read_text().replace('rate = "8mbit"', 'rate = "8mbit"\nstart = "5s"')
    with pytest.warns(falaj.ScenarioWarning):
        falaj.Scenario.parse(text)


def test_a_plan_has_bounds_and_says_why_it_is_refused(scenario, file):
    plan = falaj.plan(file)
    assert plan.admitted and plan.refusals == []
    assert list(plan.bounds["flow"]) == list(falaj.plan(scenario).bounds["flow"])
    drr = scenario.set({"link.uplink.scheduler": {"kind": "drr"}})
    voice = drr.plan().bounds.to_dicts()[0]
    assert voice["flow"] == "voice" and 0 < voice["rate"] < 10_000_000 and voice["delay_ns"] > 0
    assert "drr" in drr.plan().details["directions"][0]["scheduler"]
    refused = drr.set({"voice.requires": {"delay": "1us"}}).plan()
    assert not refused.admitted and "needs a delay of at most 1us" in refused.refusals[0]
