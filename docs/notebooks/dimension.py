# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Dimension a link
#
# Packets of calls, at most 2 Mbit/s, must wait at most 3 ms, whatever other flows send. A plan computes the necessary rate of
# the link before anything runs: its bounds hold for all traffic within the envelope, not only for the simulated traffic.

# %%
import falaj
import matplotlib.pyplot as plt
import numpy as np

scenario = falaj.Scenario.build({
    "link": {"uplink": {
        "rate": "20mbit",
        "scheduler": {"kind": "drr"},
        "flow": {
            "voice": {
                "match": "udp dport 5004", "quantum": "1514B",
                "envelope": {"rate": "2mbit", "burst": "1kB"}, "requires": {"delay": "3ms"},
            },
            "rest": {"match": "any", "quantum": "3028B"},
        },
    }},
    "traffic": {
        "calls": {"flow": "voice", "model": "cbr", "rate": "2mbit", "size": "200B"},
        "flood": {"flow": "rest", "model": "poisson", "rate": "100mbit", "size": "1500B"},
    },
    "run": {"duration": "1s", "replications": 4},
})
falaj.plan(scenario).bounds.to_pandas()[["flow", "rate", "delay_ns", "formula", "limit"]].head(2)

# %%
rates = np.array([4, 6, 8, 10, 15, 20, 30, 40, 60])
plans = [scenario.set({"uplink.rate": f"{rate}mbit"}).plan() for rate in rates]
bound = np.array([plan.bounds["delay_ns"][0] for plan in plans]) / 1e6
fits = rates[[plan.admitted for plan in plans]]
print("too slow:", plans[0].refusals[0])
print(f"at least {fits[0]} Mbit/s")

# %% [markdown]
# The simulated delay lies below the bound, because the worst case is rare.

# %%
table = falaj.sweep(scenario, {"uplink.rate": [f"{rate}mbit" for rate in rates]})
seen = table["delay_max_ns"][table["flow"] == "voice"] / 1e6

figure, ax = plt.subplots(layout="constrained")
ax.plot(rates, bound, "o-", color="#d55e00", label="bound")
ax.plot(rates, seen, "s--", color="#0072b2", label="longest simulated")
ax.axhline(3, color="black", linestyle=":", label="what the calls need")
ax.set_xlabel("rate of the link [Mbit/s]")
ax.set_ylabel("delay of a call's packet [ms]")
ax.set_yscale("log")
ax.legend();

# %%
assert (seen <= bound).all()
assert 0 < len(fits) < len(rates) and not plans[0].admitted
