# One host with a queue of weight 10, and a queue of weight 1 for each of the others, on one link. As in Rizzo's talk; try
# `falaj import ipfw examples/dummynet/weights.sh`.
ipfw pipe 5 config bw 10Mbit/s
ipfw sched 5 config type wf2q+
ipfw queue 1 config sched 5 weight 10
ipfw queue 2 config sched 5 weight 1 mask dst-ip 0x000000ff
ipfw add queue 1 ip from any to 10.0.0.1 out
ipfw add queue 2 ip from any to any out
