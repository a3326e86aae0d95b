tc qdisc add dev falaj0 root netem loss gemodel 1% 10% 70% 0.1%
