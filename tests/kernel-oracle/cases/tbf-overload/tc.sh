tc qdisc add dev falaj0 root tbf rate 10mbit burst 10kb limit 60kb
