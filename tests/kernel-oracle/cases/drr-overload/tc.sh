tc qdisc add dev falaj0 root handle 1: tbf rate 10mbit burst 1600 limit 100kb
tc qdisc add dev falaj0 parent 1: handle 2: drr
tc class add dev falaj0 parent 2: classid 2:1 drr quantum 1514
tc class add dev falaj0 parent 2: classid 2:2 drr quantum 3028
tc qdisc add dev falaj0 parent 2:1 pfifo limit 50
tc qdisc add dev falaj0 parent 2:2 pfifo limit 50
tc filter add dev falaj0 parent 2: protocol ip prio 1 u32 match ip dport 5001 0xffff flowid 2:1
tc filter add dev falaj0 parent 2: protocol ip prio 2 u32 match u32 0 0 flowid 2:2
