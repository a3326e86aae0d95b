# Each packet takes one of two pipes at random. One pipe has more delay, so packets are reordered. As in Rizzo's talk; try
# `falaj import ipfw examples/dummynet/reordering.sh`.
ipfw pipe 1 config delay 100ms
ipfw pipe 2 config delay 10ms
ipfw add prob 0.3 pipe 1 ip from any to any out
ipfw add pipe 2 ip from any to any out
