//! Each word of an accepted script matters: without it the scenario or the notes change, or the
//! script is refused.

use falaj_import::{Host, Imported, ipfw, tc};
use falaj_scenario::Diagnostics;

/// Scripts without a word that could be left out, such as an option with its default value.
const TC: &[&str] = &[
    "tc qdisc add dev a root netem delay 10ms 2ms 25% distribution normal loss 1% 20% duplicate 2% 10% corrupt 3% 5% reorder 4% 6% gap 3 limit 77 seed 5\n\
     tc qdisc add dev b root netem loss gemodel 1% 10% 70% 0.1% rate 1mbit 20 48 5 limit 50\n\
     tc qdisc add dev c root netem loss state 1% 10% 5% 50% 0.5% slot 20ms 30ms packets 5 bytes 6000",
    "tc qdisc add dev a root handle 1: stab mtu 2048 tsize 128 mpu 64 overhead 32 linklayer atm tbf rate 1mbit burst 2k/8 latency 50ms\n\
     tc qdisc add dev a parent 1: netem delay 3ms\n\
     tc qdisc add dev b root tbf rate 1mbit burst 2k limit 9000 mpu 64 overhead 8 peakrate 2mbit mtu 2000",
    "tc qdisc add dev a root handle 1: htb default 30 r2q 20 direct_qlen 5\n\
     tc class add dev a parent 1: classid 1:1 htb rate 100mbit burst 20k cburst 30k overhead 4\n\
     tc class add dev a parent 1:1 classid 1:10 htb rate 60mbit ceil 90mbit burst 21k cburst 31k prio 1 quantum 3000 overhead 4 mpu 64 mtu 1600\n\
     tc class add dev a parent 1:1 classid 1:20 htb rate 30mbit ceil 80mbit prio 2 overhead 4\n\
     tc class add dev a parent 1:1 classid 1:30 htb rate 10mbit overhead 4\n\
     tc qdisc add dev a parent 1:10 handle 10: netem delay 5ms limit 70\n\
     tc qdisc add dev a parent 10: fq_codel limit 500 flows 64 quantum 300 target 7ms interval 90ms noecn memory_limit 1mb drop_batch 8\n\
     tc qdisc add dev a parent 1:20 sfq limit 60 divisor 256 quantum 3000 perturb 10\n\
     tc qdisc add dev a parent 1:30 pfifo limit 40\n\
     tc filter add dev a parent 1: protocol ip prio 3 u32 match ip dst 10.0.0.0/8 match ip dport 80 0xffff flowid 1:10\n\
     tc filter add dev a parent 1: protocol ip prio 2 u32 match ip tos 0xb8 0xfc match ip dport 80 0xffff flowid 1:20\n\
     tc filter add dev a parent 1: protocol ip prio 1 flower ip_proto udp dst_port 80 src_ip 192.0.2.1 action drop",
    "tc qdisc add dev a root handle 1: hfsc default 20\n\
     tc class add dev a parent 1: classid 1:1 hfsc ls rate 9mbit ul rate 10mbit\n\
     tc class add dev a parent 1:1 classid 1:10 hfsc rt m1 4mbit d 10ms m2 2mbit ls rate 5mbit\n\
     tc class add dev a parent 1:1 classid 1:20 hfsc sc umax 1500b dmax 20ms rate 2mbit\n\
     tc qdisc add dev a parent 1:10 red limit 400000 min 31000 max 80000 avpkt 1000 burst 70 probability 0.05 bandwidth 5mbit ecn\n\
     tc qdisc add dev a parent 1:20 pie limit 300 target 10ms tupdate 20ms alpha 3 beta 21 ecn nobytemode\n\
     tc filter add dev a parent 1: handle 6 fw flowid 1:10",
    "tc qdisc add dev a root handle 1: ets bands 4 strict 1 quanta 3000 2000 priomap 2\n\
     tc filter add dev a parent 1: matchall flowid 1:1\n\
     tc qdisc add dev a parent 1:1 codel limit 90 target 6ms interval 80ms ecn",
    "tc qdisc add dev a root handle 1: qfq\n\
     tc class add dev a parent 1: classid 1:1 qfq weight 5 maxpkt 900\n\
     tc filter add dev a parent 1: protocol arp basic match 'cmp(u16 at 0 layer transport eq 7)' flowid 1:1\n\
     tc filter add dev a parent 1: protocol ipv6 matchall flowid 1:1",
    "tc qdisc add dev a ingress\n\
     tc filter add dev a parent ffff: protocol ip prio 2 u32 match ip src 10.0.0.0/8 action mirred egress redirect dev ifb0\n\
     tc filter add dev a parent ffff: protocol ip prio 1 u32 match ip sport 22 0xffff action pass\n\
     tc qdisc add dev ifb0 root netem delay 5ms",
    "tc qdisc add dev a root handle 1: tbf rate 9mbit burst 2k limit 9000\n\
     tc qdisc add dev a parent 1: fq_pie limit 500 flows 64 quantum 300 target 7ms tupdate 20ms alpha 3 beta 21 ecn ecn_prob 20 memory_limit 1mb nobytemode dq_rate_estimator",
    "tc qdisc add dev a root handle 1: tbf rate 9mbit burst 2k limit 9000\n\
     tc qdisc add dev a parent 1: fq limit 900 flow_limit 90 quantum 3000 initial_quantum 9000 maxrate 2mbit low_rate_threshold 1mbit refill_delay 30ms orphan_mask 511 buckets 64 timer_slack 1us horizon 2s horizon_drop defrate 1mbit\n\
     tc qdisc add dev b root fq maxrate 3mbit\n\
     tc qdisc add dev c root handle 1: tbf rate 9mbit burst 2k limit 9000\n\
     tc qdisc add dev c parent 1: fq maxrate 2mbit nopacing",
    "tc qdisc add dev a root cake bandwidth 9mbit rtt 50ms besteffort flows overhead 20 mpu 64 ptm memlimit 1mb nat wash ack-filter ingress fwmark 0xff no-split-gso\n\
     tc qdisc add dev b root cake bandwidth 8mbit diffserv4 dual-srchost ethernet ether-vlan satellite\n\
     tc qdisc add dev c root cake bandwidth 8mbit pppoe-ptm raw\n\
     tc qdisc add dev d root handle 1: tbf rate 9mbit burst 2k limit 9000\n\
     tc qdisc add dev d parent 1: cake bandwidth 5mbit besteffort flows",
    "tc qdisc add dev a root handle 1: prio\n\
     tc filter add dev a parent 1: protocol ip prio 1 u32 match ip dport 53 0xffff flowid 1:1\n\
     tc filter add dev a parent 1: protocol ip prio 2 u32 match ip protocol 17 0xff police rate 5mbit burst 20k/8 mtu 9000 index 3 drop flowid 1:2\n\
     tc filter add dev a parent 1: protocol ip prio 3 u32 match ip dport 80 0xffff police rate 4mbit burst 9k conform-exceed continue/ok flowid 1:1\n\
     tc filter add dev a parent 1: protocol ip matchall flowid 1:3\n\
     tc qdisc add dev a ingress\n\
     tc filter add dev a parent ffff: protocol ip matchall action police rate 1mbit burst 10k peakrate 2mbit mtu 3k conform-exceed drop/pipe action mirred egress redirect dev ifb0\n\
     tc qdisc add dev ifb0 root netem delay 5ms",
    "iptables -t mangle -F\n\
     iptables -t mangle -A OUTPUT -p udp -s 10.0.0.0/8 ! -d 192.0.2.1 --sport 7 --dport 53 -m length --length 0:99 -j MARK --set-mark 7\n\
     ip6tables -t mangle -A POSTROUTING -o a -m mark --mark 7 -m dscp --dscp-class EF -j MARK --set-xmark 0x10/0xf0\n\
     iptables -t mangle -I POSTROUTING -j MARK --or-mark 0x100\n\
     iptables -t mangle -A OUTPUT -p tcp -j MARK --set-mark 9\n\
     iptables -t mangle -D OUTPUT -p tcp -j MARK --set-mark 9\n\
     iptables -t mangle -A OUTPUT -s 10.0.0.0/8 -j QOS\n\
     iptables -t mangle -A QOS -m tos --tos 0x10/0x1c -j RETURN\n\
     iptables -t mangle -A QOS -p tcp -g QOS2\n\
     iptables -t mangle -A QOS -j MARK --or-mark 1\n\
     iptables -t mangle -A QOS2 -p tcp --dport 22 -j ACCEPT\n\
     iptables -t mangle -A QOS2 -j MARK --or-mark 2\n\
     tc qdisc add dev a root handle 1: htb default 10\n\
     tc class add dev a parent 1: classid 1:10 htb rate 1mbit\n\
     tc class add dev a parent 1: classid 1:20 htb rate 1mbit\n\
     tc filter add dev a parent 1: handle 0x10/0xf0 fw flowid 1:20",
    "ip netns exec n tc qdisc add dev a root cbs idleslope 98688 sendslope -901312 hicredit 153 locredit -1389",
];

