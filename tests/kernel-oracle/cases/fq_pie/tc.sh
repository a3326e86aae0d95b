tc qdisc add dev falaj0 root handle 1: tbf rate 10mbit burst 1600 limit 100kb
tc qdisc add dev falaj0 parent 1: handle 2: fq_pie limit 1000 flows 1024 quantum 1514 target 15ms tupdate 20ms noecn
