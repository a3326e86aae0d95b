#!/bin/sh
# Init of a guest that sends and receives traffic. Each line that arrives at its second serial port is either `clock`, a
# request for the guest's time, or the plan of one end of the traffic. Without a line for ten minutes the guest ends.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2> /dev/null
for n in 0 1 2 3 4 5 6 7 8; do
    [ -e /modules/$n.ko ] && insmod /modules/$n.ko
done
stty -F /dev/ttyS1 raw -echo
exec < /dev/ttyS1 > /dev/ttyS1
# The kernel's command line sets `address`, `uplink` and `mac` (the uplink's), and the kernel puts them into the
# environment of this program.
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
ip link set lo up
ip addr add "$address/24" dev eth0
ip link set eth0 up
arp -s "$uplink" "$mac"
falaj="/bin/falaj"
[ -e /lib/loader ] && falaj="/lib/loader --library-path /lib /bin/falaj"
echo "ready $(ls /sys/class/net | grep -c eth0)"
while read -t 600 -r line; do
    if [ "$line" = clock ]; then
        echo "clock $(cut -d ' ' -f 1 /proc/uptime)"
    else
        printf "%s" "$line" | $falaj traffic-end > /tmp/report 2> /tmp/fault
        echo "done $? $(cat /tmp/fault)"
    fi
done
poweroff -f
