tc qdisc add dev falaj0 root handle 1: hfsc default 20
tc class add dev falaj0 parent 1: classid 1:1 hfsc sc rate 10mbit ul rate 10mbit
tc class add dev falaj0 parent 1:1 classid 1:10 hfsc sc rate 3mbit
tc class add dev falaj0 parent 1:1 classid 1:20 hfsc sc rate 7mbit
tc qdisc add dev falaj0 parent 1:10 pfifo limit 50
tc qdisc add dev falaj0 parent 1:20 pfifo limit 50
tc filter add dev falaj0 parent 1: protocol ip prio 1 u32 match ip dport 5001 0xffff flowid 1:10
