tc qdisc add dev falaj0 root netem delay 100us
