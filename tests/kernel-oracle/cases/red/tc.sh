tc qdisc add dev falaj0 root handle 1: tbf rate 10mbit burst 1600 limit 100kb
tc qdisc add dev falaj0 parent 1: handle 2: red limit 200kb min 15kb max 45kb avpkt 1000 burst 25 probability 0.1 bandwidth 10mbit
