# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Schedulers compared, one of them our own
#
# Four tenants share a link. One of them sends far more than its share. This notebook shows the delays of the other tenants
# under several schedulers.

# %%
import falaj
import matplotlib.pyplot as plt

tenants = ["a", "b", "c", "greedy"]
rate = {"a": "20mbit", "b": "15mbit", "c": "10mbit", "greedy": "200mbit"}
size = {"a": "300B", "b": "1500B", "c": "1500B", "greedy": "1500B"}
scenario = falaj.Scenario.build({
    "link": {"uplink": {
        "rate": "100mbit",
        "flow": {name: {"match": f"udp dport {5000 + n}", "queue": "100p"} for n, name in enumerate(tenants)},
    }},
    "traffic": {name: {"flow": name, "model": "poisson", "rate": rate[name], "size": size[name]} for name in tenants},
    "run": {"duration": "500ms", "replications": 6},
})

# %% [markdown]
# Sources send the same packets at every point of a sweep, so that schedulers are compared on equal terms.

# %%
kinds = ["fifo", "drr", "sfq", "wf2q+", "qfq"]
table = falaj.sweep(scenario, {"scheduler": kinds}).to_pandas()
table.pivot(index="link.uplink.scheduler.kind", columns="flow", values="delay_mean_ns").loc[kinds] / 1e6

# %% [markdown]
# A scheduler is a class with `next`, and optionally `arrive` and `served`, which report arrivals and transmissions. This one always
# serves the shortest queue: a flow that sends little is served at once, and no flow has a guarantee.

# %%
class ShortestQueue:
    work_conserving = True

    def __init__(self, link):
        self.link = link

    def next(self, queues, now):
        return min(queues.backlogged(), key=queues.bytes, default=None)


ours = scenario.simulate(schedulers={"uplink": ShortestQueue}).flows.to_pandas()
ours[["flow", "delivered_rate", "loss", "delay_mean_ns"]]

# %%
figure, ax = plt.subplots(layout="constrained")
for n, kind in enumerate(kinds):
    of = table[table["link.uplink.scheduler.kind"] == kind]
    ax.errorbar(of["flow"], of["delay_mean_ns"] / 1e6, of["delay_mean_ns_half_width"] / 1e6, fmt="os^vD"[n], label=kind, capsize=3)
ax.plot(ours["flow"], ours["delay_mean_ns"] / 1e6, "k*", label="shortest queue, in Python")
ax.set_yscale("log")
ax.set_ylabel("mean delay [ms]")
ax.legend();

# %%
delay = table.set_index(["link.uplink.scheduler.kind", "flow"])["delay_mean_ns"]
assert delay["fifo", "a"] > 5 * delay["drr", "a"]
assert ours.set_index("flow")["delay_mean_ns"]["a"] < delay["fifo", "a"]
