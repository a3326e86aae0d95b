tc qdisc add dev falaj0 root netem delay 1ms duplicate 5%
