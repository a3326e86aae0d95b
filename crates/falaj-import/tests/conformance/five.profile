# five milliseconds for each packet, and the bandwidth with it
name five
bw 8Mbit/s
samples 100
delay prob
5 0
5 1
