tc qdisc add dev falaj0 root netem delay 20ms 5ms
