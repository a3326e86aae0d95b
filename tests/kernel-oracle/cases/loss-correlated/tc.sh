tc qdisc add dev falaj0 root netem loss 1% 25%