const IPFW: &[&str] = &[
    "ipfw pipe 1 config bw 3Mbit/s delay 20 queue 30 plr 0.02 burst 9KB buckets 64 noerror mask src-ip 0xffffff00\n\
     ipfw add 200 prob 0.5 pipe 1 log tcp from 10.0.0.0/8 to not 192.0.2.1 80,443 in\n\
     ipfw add 100 set 2 skipto 300 udp from any 53 to any iplen 0-99\n\
     ipfw add 300 deny tcp from any to any tcpflags syn,!ack",
    "dnctl pipe 1 config bw 3Mbit/s\n\
     dnctl sched 1 config type fq_codel target 6ms interval 80ms quantum 1000 limit 900 flows 64 noecn\n\
     dnctl queue 1 config pipe 1 mask dst-ip 0xffffffff\n\
     ipfw add 20 queue 1 ip from any to any out",
    "dnctl pipe 1 config bw 2Mbit/s\n\
     dnctl sched 1 config type fq_pie target 6ms tupdate 20 max_burst 90ms max_ecnth 0.2 alpha 0.25 beta 1 ecn quantum 1000 limit 900 flows 64 drand\n\
     ipfw queue 1 config sched 1\n\
     ipfw add 20 queue 1 ip from any to any out",
    "ipfw pipe 1 config bw 3Mbit/s\n\
     ipfw queue 1 config pipe 1 weight 7 queue 20KB red 0.002/5000/15000/0.1 ecn\n\
     ipfw pipe 2 config bw 4Mbit/s\n\
     ipfw queue 2 config pipe 2 weight 5 pie target 9ms tupdate 20ms max_burst 70ms max_ecnth 0.3 alpha 0.5 beta 1 ecn capdrop ts\n\
     sysctl net.inet.ip.fw.one_pass=0\n\
     ipfw table 1 add 10.1.0.0/16 5\n\
     ipfw add 20 queue 1 ip from table(1) to any out dscp ef\n\
     ipfw add 30 queue 2 ip from me to any ipttl 9",
    "dnctl pipe 1 config delay 5\n\
     dnctl pipe 2 config delay 6\n\
     dummynet out quick inet6 proto tcp from 2001:db8::/32 port 7 to !2001:db8::1 port 80:90 pipe 1\n\
     pass in log proto udp from any to any port { 53 54 } dnpipe (1, 2)",
];

