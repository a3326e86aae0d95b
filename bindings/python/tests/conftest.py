from pathlib import Path

import pytest

import falaj

ROOT = Path(__file__).parents[3]

SCENARIO = """
[link.uplink]
rate = "10mbit"

[link.uplink.flow.voice]
match = "udp dport 5004"

[link.uplink.flow.rest]
match = "any"

[traffic.calls]
flow = "voice"
model = "poisson"
rate = "1mbit"
size = "200B"

[traffic.load]
flow = "rest"
model = "poisson"
rate = "8mbit"
size = "1000B"

[run]
duration = "1s"
replications = 4
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "uplink.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def scenario(file):
    return falaj.Scenario.load(file)
