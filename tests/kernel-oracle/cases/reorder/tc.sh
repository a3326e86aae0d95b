tc qdisc add dev falaj0 root netem delay 10ms reorder 25%
