tc qdisc add dev falaj0 root handle 1: htb default 20
tc class add dev falaj0 parent 1: classid 1:1 htb rate 10mbit ceil 10mbit burst 1600 cburst 1600
tc class add dev falaj0 parent 1:1 classid 1:10 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0
tc class add dev falaj0 parent 1:1 classid 1:20 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 1
tc qdisc add dev falaj0 parent 1:10 pfifo limit 50
tc qdisc add dev falaj0 parent 1:20 pfifo limit 50
tc filter add dev falaj0 parent 1: protocol ip prio 1 u32 match ip dport 5001 0xffff flowid 1:10
