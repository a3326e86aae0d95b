# One line makes a scheduler and a link of 5 Mbit/s for each customer, where calls have ten times the weight
# of the customer's other traffic. As in Rizzo's talk; try
# `falaj import ipfw examples/dummynet/customers.sh`.
ipfw pipe 5 config bw 5Mbit/s
ipfw sched 5 config type qfq mask src-ip 0xffffffff
ipfw queue 1 config sched 5 weight 10
ipfw queue 2 config sched 5 weight 1
ipfw add queue 1 udp from any to any dst-port 5004 out
ipfw add queue 2 ip from any to any out
