tc qdisc add dev falaj0 root tbf rate 10mbit burst 3028 limit 100kb
