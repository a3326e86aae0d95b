tc qdisc add dev falaj0 root netem rate 10mbit limit 50
