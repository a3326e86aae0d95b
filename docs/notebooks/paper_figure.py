# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A paper's figure: the wait in a queue, three ways
#
# Every textbook draws how the mean wait grows with the load: Pollaczek and Khinchine's formula for M/D/1 and M/M/1 (Kleinrock,
# Queueing Systems, volume 1, 1975, section 5.6). Here the mean wait is computed by the formula, by matrices and by simulation.
# A link with packets of one size that arrive at Poisson instants is an M/D/1 queue. The matrices approximate the fixed service
# time by an Erlang distribution of many steps.

# %%
import falaj
import matplotlib.pyplot as plt
import numpy as np
from falaj.queueing import Arrivals, PhaseType, Queue

loads = [0.3, 0.5, 0.7, 0.8, 0.9]
service = 1000 * 8 / 10e6  # seconds: 1000 B at 10 Mbit/s

formula = lambda rho, variation: rho / (1 - rho) * (1 + variation) / 2  # in units of the mean service time
by_matrices = [
    Queue(Arrivals.renewal(PhaseType.exponential(rho)), PhaseType.erlang(64, 64.0)).mean_wait for rho in loads
]

# %% [markdown]
# The sweep varies the rate of the source, so that the simulated link has the same loads. A delay is a wait plus a service time.

# %%
scenario = falaj.Scenario.build({
    "link": {"line": {"rate": "10mbit", "flow": {"all": {"match": "any", "queue": "100000p"}}}},
    "traffic": {"load": {"flow": "all", "model": "poisson", "rate": "5mbit", "size": "1000B"}},
    "run": {"duration": "30s", "replications": 10},
})
table = falaj.sweep(scenario, {"traffic.load.rate": [f"{round(rho * 10_000)}kbit" for rho in loads]})
simulated = table["delay_mean_ns"] / 1e9 / service - 1
half_width = table["delay_mean_ns_half_width"] / 1e9 / service

# %%
x = np.linspace(0.05, 0.92, 200)
figure, ax = plt.subplots(layout="constrained")
ax.plot(x, formula(x, 0), color="#0072b2", label="M/D/1, Pollaczek and Khinchine")
ax.plot(x, formula(x, 1), "--", color="#d55e00", label="M/M/1, the same")
ax.plot(loads, by_matrices, "s", mfc="none", color="#009e73", label="M/E64/1, matrices")
ax.errorbar(loads, simulated, half_width, fmt="k.", capsize=3, label="simulated, 95 %")
ax.set_xlabel("load")
ax.set_ylabel("mean wait [services]")
ax.set_ylim(0, 8)
ax.legend();

# %% [markdown]
# The next cell checks both results. The waits by matrices lie above M/D/1, because the squared coefficient of variation of 64
# steps is 1/64, not 0. The simulation agrees with the formula within three half-widths plus 2 %; the 2 % are for runs that start
# with an empty queue.

# %%
assert np.allclose(by_matrices, [formula(rho, 1 / 64) for rho in loads])
assert (abs(simulated - formula(np.array(loads), 0)) < 3 * half_width + 0.02 * simulated).all()
