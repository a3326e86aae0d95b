name wifi
bw 11Mbit/s
loss-level 0.95
prob delay
0 0.1
0.9 1.5
1 20
