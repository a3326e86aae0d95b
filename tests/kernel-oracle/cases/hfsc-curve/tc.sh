tc qdisc add dev falaj0 root handle 1: tbf rate 10mbit burst 1600 limit 100kb
tc qdisc add dev falaj0 parent 1: handle 2: hfsc default 20
tc class add dev falaj0 parent 2: classid 2:10 hfsc rt m1 6mbit d 10ms m2 1mbit ls rate 1mbit
tc class add dev falaj0 parent 2: classid 2:20 hfsc ls rate 9mbit
tc qdisc add dev falaj0 parent 2:10 pfifo limit 50
tc qdisc add dev falaj0 parent 2:20 pfifo limit 50
tc filter add dev falaj0 parent 2: protocol ip prio 1 u32 match ip dport 5001 0xffff flowid 2:10
