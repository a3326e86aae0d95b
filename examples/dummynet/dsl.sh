# A DSL line of two pipes: 256 kbit/s up, 4 Mbit/s down. As in Rizzo's talk; try
# `falaj import ipfw examples/dummynet/dsl.sh`.
ipfw pipe 1 config bw 256Kbit/s delay 20ms
ipfw pipe 2 config bw 4Mbit/s delay 20ms
ipfw add pipe 1 ip from any to any out
ipfw add pipe 2 ip from any to any in
