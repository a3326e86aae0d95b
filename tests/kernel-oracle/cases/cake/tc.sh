tc qdisc add dev falaj0 root cake bandwidth 10mbit besteffort flows raw
