tc qdisc add dev falaj0 root handle 1: tbf rate 10mbit burst 1600 limit 100kb
tc qdisc add dev falaj0 parent 1: handle 2: prio
tc filter add dev falaj0 parent 2: protocol ip prio 1 u32 match ip dport 5001 0xffff flowid 2:1
tc filter add dev falaj0 parent 2: protocol ip prio 2 u32 match u32 0 0 flowid 2:2
tc qdisc add dev falaj0 parent 2:1 pfifo limit 1000
tc qdisc add dev falaj0 parent 2:2 pfifo limit 1000
