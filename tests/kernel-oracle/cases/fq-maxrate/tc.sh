tc qdisc add dev falaj0 root handle 1: tbf rate 10mbit burst 1600 limit 100kb
tc qdisc add dev falaj0 parent 1: handle 2: fq limit 1000 flow_limit 60 maxrate 4mbit quantum 3028 initial_quantum 15140