/// Words that may be left out, each with the reason: they repeat a default in the presence of other
/// words, or name a place a second time.
const IDLE: &[(&str, &str)] = &[
    ("add 200", "it has this number by itself"),
    ("200", "it has this number by itself"),
    ("300", "it has this number by itself"),
    ("any", "all addresses are meant"),
    ("ipfw", "a line of a file of rules"),
    ("dnctl", "a line of a file of rules"),
    ("ip", "all protocols are meant"),
    ("from any", "all addresses are meant"),
    ("random", "losses are random unless a model is named"),
    ("add", "a batch needs the verb, and so does tc"),
    ("cburst 30k", "the smaller bucket decides where nothing is borrowed"),
    ("tc", "as in a batch"),
    ("n", "the next word is the namespace then"),
    ("root", "as `parent` is missing too"),
    ("parent 1:", "filters are the root's, and classes above all others, unless it is said"),
    ("protocol ip", "`match ip` says it too"),
    ("ip prio", "EtherType 3 is all types, and `match ip` says it too"),
    ("prio 3", "filters without a preference come last"),
    ("prio 2", "filters without a preference come last"),
    ("-m length", "the option after it says so"),
    ("-m mark", "the option after it says so"),
    ("-m dscp", "the option after it says so"),
    ("-m tos", "the option after it says so"),
    ("-o a", "packets leave by this device"),
];

/// The scenario without its comments, which repeat the script; and the notes.
fn told(made: &Result<Imported, Diagnostics>) -> Option<(String, Vec<String>)> {
    let made = made.as_ref().ok()?;
    let lines = made.scenario.lines().filter(|line| !line.starts_with('#'));
    let notes = made.notes.problems().iter().map(|p| p.title.clone()).collect();
    Some((lines.collect::<Vec<_>>().join("\n"), notes))
}

/// The words that make no difference when they are removed, alone or with up to two words after
/// them; without those that [`IDLE`] allows.
fn idle(script: &str, import: &dyn Fn(&str) -> Result<Imported, Diagnostics>) -> Vec<String> {
    let whole = import(script);
    if let Err(errors) = &whole {
        panic!("{errors}");
    }
    let whole = told(&whole);
    let lines: Vec<Vec<&str>> =
        script.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut idle = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        for from in 0..line.len() {
            for to in from + 1..=(from + 3).min(line.len()) {
                let rest: Vec<&str> = [&line[..from], &line[to..]].concat();
                let mut less: Vec<String> = lines.iter().map(|line| line.join(" ")).collect();
                less[n] = rest.join(" ");
                if told(&import(&less.join("\n"))) == whole {
                    idle.push(format!("{}: {}", line.join(" "), line[from..to].join(" ")));
                }
            }
        }
    }
    idle.retain(|of| !IDLE.iter().any(|(word, _)| of.ends_with(&format!(": {word}"))));
    idle
}

#[test]
fn each_word_of_tc_counts() {
    let rate = falaj_scenario::parse_rate("1gbit").expect("a rate");
    let host = Host { rate: Some(rate), down: None };
    let import = |script: &str| tc(script, "script", &host);
    let idle: Vec<String> = TC.iter().flat_map(|script| idle(script, &import)).collect();
    assert!(idle.is_empty(), "{idle:#?}");
}

#[test]
fn each_word_of_ipfw_counts() {
    let import = |script: &str| ipfw(script, "script", None);
    let idle: Vec<String> = IPFW.iter().flat_map(|script| idle(script, &import)).collect();
    assert!(idle.is_empty(), "{idle:#?}");
}
