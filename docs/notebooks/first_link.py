# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A first link
#
# Two kinds of traffic share 10 Mbit/s: calls, which need a short delay, and downloads, which accept any rate. This notebook
# shows the delay of each.

# %%
import falaj

scenario = falaj.Scenario.build({
    "link": {"uplink": {
        "rate": "10mbit",
        "flow": {"voice": {"match": "udp dport 5004"}, "rest": {"match": "any"}},
    }},
    "traffic": {
        "calls": {"flow": "voice", "model": "cbr", "rate": "1mbit", "size": "200B"},
        "downloads": {"flow": "rest", "model": "poisson", "rate": "8.5mbit", "size": "1500B"},
    },
    "run": {"duration": "2s"},
})
print(scenario.text)

# %% [markdown]
# This is the scenario as a file; `falaj sim`, `falaj plan` and `falaj run` read the same file. Eight replications give an interval
# beside each mean.

# %%
result = scenario.simulate(replications=8)
result.flows.to_pandas()[["flow", "offered", "loss", "delay_mean_ns", "delay_mean_ns_half_width", "delay_p99_ns"]]

# %% [markdown]
# Both wait in the same queue, so the calls wait behind the downloads: the curves lie close to each other.

# %%
result.plot.delay_ccdf();

# %% [markdown]
# Deficit round robin gives each kind of traffic turns of its own.

# %%
divided = scenario.set({"link.uplink.scheduler": {"kind": "drr"}}).simulate(replications=8)
divided.plot.delay_ccdf();

# %%
mean = lambda result, flow: result.flows["delay_mean_ns"][list(result.flows["flow"]).index(flow)]
assert mean(divided, "voice") < mean(result, "voice") / 2
