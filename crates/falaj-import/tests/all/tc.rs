//! Scripts of `tc`, and the scenarios made from them.

use expect_test::{Expect, expect};
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::network::Network;
use falaj_import::{Host, tc};
use falaj_sched::units::time::Time;
use proptest::prelude::*;
use std::fmt::Write;
use std::net::SocketAddr;

fn becomes(script: &str, expected: Expect) {
    becomes_at(script, &Host::default(), expected);
}

fn becomes_at(script: &str, host: &Host, expected: Expect) {
    match tc(script, "tc.sh", host) {
        Ok(imported) => {
            let notes = imported
                .notes
                .problems()
                .iter()
                .map(|p| format!("# note: {}: {}\n", p.line, p.title));
            expected.assert_eq(&(notes.collect::<String>() + &imported.scenario));
        }
        Err(errors) => expected.assert_eq(&errors.to_string()),
    }
}

#[test]
fn netem() {
    becomes(
        "tc qdisc add dev eth0 root netem delay 100ms 10ms 25% distribution normal loss 0.3% 25% duplicate 1% corrupt 0.1% reorder 25% 50% gap 5",
        expect![[r##"
            # note: 1: falaj keeps the mean of correlated loss; netem loses far less than configured, often nothing
            # note: 1: here one of 5 packets overtakes others, with a probability of 25%; in netem, after 4 delayed packets, each packet has this probability until one overtakes, so more packets do
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root netem delay 100ms 10ms 25% distribution normal loss 0.3% 25% duplicate 1% corrupt 0.1% reorder 25% 50% gap 5
            [link.eth0.up]
            delay = "100ms"
            loss = { probability = "0.3%", correlation = "25%" }
            duplicate = { probability = "1%" }
            corrupt = { probability = "0.1%" }
            jitter = { amount = "10ms", distribution = "normal", correlation = "25%", order = "free" }
            reorder = { probability = "25%", correlation = "50%", gap = 5 }
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root netem rate 1mbit 20 48 5 limit 50 delay 10ms 1ms loss gemodel 1% 10% 70% 0.1%",
        expect![[r##"
            # note: 1: netem loses and duplicates packets before the rate, falaj after it: a lost packet has used the link
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root netem rate 1mbit 20 48 5 limit 50 delay 10ms 1ms loss gemodel 1% 10% 70% 0.1%
            [link.eth0.up]
            scheduler = { kind = "fifo", queue = "50p" }
            rate = "1mbit"
            overhead = "20B"
            cells = "atm"
            delay = "10ms"
            loss = { kind = "gilbert-elliott", to-bad = "1%", to-good = "10%", loss-bad = "70%", loss-good = "0.1%" }
            jitter = { amount = "1ms" }
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root netem loss state 1% 10% 5% 50% 0.5% slot 20ms 30ms packets 5 bytes 6000",
        expect![[r##"
        # packets that eth0 sends go up
        [link.eth0]
        rate = "unlimited"

        # tc qdisc add dev eth0 root netem loss state 1% 10% 5% 50% 0.5% slot 20ms 30ms packets 5 bytes 6000
        [link.eth0.up]
        loss = { kind = "four-states", p13 = "1%", p31 = "10%", p32 = "5%", p23 = "50%", p14 = "0.5%" }
        slot = { least = "20ms", most = "30ms", packets = 5, bytes = "6kB" }
    "##]],
    );
}

#[test]
fn a_bucket_with_a_delay_below() {
    becomes(
        "sudo tc qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 32kbit latency 400ms\ntc qdisc add dev eth0 parent 1:1 handle 10: netem delay 20ms",
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # sudo tc qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 32kbit latency 400ms
            # tc qdisc add dev eth0 parent 1:1 handle 10: netem delay 20ms
            [link.eth0.up]
            rate = "10mbit"
            burst = "4KiB"
            scheduler = { kind = "fifo", queue = "504096B" }
            delay = "20ms"
        "##]],
    );
}

/// The command of chaos-mesh for a bandwidth with a peak rate.
#[test]
fn a_bucket_with_a_peak_rate() {
    becomes(
        "tc qdisc add dev eth0 root handle 1: tbf rate 8mbit burst 10000 limit 20971520 peakrate 16mbit minburst 1600",
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: tbf rate 8mbit burst 10000 limit 20971520 peakrate 16mbit minburst 1600
            [link.eth0.up]
            rate = "8mbit"
            burst = "10kB"
            peak = { rate = "16mbit", burst = "1600B" }
            scheduler = { kind = "fifo", queue = "20MiB" }
        "##]],
    );
}

#[test]
fn what_comes_in_is_sent_by_another_device() {
    becomes(
        "modprobe ifb\nip link set ifb0 up\n\
         tc qdisc add dev eth0 handle ffff: ingress\n\
         tc filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0\n\
         tc qdisc add dev ifb0 root netem delay 50ms\n\
         tc qdisc add dev eth0 root netem delay 30ms loss 1%",
        expect![[r##"
            # note: 1: `modprobe` is not a command of tc, and was left out
            # note: 2: `ip` is not a command of tc, and was left out
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root netem delay 30ms loss 1%
            [link.eth0.up]
            delay = "30ms"
            loss = { probability = "1%" }

            # tc qdisc add dev ifb0 root netem delay 50ms
            [link.eth0.down]
            delay = "50ms"

            [[rule]]
            match = "ip"
            direction = "down"
            to = "eth0"

            [[rule]]
            direction = "down"
            to = "pass"

            [[rule]]
            direction = "up"
            to = "eth0"
        "##]],
    );
}

#[test]
fn classes_and_their_filters() {
    let host = Host { rate: Some(falaj_scenario::parse_rate("1gbit").unwrap()), down: None };
    becomes_at(
        "tc qdisc add dev eth0 root handle 1: drr\n\
         tc class add dev eth0 parent 1: classid 1:1 drr quantum 1500\n\
         tc class add dev eth0 parent 1: classid 1:2 drr quantum 3000\n\
         tc qdisc add dev eth0 parent 1:2 pfifo limit 30\n\
         tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match u32 0 0 flowid 1:2\n\
         tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff match \
         ip dport 5004 0xfffe flowid 1:1",
        &host,
        expect![[r#"
            error: flow `1-1`: a quantum of 1500 B is out of range
             --> tc.sh:2:1
              |
            2 | tc class add dev eth0 parent 1: classid 1:1 drr quantum 1500
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: at least 1514 B, the largest packet as the link accounts it; at most 1 GiB"#]],
    );
    becomes_at(
        "tc qdisc add dev eth0 root handle 1: drr\n\
         tc class add dev eth0 parent 1: classid 1:a drr quantum 3028\n\
         tc class add dev eth0 parent 1: classid 1:b drr\n\
         tc filter add dev eth0 parent 1: protocol ipv6 prio 1 u32 match ip6 dst 2001:db8::/32 flowid 1:a\n\
         tc filter add dev eth0 parent 1: protocol all prio 9 matchall flowid 1:b",
        &host,
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "1gbit"

            # tc qdisc add dev eth0 root handle 1: drr
            [link.eth0.up]
            scheduler = { kind = "drr" }

            [link.eth0.up.flow.1-a]
            match = "dst 2001:db8::/32"
            quantum = "3028B"
            queue = "1000p"

            [link.eth0.up.flow.1-b]
            match = "any"
            queue = "1000p"
        "##]],
    );
    becomes_at(
        "tc qdisc add dev eth0 root handle 1: prio\n\
         tc filter add dev eth0 parent 1: prio 1 flower ip_proto tcp dst_port 22 classid 1:1",
        &host,
        expect![[r##"
            # note: 1: only filters and the type of service of IPv4 choose bands here; in tc also the priority that a program sets (`SO_PRIORITY`)
            # packets that eth0 sends go up
            [link.eth0]
            rate = "1gbit"

            # tc qdisc add dev eth0 root handle 1: prio
            [link.eth0.up]
            scheduler = { kind = "priority" }

            [link.eth0.up.flow.1-1]
            match = ["tcp dport 22", "ip tos 0x10/0x18"]
            priority = 0
            queue = "1000p"

            [link.eth0.up.flow.1-3]
            match = "ip tos 0x08/0x18"
            priority = 2
            queue = "1000p"

            [link.eth0.up.flow.1-2]
            match = "any"
            priority = 1
            queue = "1000p"
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 5kb limit 9kb\n\
         tc qdisc add dev eth0 parent 1: handle 2: ets bands 3 strict 1 quanta 3000 1514\n\
         tc filter add dev eth0 parent 2: prio 1 u32 match ip dport 22 0xffff flowid 2:1\n\
         tc filter add dev eth0 parent 2: prio 2 u32 match ip dport 80 0xffff flowid 2:2\n\
         tc filter add dev eth0 parent 2: prio 3 u32 match ip dport 23 0xffff flowid 2:1",
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 5kb limit 9kb
            # tc qdisc add dev eth0 parent 1: handle 2: ets bands 3 strict 1 quanta 3000 1514
            [link.eth0.up]
            rate = "1mbit"
            burst = "5KiB"
            scheduler = { kind = "ets" }

            [link.eth0.up.flow.2-1]
            match = ["ip dport 22", "ip dport 23"]
            priority = 0
            queue = "1000p"

            [link.eth0.up.flow.2-2]
            match = "ip dport 80"
            quantum = "3kB"
            queue = "1000p"

            [link.eth0.up.flow.2-3]
            match = "any"
            quantum = "1514B"
            queue = "1000p"
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 5kb limit 9kb\n\
         tc qdisc add dev eth0 parent 1: pfifo_fast",
        expect![[r##"
            # note: 2: only the type of service of IPv4 chooses bands here; in tc also the priority that a program sets (`SO_PRIORITY`)
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: tbf rate 1mbit burst 5kb limit 9kb
            # tc qdisc add dev eth0 parent 1: pfifo_fast
            [link.eth0.up]
            rate = "1mbit"
            burst = "5KiB"
            scheduler = { kind = "priority" }

            [link.eth0.up.flow.0-3]
            match = "ip tos 0x08/0x18"
            priority = 2
            queue = "1000p"

            [link.eth0.up.flow.0-1]
            match = "ip tos 0x10/0x18"
            priority = 0
            queue = "1000p"

            [link.eth0.up.flow.0-2]
            match = "any"
            priority = 1
            queue = "1000p"
        "##]],
    );
    let shown = "qdisc pfifo_fast 0: dev eth0 root refcnt 2 bands 3 \
                 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1";
    becomes(
        shown,
        expect![[r##"
        # note: 1: the rate of eth0 is unknown, so no packet waits in the bands of `pfifo_fast`: `--rate` sets it
        # packets that eth0 sends go up
        [link.eth0]
        rate = "unlimited"

        # qdisc pfifo_fast 0: dev eth0 root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1
        [link.eth0.up]
    "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root pfifo_fast",
        expect![[r##"
        # note: 1: the rate of eth0 is unknown, so no packet waits in the bands of `pfifo_fast`: `--rate` sets it
        # packets that eth0 sends go up
        [link.eth0]
        rate = "unlimited"

        # tc qdisc add dev eth0 root pfifo_fast
        [link.eth0.up]
    "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: htb default 2\n\
         tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit\n\
         tc class add dev eth0 parent 1: classid 1:2 htb rate 2mbit\n\
         tc qdisc add dev eth0 parent 1:1 pfifo_fast\n\
         tc filter add dev eth0 parent 1: protocol ip matchall flowid 1:1",
        expect![[r##"
            # note: 1: the rate of eth0 is unknown, and taken as 1000gbit: classes without a limit of their own never wait
            # note: 4: only the type of service of IPv4 chooses bands here; in tc also the priority that a program sets (`SO_PRIORITY`)
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 2
            [link.eth0.up]
            rate = "1000gbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-1]
            match = "ip"
            rate = "1mbit"
            ceil = "1mbit"
            scheduler = { kind = "priority" }

            [link.eth0.up.flow.1-1.flow.0-3]
            match = "ip tos 0x08/0x18"
            priority = 2
            queue = "1000p"

            [link.eth0.up.flow.1-1.flow.0-1]
            match = "ip tos 0x10/0x18"
            priority = 0
            queue = "1000p"

            [link.eth0.up.flow.1-1.flow.0-2]
            match = "any"
            priority = 1
            queue = "1000p"

            [link.eth0.up.flow.1-2]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"
        "##]],
    );
}

#[test]
fn token_buckets_and_their_classes() {
    becomes(
        "tc qdisc add dev eth0 root handle 1: htb default 30 r2q 10\n\
         tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit ceil 10mbit burst 15k cburst 15k\n\
         tc class add dev eth0 parent 1:1 classid 1:10 htb rate 2mbit ceil 10mbit prio 0 quantum 1514\n\
         tc class add dev eth0 parent 1:1 classid 1:20 htb rate 5mbit burst 6k\n\
         tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1mbit ceil 10mbit prio 7\n\
         tc qdisc add dev eth0 parent 1:10 handle 10: fq_codel limit 600 flows 256 noecn\n\
         tc qdisc add dev eth0 parent 1:20 handle 20: sfq perturb 10\n\
         tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 5004 0xffff flowid 1:10\n\
         tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 80 0xffff flowid \
         1:20",
        expect![[r##"
            # note: 7: `sfq` becomes `fq_codel` with a target of 3s, so that CoDel hardly ever acts; when the queues are full, the packet at the head of the longest one is dropped, as with `headdrop`
            # note: 7: `perturb` was left out: the hash has a secret key, and connections keep their queues
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 30 r2q 10
            [link.eth0.up]
            rate = "10mbit"
            burst = "15KiB"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-10]
            match = "ip dport 5004"
            rate = "2mbit"
            ceil = "10mbit"
            prio = 0
            quantum = "1514B"
            scheduler = { kind = "fq_codel", limit = 600, queues = 256 }

            [link.eth0.up.flow.1-10.flow.all]
            match = "any"

            [link.eth0.up.flow.1-20]
            match = "ip dport 80"
            rate = "5mbit"
            ceil = "5mbit"
            burst = "6KiB"
            quantum = "62500B"
            scheduler = { kind = "fq_codel", limit = 127, queues = 1024, target = "3s", interval = "4s" }

            [link.eth0.up.flow.1-20.flow.all]
            match = "any"

            [link.eth0.up.flow.1-30]
            match = "any"
            rate = "1mbit"
            ceil = "10mbit"
            prio = 7
            quantum = "12500B"
            queue = "1000p"
        "##]],
    );
}

#[test]
fn fair_service_curves() {
    becomes(
        "tc qdisc add dev eth0 root handle 1: hfsc default 12\n\
         tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 10mbit ul rate 10mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:11 hfsc sc umax 1500b dmax 10ms rate 500kbit ul rate 2mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:12 hfsc ls m1 2mbit d 20ms m2 1mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:13 hfsc rt umax 1500b dmax 100ms rate 1mbit\n\
         tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 5060 0xffff flowid 1:11\n\
         tc filter add dev eth0 parent 1: prio 2 u32 match ip dport 22 0xffff flowid 1:13",
        expect![[r##"
            # note: 5: a class with `rt` alone also shares the rest of the link here, by its rate
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: hfsc default 12
            [link.eth0.up]
            rate = "10mbit"
            scheduler = { kind = "hfsc" }

            [link.eth0.up.flow.1-11]
            match = "ip dport 5060"
            rate = "500kbit"
            burst-rate = "1200kbit"
            burst-time = "10ms"
            share = "500kbit"
            share-burst = "1200kbit"
            share-time = "10ms"
            limit = "2mbit"
            queue = "1000p"

            [link.eth0.up.flow.1-13]
            match = "ip dport 22"
            rate = "1mbit"
            burst-rate = "1bit"
            burst-time = "88ms"
            queue = "1000p"

            [link.eth0.up.flow.1-12]
            match = "any"
            share = "1mbit"
            share-burst = "2mbit"
            share-time = "20ms"
            queue = "1000p"
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: hfsc\n\
         tc class add dev eth0 parent 1: classid 1:1 hfsc ul rate 1mbit\n\
         tc class add dev eth0 parent 1: classid 1:2 hfsc sc m1 1mbit rate 1mbit\n\
         tc class add dev eth0 parent 1: classid 1:3 hfsc rt rate 1mbit ul rate 2mbit",
        expect![[r#"
            error: a class of hfsc needs a curve
             --> tc.sh:2:1
              |
            2 | tc class add dev eth0 parent 1: classid 1:1 hfsc ul rate 1mbit
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: one of `rt`, `ls` and `sc`

            error: a curve has `m1` with `d`, or `umax` with `dmax`
             --> tc.sh:3:50
              |
            3 | tc class add dev eth0 parent 1: classid 1:2 hfsc sc m1 1mbit rate 1mbit
              |                                                  ^^
              |
              = help: as in `m1 2mbit d 10ms m2 1mbit`, or `umax 1500b dmax 20ms rate 1mbit`

            error: `ul` without `ls` limits nothing
             --> tc.sh:4:1
              |
            4 | tc class add dev eth0 parent 1: classid 1:3 hfsc rt rate 1mbit ul rate 2mbit
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `ul` limits service by `ls`: add `ls`, or write `sc` in place of `rt`"#]],
    );
}

#[test]
fn queues_that_are_kept_short() {
    becomes(
        "tc qdisc add dev a root handle 1: tbf rate 10mbit burst 10k limit 100k\n\
         tc qdisc add dev a parent 1:1 red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 ecn harddrop bandwidth 10mbit\n\
         tc qdisc add dev b root codel limit 500 target 4ms interval 30ms ecn\n\
         tc qdisc add dev c root handle 1: netem rate 1mbit delay 10ms\n\
         tc qdisc add dev c parent 1: pie limit 200 target 20ms tupdate 30ms alpha 2 beta 20 ecn\n\
         tc qdisc add dev d root handle 1: tbf rate 10mbit burst 10k limit 100k\n\
         tc qdisc add dev d parent 1: fq_codel target 3ms quantum 300 memory_limit 32mb\n\
         tc qdisc add dev e root handle 1: tbf rate 10mbit burst 10k limit 100k\n\
         tc qdisc add dev e parent 1: fq_pie flows 64 target 5ms tupdate 10ms alpha 4 ecn ecn_prob 25 memory_limit 32mb",
        expect![[r##"
            # note: 2: `bandwidth` was left out: the average of an idle queue falls at the link's own rate
            # note: 7: `memory_limit` was left out: the queues have only a limit in packets, `limit`
            # note: 9: `memory_limit` was left out: the kernel counts packets beyond it, and drops none of them
            # packets that a sends go up
            [link.a]
            rate = "unlimited"

            # tc qdisc add dev a root handle 1: tbf rate 10mbit burst 10k limit 100k
            # tc qdisc add dev a parent 1:1 red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 ecn harddrop bandwidth 10mbit
            [link.a.up]
            rate = "10mbit"
            burst = "10KiB"

            [link.a.up.flow.all]
            match = "any"
            queue = { limit = "400kB", policy = "red", min = "30kB", max = "90kB", probability = "2%", weight = "3.125%", ecn = "yes" }

            # packets that b sends go up
            [link.b]
            rate = "unlimited"

            # tc qdisc add dev b root codel limit 500 target 4ms interval 30ms ecn
            [link.b.up]

            [link.b.up.flow.all]
            match = "any"
            queue = { limit = "500p", policy = "codel", target = "4ms", interval = "30ms", ecn = "yes" }

            # packets that c sends go up
            [link.c]
            rate = "unlimited"

            # tc qdisc add dev c root handle 1: netem rate 1mbit delay 10ms
            # tc qdisc add dev c parent 1: pie limit 200 target 20ms tupdate 30ms alpha 2 beta 20 ecn
            [link.c.up]
            rate = "1mbit"
            delay = "10ms"

            [link.c.up.flow.all]
            match = "any"
            queue = { limit = "200p", policy = "pie", target = "20ms", update = "30ms", ecn = "yes" }

            # packets that d sends go up
            [link.d]
            rate = "unlimited"

            # tc qdisc add dev d root handle 1: tbf rate 10mbit burst 10k limit 100k
            # tc qdisc add dev d parent 1: fq_codel target 3ms quantum 300 memory_limit 32mb
            [link.d.up]
            rate = "10mbit"
            burst = "10KiB"
            scheduler = { kind = "fq_codel", ecn = "yes", target = "3ms", quantum = "300B" }

            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: tbf rate 10mbit burst 10k limit 100k
            # tc qdisc add dev e parent 1: fq_pie flows 64 target 5ms tupdate 10ms alpha 4 ecn ecn_prob 25 memory_limit 32mb
            [link.e.up]
            rate = "10mbit"
            burst = "10KiB"
            scheduler = { kind = "fq_pie", queues = 64, target = "5ms", update = "10ms", alpha = 4, ecn = "yes", ecn-probability = "25%" }
        "##]],
    );
    becomes(
        "tc qdisc add dev a root red limit 400000 avpkt 1000 adaptive\n\
         tc qdisc add dev a root red limit 400000\n\
         tc qdisc add dev a root red limit 400000 avpkt 1000 burst 3\n\
         tc qdisc add dev a root pie alpha 50\n\
         tc qdisc add dev a root fq_pie bytemode\n\
         tc qdisc add dev a root fq_pie ecn_prob 101\n\
         tc qdisc add dev a root fq_pie cap\n\
         tc qdisc add dev a root codel ce_threshold 1ms\n\
         tc qdisc add dev a root fq weights 5 3 1\n\
         tc qdisc add dev a root sfq depth 10",
        expect![[r#"
            error: `adaptive` has no equivalent here
             --> tc.sh:1:53
              |
            1 | tc qdisc add dev a root red limit 400000 avpkt 1000 adaptive
              |                                                     ^^^^^^^^
              |
              = help: the probability is the configured one; `pie` adapts its probability, and `codel` needs none

            error: red needs an `avpkt` above zero
             --> tc.sh:2:1
              |
            2 | tc qdisc add dev a root red limit 400000
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: as in `red limit 400000 min 30000 max 90000 avpkt 1000 burst 55`

            error: a burst of 3 packets is too small for this `min` and `avpkt`
             --> tc.sh:3:1
              |
            3 | tc qdisc add dev a root red limit 400000 avpkt 1000 burst 3
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: write `burst 34` or more

            error: `alpha 50` has no equivalent here
             --> tc.sh:4:35
              |
            4 | tc qdisc add dev a root pie alpha 50
              |                                   ^^
              |
              = help: a gain is at most 32, which means 2 per second

            error: `bytemode` has no equivalent here
             --> tc.sh:5:32
              |
            5 | tc qdisc add dev a root fq_pie bytemode
              |                                ^^^^^^^^
              |
              = help: PIE treats packets of all sizes alike here: leave this out

            error: `101` is more than 100 %
             --> tc.sh:6:41
              |
            6 | tc qdisc add dev a root fq_pie ecn_prob 101
              |                                         ^^^
              |
              = help: a number from 0 to 100, as in `ecn_prob 10`

            error: `cap` is not a parameter of fq_pie
             --> tc.sh:7:32
              |
            7 | tc qdisc add dev a root fq_pie cap
              |                                ^^^
              |
              = help: one of `limit`, `flows`, `quantum`, `ecn_prob`, `memory_limit`, `target`, `tupdate`, `alpha`, `beta`, `ecn`, `noecn`, `nobytemode`, `dq_rate_estimator`, `no_dq_rate_estimator`

            error: `ce_threshold` has no equivalent here
             --> tc.sh:8:31
              |
            8 | tc qdisc add dev a root codel ce_threshold 1ms
              |                               ^^^^^^^^^^^^
              |
              = help: for scalable connections, which need marks at a threshold, add `scheduler = { kind = "dualpi2", … }` to the scenario

            error: `weights` of fq has no equivalent here
             --> tc.sh:9:28
              |
            9 | tc qdisc add dev a root fq weights 5 3 1
              |                            ^^^^^^^
              |
              = help: bands go by the priorities of sockets, which falaj does not see: write `prio` or `ets` with filters, and a `fq` below each band

            error: `depth` of sfq has no equivalent here
              --> tc.sh:10:29
               |
            10 | tc qdisc add dev a root sfq depth 10
               |                             ^^^^^
               |
               = help: no queue has a limit of its own: when all queues together reach `limit`, the longest one drops packets"#]],
    );
}

/// Bands by the type of service, below classes that take only packets of one type of service, or
/// only IPv6: the other bands are left out.
#[test]
fn bands_below_a_class_keep_to_its_packets() {
    let host = Host { rate: Some(falaj_scenario::parse_rate("8mbit").unwrap()), down: None };
    let outer = |filter: &str| {
        format!(
            "tc qdisc add dev e root handle 1: drr\n\
             tc class add dev e parent 1: classid 1:1 drr\n\
             tc class add dev e parent 1: classid 1:2 drr\n\
             tc filter add dev e parent 1: prio 1 {filter} flowid 1:1\n\
             tc filter add dev e parent 1: prio 2 matchall flowid 1:2\n\
             tc qdisc add dev e parent 1:1 handle 10: "
        )
    };
    let by_service = "protocol ip u32 match ip tos 0x10 0x18";
    let ip6 = "protocol ipv6 u32 match ip6 dport 5 0xffff";
    let nested = "drr\n\
                  tc class add dev e parent 10: classid 10:1 drr\n\
                  tc class add dev e parent 10: classid 10:2 drr\n\
                  tc filter add dev e parent 10: prio 1 u32 match ip tos 0x08 0xff flowid 10:1\n\
                  tc filter add dev e parent 10: prio 2 matchall flowid 10:2";
    for (script, bands) in [
        (outer(by_service) + "prio", vec!["10-1", "10-2"]),
        (outer(ip6) + "prio", vec!["10-2"]),
        (outer(by_service) + nested, vec!["10-2"]),
        (outer("protocol ip u32 match ip dport 5 0xffff") + "prio", vec!["10-3", "10-1", "10-2"]),
        (
            "tc qdisc add dev e root handle 10: prio\n\
          tc qdisc add dev e parent 10:1 handle 20: prio"
                .to_owned(),
            vec!["10-3", "10-1", "10-2"],
        ),
    ] {
        let imported = tc(&script, "tc.sh", &host);
        let text = imported.unwrap_or_else(|errors| panic!("{script}: {errors}")).scenario;
        falaj_scenario::parse(&text, "made").unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let own = |line: &str| {
            let header = line.strip_prefix("[link.")?.strip_suffix(']')?;
            Some(header.rsplit_once(".flow.")?.1.to_owned()).filter(|name| name.starts_with("10-"))
        };
        let found: Vec<String> = text.lines().filter_map(own).collect();
        assert_eq!(found, bands, "{text}");
    }
}

#[test]
fn classes_within_classes() {
    let host = Host { rate: Some(falaj_scenario::parse_rate("100mbit").unwrap()), down: None };
    becomes_at(
        "tc qdisc add dev eth0 root handle 1: drr\n\
         tc class add dev eth0 parent 1: classid 1:1 drr\n\
         tc class add dev eth0 parent 1: classid 1:2 drr\n\
         tc qdisc add dev eth0 parent 1:1 handle 10: prio bands 2 \
         priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n\
         tc filter add dev eth0 parent 1: prio 1 u32 match ip src 10.1.0.0/16 flowid 1:1\n\
         tc filter add dev eth0 parent 1: prio 2 matchall flowid 1:2\n\
         tc filter add dev eth0 parent 10: prio 3 u32 match ip dport 22 0xffff flowid 10:1",
        &host,
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "100mbit"

            # tc qdisc add dev eth0 root handle 1: drr
            [link.eth0.up]
            scheduler = { kind = "drr" }

            [link.eth0.up.flow.1-1]
            match = "src 10.1.0.0/16"
            scheduler = { kind = "priority" }

            [link.eth0.up.flow.1-1.flow.10-1]
            match = "ip dport 22"
            priority = 0
            queue = "1000p"

            [link.eth0.up.flow.1-1.flow.10-2]
            match = "any"
            priority = 1
            queue = "1000p"

            [link.eth0.up.flow.1-2]
            match = "any"
            queue = "1000p"
        "##]],
    );
    becomes_at(
        "tc qdisc add dev eth0 root handle 1: prio bands 3\n\
         tc qdisc add dev eth0 parent 1:1 cbs idleslope 20000 sendslope -80000 hicredit 30 locredit -1000\n\
         tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 5004 0xffff flowid 1:1",
        &Host::default(),
        expect![[r##"
            # note: 1: only filters and the type of service of IPv4 choose bands here; in tc also the priority that a program sets (`SO_PRIORITY`)
            # note: 2: `hicredit` was left out: the credit is not clamped here; its largest values follow from the slopes and the packets
            # note: 2: `locredit` was left out: the credit is not clamped here; its largest values follow from the slopes and the packets
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: prio bands 3
            [link.eth0.up]
            rate = "100mbit"
            scheduler = { kind = "cbs" }

            [link.eth0.up.flow.1-1]
            match = ["ip dport 5004", "ip tos 0x10/0x18"]
            idle-slope = "20mbit"
            queue = "1000p"

            [link.eth0.up.flow.1-3]
            match = "ip tos 0x08/0x18"
            queue = "1000p"

            [link.eth0.up.flow.1-2]
            match = "any"
            queue = "1000p"
        "##]],
    );
    becomes_at(
        "tc qdisc add dev eth0 root handle 1: drr\n\
         tc class add dev eth0 parent 1: classid 1:1 drr\n\
         tc filter add dev eth0 parent 1: prio 1 matchall flowid 1:1\n\
         tc qdisc add dev eth0 parent 1:1 handle 1: drr",
        &host,
        expect![[r#"
            error: another discipline has this handle already
             --> tc.sh:4:1
              |
            4 | tc qdisc add dev eth0 parent 1:1 handle 1: drr
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: give each discipline a handle of its own"#]],
    );
}

/// Two companies, their departments and the departments' services: four levels of classes below the
/// link.
const COMPANIES: &str = "\
tc qdisc add dev eth0 root handle 1: htb default 99
tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit
tc class add dev eth0 parent 1:1 classid 1:a htb rate 60mbit ceil 100mbit
tc class add dev eth0 parent 1:1 classid 1:b htb rate 40mbit ceil 100mbit
tc class add dev eth0 parent 1:a classid 1:a1 htb rate 40mbit ceil 60mbit
tc class add dev eth0 parent 1:a classid 1:a2 htb rate 20mbit ceil 60mbit
tc class add dev eth0 parent 1:a1 classid 1:a11 htb rate 30mbit ceil 60mbit prio 0
tc class add dev eth0 parent 1:a1 classid 1:a12 htb rate 10mbit ceil 60mbit prio 1
tc class add dev eth0 parent 1:a11 classid 1:a111 htb rate 20mbit ceil 60mbit
tc class add dev eth0 parent 1:a11 classid 1:a112 htb rate 10mbit ceil 60mbit
tc class add dev eth0 parent 1:b classid 1:99 htb rate 40mbit ceil 100mbit
tc qdisc add dev eth0 parent 1:a112 handle 20: fq_codel
tc filter add dev eth0 parent 1: prio 1 u32 match ip src 10.1.0.0/16 flowid 1:a
tc filter add dev eth0 parent 1: prio 2 u32 match ip dport 7 0xffff flowid 1:99
tc filter add dev eth0 parent 1:a prio 1 u32 match ip src 10.1.1.0/24 flowid 1:a1
tc filter add dev eth0 parent 1:a prio 2 matchall flowid 1:a2
tc filter add dev eth0 parent 1:a1 prio 2 u32 match ip protocol 17 0xff match ip dport 5004 0xffff flowid 1:a111
tc filter add dev eth0 parent 1:a1 prio 3 u32 match ip protocol 17 0xff flowid 1:a112
tc filter add dev eth0 parent 1:a1 prio 4 matchall flowid 1:a12
";

#[test]
fn trees_of_classes() {
    becomes(
        COMPANIES,
        expect![[r##"
            # note: 5: in tc a class that reaches its `ceil` loses its turn and goes to the end of the round robin, so classes beside it do not share the rest by rate or quantum; here they do
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 99
            [link.eth0.up]
            rate = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a]
            match = [
                "udp src 10.1.1.0/24 dport 5004",
                "udp src 10.1.1.0/24",
                "src 10.1.1.0/24",
                "src 10.1.0.0/16",
            ]
            rate = "60mbit"
            ceil = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a.flow.1-a1]
            match = ["udp src 10.1.1.0/24 dport 5004", "udp src 10.1.1.0/24", "src 10.1.1.0/24"]
            rate = "40mbit"
            ceil = "60mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a.flow.1-a1.flow.1-a11]
            match = ["udp src 10.1.1.0/24 dport 5004", "udp src 10.1.1.0/24"]
            rate = "30mbit"
            ceil = "60mbit"
            prio = 0
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a.flow.1-a1.flow.1-a11.flow.1-a111]
            match = "udp src 10.1.1.0/24 dport 5004"
            rate = "20mbit"
            ceil = "60mbit"
            quantum = "200kB"
            queue = "1000p"

            [link.eth0.up.flow.1-a.flow.1-a1.flow.1-a11.flow.1-a112]
            match = "any"
            rate = "10mbit"
            ceil = "60mbit"
            quantum = "125kB"
            scheduler = { kind = "fq_codel", ecn = "yes" }

            [link.eth0.up.flow.1-a.flow.1-a1.flow.1-a11.flow.1-a112.flow.all]
            match = "any"

            [link.eth0.up.flow.1-a.flow.1-a1.flow.1-a12]
            match = "any"
            rate = "10mbit"
            ceil = "60mbit"
            prio = 1
            quantum = "125kB"
            queue = "1000p"

            [link.eth0.up.flow.1-a.flow.1-a2]
            match = "any"
            rate = "20mbit"
            ceil = "60mbit"
            quantum = "200kB"
            queue = "1000p"

            [link.eth0.up.flow.1-b]
            match = "any"
            rate = "40mbit"
            ceil = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-b.flow.1-99]
            match = "any"
            rate = "40mbit"
            ceil = "100mbit"
            quantum = "200kB"
            queue = "1000p"
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: hfsc default 20\n\
         tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 10mbit ul rate 10mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:10 hfsc ls rate 6mbit ul rate 8mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:20 hfsc ls rate 4mbit\n\
         tc class add dev eth0 parent 1:10 classid 1:11 hfsc ls m1 5mbit d 10ms m2 2mbit\n\
         tc class add dev eth0 parent 1:10 classid 1:12 hfsc ls rate 4mbit\n\
         tc class add dev eth0 parent 1:11 classid 1:111 hfsc sc umax 1500b dmax 20ms rate 1mbit\n\
         tc class add dev eth0 parent 1:11 classid 1:112 hfsc sc rate 500kbit\n\
         tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 5060 0xffff flowid 1:111\n\
         tc filter add dev eth0 parent 1: prio 2 u32 match ip dport 5061 0xffff flowid 1:112\n\
         tc filter add dev eth0 parent 1: prio 3 u32 match ip src 10.1.0.0/16 flowid 1:12",
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: hfsc default 20
            [link.eth0.up]
            rate = "10mbit"
            scheduler = { kind = "hfsc" }

            [link.eth0.up.flow.1-10]
            match = ["ip dport 5060", "ip dport 5061", "src 10.1.0.0/16"]
            share = "6mbit"
            limit = "8mbit"
            scheduler = { kind = "hfsc" }

            [link.eth0.up.flow.1-10.flow.1-11]
            match = ["ip dport 5060", "ip dport 5061"]
            share = "2mbit"
            share-burst = "5mbit"
            share-time = "10ms"
            scheduler = { kind = "hfsc" }

            [link.eth0.up.flow.1-10.flow.1-11.flow.1-111]
            match = "ip dport 5060"
            rate = "1mbit"
            burst-rate = "1bit"
            burst-time = "8ms"
            share = "1mbit"
            share-burst = "1bit"
            share-time = "8ms"
            queue = "1000p"

            [link.eth0.up.flow.1-10.flow.1-11.flow.1-112]
            match = "any"
            rate = "500kbit"
            share = "500kbit"
            queue = "1000p"

            [link.eth0.up.flow.1-10.flow.1-12]
            match = "any"
            share = "4mbit"
            queue = "1000p"

            [link.eth0.up.flow.1-20]
            match = "any"
            share = "4mbit"
            queue = "1000p"
        "##]],
    );
    // Filters that send to an inner class without filters, or to a class that is not below their
    // own; filters of a class that match only a part of its packets, or that no packet reaches.
    let filters = |lines: &str| {
        let (classes, _) = COMPANIES.split_once("tc filter").unwrap();
        format!("{classes}{lines}")
    };
    let of = |lines: &str, expected: Expect| becomes(&filters(lines), expected);
    of(
        "tc filter add dev eth0 parent 1: prio 1 matchall flowid 1:a",
        expect![[r#"
            error: the filter sends to 1:a, which has classes below it and no filter
              --> tc.sh:13:1
               |
            13 | tc filter add dev eth0 parent 1: prio 1 matchall flowid 1:a
               | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               |
               = help: send to a class without classes, or add `tc filter add … parent 1:a …`"#]],
    );
    of(
        "tc filter add dev eth0 parent 1: prio 1 matchall flowid 1:a\n\
         tc filter add dev eth0 parent 1:a prio 2 matchall flowid 1:99",
        expect![[r#"
            error: a filter of 1:a sends to a class that is not below it
              --> tc.sh:14:1
               |
            14 | tc filter add dev eth0 parent 1:a prio 2 matchall flowid 1:99
               | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               |
               = help: name a class below it, or give the filter to the discipline"#]],
    );
    of(
        "tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 80 0xffff flowid 1:a\n\
         tc filter add dev eth0 parent 1:a prio 2 u32 match ip dport 22 0xffff flowid 1:a2\n\
         tc filter add dev eth0 parent 1:a prio 3 u32 match ip src 10.7.0.0/16 flowid 1:a2\n\
         tc filter add dev eth0 parent 1: prio 4 matchall flowid 1:99",
        expect![[r##"
            # note: 5: in tc a class that reaches its `ceil` loses its turn and goes to the end of the round robin, so classes beside it do not share the rest by rate or quantum; here they do
            # note: 8: no filter sends packets to 1:a12: it was left out
            # note: 9: no filter sends packets to 1:a111: it was left out
            # note: 10: no filter sends packets to 1:a112: it was left out
            # note: 12: no packet reaches the class of this discipline: it was left out
            # note: 13: packets for 1:a that match no filter of that class continue with the next filter here; in tc they go to the default class
            # note: 14: no packet that comes to this filter from the filters above it matches it: it was left out
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 99
            [link.eth0.up]
            rate = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a]
            match = "src 10.7.0.0/16 dport 80"
            rate = "60mbit"
            ceil = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a.flow.1-a2]
            match = "any"
            rate = "20mbit"
            ceil = "60mbit"
            quantum = "200kB"
            queue = "1000p"

            [link.eth0.up.flow.1-b]
            match = "any"
            rate = "40mbit"
            ceil = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-b.flow.1-99]
            match = "any"
            rate = "40mbit"
            ceil = "100mbit"
            quantum = "200kB"
            queue = "1000p"
        "##]],
    );
    of(
        "tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 80 0xffff flowid 1:a2\n\
         tc filter add dev eth0 parent 1:a1 prio 2 u32 match ip dport 22 0xffff flowid 1:a12",
        expect![[r##"
            # note: 5: in tc a class that reaches its `ceil` loses its turn and goes to the end of the round robin, so classes beside it do not share the rest by rate or quantum; here they do
            # note: 8: no filter sends packets to 1:a12: it was left out
            # note: 9: no filter sends packets to 1:a111: it was left out
            # note: 10: no filter sends packets to 1:a112: it was left out
            # note: 12: no packet reaches the class of this discipline: it was left out
            # note: 14: this filter was left out: no filter sends packets to the class that it belongs to
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 99
            [link.eth0.up]
            rate = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a]
            match = "ip dport 80"
            rate = "60mbit"
            ceil = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-a.flow.1-a2]
            match = "any"
            rate = "20mbit"
            ceil = "60mbit"
            quantum = "200kB"
            queue = "1000p"

            [link.eth0.up.flow.1-b]
            match = "any"
            rate = "40mbit"
            ceil = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-b.flow.1-99]
            match = "any"
            rate = "40mbit"
            ceil = "100mbit"
            quantum = "200kB"
            queue = "1000p"
        "##]],
    );
}

/// Packets that belong to no class bypass the link, and so do packets that no filter redirects.
#[test]
fn packets_that_tc_does_not_shape_pass() {
    becomes(
        "modprobe ifb\n\
         tc qdisc add dev wan root handle 1: htb\n\
         tc class add dev wan parent 1: classid 1:7 htb rate 5mbit\n\
         tc filter add dev wan parent 1: protocol ip prio 1 u32 match ip dport 9999 0xffff action drop\n\
         tc filter add dev wan parent 1: protocol ip prio 2 u32 match ip dport 9000 0xf000 flowid 1:7\n\
         tc qdisc add dev wan ingress\n\
         tc filter add dev wan parent ffff: protocol ip prio 1 u32 match ip sport 22 0xffff action ok\n\
         tc filter add dev wan parent ffff: protocol ip prio 2 u32 match ip protocol 6 0xff action mirred egress redirect dev ifb0\n\
         tc qdisc add dev ifb0 root netem delay 5ms",
        expect![[r##"
            # note: 1: `modprobe` is not a command of tc, and was left out
            # note: 2: packets that match no filter bypass all classes, unshaped, as in tc
            # packets that wan sends go up
            [link.wan]
            rate = "unlimited"

            # tc qdisc add dev wan root handle 1: htb
            [link.wan.up]
            rate = "5mbit"
            scheduler = { kind = "htb" }

            [link.wan.up.flow.1-7]
            match = "ip dport 8192-12287"
            rate = "5mbit"
            ceil = "5mbit"
            queue = "1000p"

            # tc qdisc add dev ifb0 root netem delay 5ms
            [link.wan.down]
            delay = "5ms"

            [[rule]]
            match = "ip dport 9999"
            direction = "up"
            to = "drop"

            [[rule]]
            match = "ip dport 8192-12287"
            direction = "up"
            to = "wan"

            [[rule]]
            direction = "up"
            to = "pass"

            [[rule]]
            match = "ip sport 22"
            direction = "down"
            to = "pass"

            [[rule]]
            match = "ip tcp"
            direction = "down"
            to = "wan"

            [[rule]]
            direction = "down"
            to = "pass"
        "##]],
    );
    // A class that does not exist cannot be the default class. A class whose parent does not exist
    // is above all others.
    becomes(
        "tc qdisc add dev e root handle 1: htb default 40\n\
         tc class add dev e parent 1:9 classid 1:1 htb rate 8mbit\n\
         tc class add dev e parent 1:1 classid 1:2 htb rate 8mbit\n\
         tc filter add dev e parent 1: protocol arp prio 1 u32 match u32 0 0 flowid 1:2",
        expect![[r##"
            # note: 1: the default class 1:40 does not exist, or has classes below it
            # note: 1: packets that match no filter bypass all classes, unshaped, as in tc
            # note: 2: there is no class 1:9 above this one: it has no parent, as in tc
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: htb default 40
            [link.e.up]
            rate = "8mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-2]
            match = "ether arp"
            rate = "8mbit"
            ceil = "8mbit"
            queue = "1000p"

            [[rule]]
            match = "ether arp"
            direction = "up"
            to = "e"

            [[rule]]
            direction = "up"
            to = "pass"

            [[rule]]
            direction = "down"
            to = "e"
        "##]],
    );
    // Within a class, matches only distinguish the packets of this class.
    becomes(
        "tc qdisc add dev e root handle 1: htb default 1\n\
         tc class add dev e parent 1: classid 1:1 htb rate 50mbit\n\
         tc qdisc add dev e parent 1:1 handle 2: htb\n\
         tc class add dev e parent 2: classid 2:1 htb rate 1mbit\n\
         tc filter add dev e parent 2: protocol ip u32 match ip dport 7000 0xffff flowid 2:1\n\
         tc qdisc add dev e parent 2:1 netem loss 3%",
        expect![[r##"
            # note: 3: packets that match no filter bypass all classes, unshaped, as in tc
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: htb default 1
            [link.e.up]
            rate = "50mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-1]
            match = "any"
            rate = "50mbit"
            ceil = "50mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-1.flow.2-1]
            match = "ip dport 7000"
            rate = "1mbit"
            ceil = "1mbit"
            queue = "1000p"

            [link.e.up.flow.1-1.flow.2-direct]
            match = "any"
            rate = "50mbit"
            ceil = "50mbit"
            queue = "1000p"

            # packets of class 2:1 pass this link first
            # tc qdisc add dev e parent 2:1 netem loss 3%
            [link.e-2-1]
            rate = "unlimited"
            loss = { probability = "3%" }

            [[rule]]
            match = "ip dport 7000"
            direction = "up"
            to = ["e-2-1", "e"]

            [[rule]]
            to = "e"
        "##]],
    );
}

/// Each discipline becomes a part of the scenario, or a message states why it does not.
#[test]
fn no_discipline_vanishes() {
    becomes(
        "tc qdisc add dev h1-eth0 root handle 5: htb default 2\n\
         tc class add dev h1-eth0 parent 5: classid 5:2 htb rate 20mbit burst 15k\n\
         tc qdisc add dev h1-eth0 parent 5:2 handle 6: red limit 600kb min 20kb max 60kb avpkt 1000 burst 40\n\
         tc qdisc add dev h1-eth0 parent 6: handle 7: netem delay 3ms",
        expect![[r##"
            # note: 4: `red` measures the packets queued for the class; in tc also those in the discipline below it
            # packets that h1-eth0 sends go up
            [link.h1-eth0]
            rate = "unlimited"

            # tc qdisc add dev h1-eth0 root handle 5: htb default 2
            [link.h1-eth0.up]
            rate = "20mbit"
            burst = "15KiB"
            scheduler = { kind = "htb" }

            [link.h1-eth0.up.flow.5-2]
            match = "any"
            rate = "20mbit"
            ceil = "20mbit"
            burst = "15KiB"
            queue = { limit = "600KiB", policy = "red", min = "20KiB", max = "60KiB", probability = "2%", weight = "3.125%" }

            # packets of class 5:2 pass this link first
            # tc qdisc add dev h1-eth0 parent 6: handle 7: netem delay 3ms
            [link.h1-eth0-5-2]
            rate = "unlimited"
            delay = "3ms"

            [[rule]]
            direction = "up"
            to = ["h1-eth0-5-2", "h1-eth0"]

            [[rule]]
            direction = "down"
            to = "h1-eth0"
        "##]],
    );
    becomes(
        "tc qdisc add dev e root handle 1: codel\n\
         tc qdisc add dev e parent 1: handle 2: netem delay 3ms\n\
         tc qdisc add dev e root netem delay 4ms\n\
         tc qdisc add dev f root handle 1: red limit 600kb min 20kb max 60kb avpkt 1000 burst 40\n\
         tc filter add dev g parent 1: matchall flowid 1:1\n\
         tc filter add dev e parent 4: matchall flowid 1:1\n\
         tc class add dev e parent 4: classid 4:1 htb rate 1mbit",
        expect![[r#"
            error: this discipline is below a discipline without classes
             --> tc.sh:2:1
              |
            2 | tc qdisc add dev e parent 1: handle 2: netem delay 3ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: tc refuses it too: put a discipline above that can have another one below it: `netem`, `tbf`, `red`, `cbs`, or one with classes

            error: there is a discipline in this place already: tc refuses this line
             --> tc.sh:3:1
              |
            3 | tc qdisc add dev e root netem delay 4ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `replace` puts another one there; or remove this line

            error: g has no discipline for this filter
             --> tc.sh:5:1
              |
            5 | tc filter add dev g parent 1: matchall flowid 1:1
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: add one first, by `tc qdisc add dev g root …`, or name another device

            error: e has no discipline `4:` yet
             --> tc.sh:6:1
              |
            6 | tc filter add dev e parent 4: matchall flowid 1:1
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: add it first, by `tc qdisc add … handle 4: …`: tc refuses this line too

            error: e has no discipline `4:` yet
             --> tc.sh:7:1
              |
            7 | tc class add dev e parent 4: classid 4:1 htb rate 1mbit
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: add it first, by `tc qdisc add … handle 4: …`: tc refuses this line too"#]],
    );
    becomes(
        "tc qdisc add dev f root handle 1: red limit 600kb min 20kb max 60kb avpkt 1000 burst 40\n\
         tc qdisc add dev f parent 1: netem delay 3ms",
        expect![[r#"
            error: a discipline below `red` has no equivalent here
             --> tc.sh:2:1
              |
            2 | tc qdisc add dev f parent 1: netem delay 3ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: it replaces the queue that `red` measures: put `netem` above, and `red` below it"#]],
    );
    // A discipline that replaces another removes everything below the replaced one.
    becomes(
        "tc qdisc add dev e root handle 1: prio\n\
         tc qdisc add dev e parent 1:1 handle 2: tbf rate 1mbit burst 2kb latency 50ms\n\
         tc qdisc add dev e parent 2:1 netem delay 4ms\n\
         tc qdisc replace dev e root netem delay 5ms",
        expect![[r##"
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc replace dev e root netem delay 5ms
            [link.e.up]
            delay = "5ms"
        "##]],
    );
}

/// Commands in the forms of real scripts: with programs in front, redirections, numbers in other
/// bases.
#[test]
fn commands_are_read_in_the_forms_that_scripts_have() {
    becomes(
        "sudo -E ip netns exec red tc qdisc add dev veth1 parent root handle 1: netem delay 5ms >/dev/null 2>&1\n\
         tc -n blue qdisc add dev veth1 root handle 0x10: netem delay 6ms 2> errors\n\
         docker exec -it box tc -force qdisc add dev eth0 root netem delay 7ms || echo \"$(date) failed\"\n\
         qdisc add dev batch0 root netem delay 8ms\n\
         qdisc tbf 1: dev shown0 root refcnt 2 rate 10Mbit burst 20Kb lat 25.0ms\n\
         qdisc netem 2: dev shown0 parent 1:1 limit 500 delay 9ms  2ms loss 1%\n\
         qdisc noqueue 0: dev lo root refcnt 2",
        expect![[r##"
            # note: 6: netem loses and duplicates packets before the rate, falaj after it: a lost packet has used the link
            # note: 6: `limit` was left out: netem counts packets in transit, and without a rate falaj queues no packet
            # packets that veth1 sends go up
            [link.veth1]
            rate = "unlimited"

            # sudo -E ip netns exec red tc qdisc add dev veth1 parent root handle 1: netem delay 5ms
            [link.veth1.up]
            delay = "5ms"

            # packets that blue-veth1 sends go up
            [link.blue-veth1]
            rate = "unlimited"

            # tc -n blue qdisc add dev veth1 root handle 0x10: netem delay 6ms
            [link.blue-veth1.up]
            delay = "6ms"

            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # docker exec -it box tc -force qdisc add dev eth0 root netem delay 7ms
            [link.eth0.up]
            delay = "7ms"

            # packets that batch0 sends go up
            [link.batch0]
            rate = "unlimited"

            # qdisc add dev batch0 root netem delay 8ms
            [link.batch0.up]
            delay = "8ms"

            # packets that shown0 sends go up
            [link.shown0]
            rate = "unlimited"

            # qdisc tbf 1: dev shown0 root refcnt 2 rate 10Mbit burst 20Kb lat 25.0ms
            # qdisc netem 2: dev shown0 parent 1:1 limit 500 delay 9ms 2ms loss 1%
            [link.shown0.up]
            rate = "10mbit"
            burst = "20KiB"
            scheduler = { kind = "fifo", queue = "51730B" }
            delay = "9ms"
            loss = { probability = "1%" }
            jitter = { amount = "2ms", order = "free" }
        "##]],
    );
    becomes(
        "filter parent 1: protocol ip pref 1 u32 chain 0\n\
         $TC qdisc add dev e root netem delay 1ms\n\
         tc -b more.txt",
        expect![[r#"
            error: the output of `tc filter show` has no equivalent here
             --> tc.sh:1:1
              |
            1 | filter parent 1: protocol ip pref 1 u32 chain 0
              | ^^^^^^
              |
              = help: write the commands that made them, `tc filter add …`

            error: only a shell can expand this
             --> tc.sh:2:1
              |
            2 | $TC qdisc add dev e root netem delay 1ms
              | ^^^
              |
              = help: `falaj import` runs such a script in a sandbox, unless `--no-run` forbids it

            error: a file of further commands has no equivalent here
             --> tc.sh:3:4
              |
            3 | tc -b more.txt
              |    ^^
              |
              = help: import that file: its lines need no `tc` in front"#]],
    );
}

/// Matches of bytes, masks and flags, as in well-known scripts, become fields.
#[test]
fn filters_of_bytes_are_fields() {
    becomes_at(
        "tc qdisc add dev e root handle 1: prio bands 4 priomap 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3\n\
         tc filter add dev e parent 1: protocol 0x0800 prio 1 u32 match u8 6 0xff at 9 match u8 0x05 0x0f at 0 match u16 0 0xffc0 at 2 match u8 0x10 0xff at 33 flowid 1:1\n\
         tc filter add dev e parent 1: protocol ipv6 prio 2 u32 match ip6 protocol 6 0xff match u16 0 0xffc0 at 2 flowid 1:1\n\
         tc filter add dev e parent 1: protocol ipv6 prio 3 u32 match ip6 protocol 1 0xff flowid 1:1\n\
         tc filter add dev e parent 1: protocol ip prio 4 u32 match u32 0xc0000200 0xffffff00 at 16 match ip tos 0x08 0x1e flowid 1:2\n\
         tc filter add dev e parent 1: protocol ip prio 5 u32 match ip dport 0x1101 0xf0ff match ip protocol 0 0 flowid 1:3\n\
         tc filter add dev e parent 1: protocol ip prio 6 flower ip_proto tcp tcp_flags 0x12/0x13 flowid 1:3\n\
         tc filter add dev e parent 1: protocol ip prio 7 basic match 'cmp(u16 at 0 layer transport gt 1023)' classid 1:3\n\
         tc filter add dev e parent 1: prio 8 handle 0x20/0xf0 fw classid 1:2\n\
         tc filter add dev e parent 1: protocol ipv6 prio 9 u32 match u8 0x45 0xff at 0 flowid 1:2",
        &Host { rate: Some(falaj_scenario::parse_rate("8mbit").unwrap()), down: None },
        expect![[r##"
            # note: 2: here this also matches packets with IP options
            # note: 3: in an IPv6 header these bytes are a part of the flow label, which is random: this matches hardly any packet, and is left out
            # note: 4: ICMP of IPv6 is protocol 58: this matches no packet, and is left out
            # note: 9: no rule sets the mark 0x20/0xf0, so this filter matches no packet; with tc the firewall sets marks, in falaj a rule does
            # note: 10: the version in an IPv6 header is 6: this matches no packet, and is left out
            # packets that e sends go up
            [link.e]
            rate = "8mbit"

            # tc qdisc add dev e root handle 1: prio bands 4 priomap 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3
            [link.e.up]
            scheduler = { kind = "priority" }

            [link.e.up.flow.1-1]
            match = "ip tcp length 0-63 flags !fin,!syn,!rst,!psh,ack,!urg,!ece,!cwr"
            priority = 0
            queue = "1000p"

            [link.e.up.flow.1-2]
            match = [
                "dst 192.0.2.0/24 tos 0x08/0x1e",
                "mark 0x20/0xf0 not ( ip dport 4097,4353,4609,4865,5121,5377,5633,5889,6145,6401,6657,6913,7169,7425,7681,7937 ) not ( ip tcp flags !fin,syn,ack ) not ( ip sport 1024-65535 )",
            ]
            priority = 1
            queue = "1000p"

            [link.e.up.flow.1-3]
            match = [
                "ip dport 4097,4353,4609,4865,5121,5377,5633,5889,6145,6401,6657,6913,7169,7425,7681,7937",
                "ip tcp flags !fin,syn,ack",
                "ip sport 1024-65535",
            ]
            priority = 2
            queue = "1000p"

            [link.e.up.flow.1-4]
            match = "any"
            priority = 3
            queue = "1000p"
        "##]],
    );
}

/// `fq` and `cake` have a queue for each connection, on links and below classes.
#[test]
fn fq_and_cake_become_disciplines() {
    becomes(
        "tc qdisc add dev eth0 root cake bandwidth 20mbit besteffort flows docsis\n\
         tc qdisc add dev eth1 root handle 1: tbf rate 10mbit burst 2000b limit 30kb\n\
         tc qdisc add dev eth1 parent 1: fq maxrate 2mbit quantum 3028\n",
        expect![[r##"
            # note: 1: `docsis` includes `mpu 64` in tc; packets count with their own size and overhead here, also below 64 B
            # note: 3: falaj paces connections only by `maxrate`: it does not see the rates that sockets set, as TCP does
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root cake bandwidth 20mbit besteffort flows docsis
            [link.eth0.up]
            rate = "20mbit"
            overhead = "18B"
            layer = "ip"
            scheduler = { kind = "cake" }

            # packets that eth1 sends go up
            [link.eth1]
            rate = "unlimited"

            # tc qdisc add dev eth1 root handle 1: tbf rate 10mbit burst 2000b limit 30kb
            # tc qdisc add dev eth1 parent 1: fq maxrate 2mbit quantum 3028
            [link.eth1.up]
            rate = "10mbit"
            burst = "2kB"
            scheduler = { kind = "fq", flow-max-rate = "2mbit", quantum = "3028B" }
        "##]],
    );
    // The same disciplines as `tc qdisc show` prints them.
    becomes(
        "qdisc cake 8001: dev a root refcnt 2 bandwidth 10Mbit diffserv3 triple-isolate nonat \
         nowash no-ack-filter split-gso rtt 100ms raw overhead 0\n\
         qdisc fq 8003: dev b root refcnt 2 limit 10000p flow_limit 100p buckets 1024 orphan_mask \
         1023 quantum 3028b initial_quantum 15140b low_rate_threshold 550Kbit maxrate 5Mbit \
         refill_delay 40ms timer_slack 10us horizon 10s horizon_drop\n",
        expect![[r##"
            # note: 1: `diffserv3` was left out: DSCP gives no precedence here, as with `besteffort`
            # note: 1: `triple-isolate` was left out: falaj isolates connections, not hosts: a host with more connections gets more of the link
            # note: 2: falaj paces connections only by `maxrate`: it does not see the rates that sockets set, as TCP does
            # note: 2: `buckets` was left out: it sets the size of the kernel's hash table, which changes no packet
            # note: 2: `timer_slack` was left out: a paced packet leaves at its time, to the nanosecond
            # note: 2: `horizon` was left out: in falaj, packets carry no departure times
            # note: 2: `horizon_drop` was left out: in falaj, packets carry no departure times
            # packets that a sends go up
            [link.a]
            rate = "unlimited"

            # qdisc cake 8001: dev a root refcnt 2 bandwidth 10Mbit diffserv3 triple-isolate nonat nowash no-ack-filter split-gso rtt 100ms raw overhead 0
            [link.a.up]
            rate = "10mbit"
            scheduler = { kind = "cake", interval = "100ms", target = "5ms" }

            # packets that b sends go up
            [link.b]
            rate = "unlimited"

            # qdisc fq 8003: dev b root refcnt 2 limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 quantum 3028b initial_quantum 15140b low_rate_threshold 550Kbit maxrate 5Mbit refill_delay 40ms timer_slack 10us horizon 10s horizon_drop
            [link.b.up]
            scheduler = { kind = "fq", limit = 10000, flow-limit = 100, queues = 1024, quantum = "3028B", initial-quantum = "15140B", low-rate-threshold = "550kbit", flow-max-rate = "5mbit", refill-delay = "40ms" }
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: htb default 10\n\
         tc class add dev eth0 parent 1: classid 1:1 htb rate 100mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:10 htb rate 60mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:20 htb rate 40mbit\n\
         tc filter add dev eth0 parent 1: u32 match ip dport 80 0xffff flowid 1:20\n\
         tc qdisc add dev eth0 parent 1:10 cake bandwidth 50mbit besteffort flows\n\
         tc qdisc add dev eth0 parent 1:20 fq maxrate 5mbit\n",
        expect![[r##"
            # note: 7: falaj paces connections only by `maxrate`: it does not see the rates that sockets set, as TCP does
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 10
            [link.eth0.up]
            rate = "100mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-20]
            match = "ip dport 80"
            rate = "40mbit"
            ceil = "40mbit"
            quantum = "200kB"
            scheduler = { kind = "fq", flow-max-rate = "5mbit" }

            [link.eth0.up.flow.1-20.flow.all]
            match = "any"

            [link.eth0.up.flow.1-10]
            match = "any"
            rate = "60mbit"
            ceil = "60mbit"
            quantum = "200kB"
            scheduler = { kind = "cake", rate = "50mbit" }

            [link.eth0.up.flow.1-10.flow.all]
            match = "any"
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: htb default 10\n\
         tc class add dev eth0 parent 1: classid 1:10 htb rate 60mbit\n\
         tc qdisc add dev eth0 parent 1:10 cake besteffort flows overhead 8\n",
        expect![[r#"
            error: an overhead of a class has no equivalent here
             --> tc.sh:3:57
              |
            3 | tc qdisc add dev eth0 parent 1:10 cake besteffort flows overhead 8
              |                                                         ^^^^^^^^
              |
              = help: a link has one overhead for all packets: give it to the discipline above all classes, as `stab`"#]],
    );
}

#[test]
fn what_has_no_equal_is_refused_line_by_line() {
    becomes(
        "tc qdisc add dev eth0 root netem delay 10\n\
         tc qdisc add dev eth0 root netem delya 10ms\n\
         tc qdisc add dev eth0 root cake autorate-ingress\n\
         tc qdisc add root netem delay 1ms\n\
         tc qdisc add dev $DEV root netem loss 10%\n\
         tc qdisc add dev eth0 root netem loss 101%\n\
         tc qdisc add dev eth0 root tbf rate 1mbit burst 10k\n\
         tc qdisc add dev eth0 root netem gap 5\n\
         tc qdisc add dev eth0 root netem reorder 5%\n",
        expect![[r#"
            error: `10` is a number without a unit
             --> tc.sh:1:40
              |
            1 | tc qdisc add dev eth0 root netem delay 10
              |                                        ^^
              |
              = help: tc's versions differ in the unit of such a time: write one of `s`, `sec`, `secs`, `ms`, `msec`, `msecs`, `us`, `usec`, `usecs`, `ns`, `nsec`, `nsecs`

            error: `delya` is not a parameter of netem
             --> tc.sh:2:34
              |
            2 | tc qdisc add dev eth0 root netem delya 10ms
              |                                  ^^^^^ did you mean `delay`?
              |
              = help: one of `limit`, `delay`, `latency`, `distribution`, `loss`, `drop`, `corrupt`, `duplicate`, `reorder`, `gap`, `rate`, `slot`, `seed`

            error: `autorate-ingress` has no equivalent here
             --> tc.sh:3:33
              |
            3 | tc qdisc add dev eth0 root cake autorate-ingress
              |                                 ^^^^^^^^^^^^^^^^
              |
              = help: falaj does not estimate the rate: write `bandwidth RATE`

            error: the device is missing: write `dev NAME`
             --> tc.sh:4:1
              |
            4 | tc qdisc add root netem delay 1ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error: only a shell can expand this
             --> tc.sh:5:18
              |
            5 | tc qdisc add dev $DEV root netem loss 10%
              |                  ^^^^
              |
              = help: `falaj import` runs such a script in a sandbox, unless `--no-run` forbids it

            error: `101%` is above 100%
             --> tc.sh:6:39
              |
            6 | tc qdisc add dev eth0 root netem loss 101%
              |                                       ^^^^
              |
              = help: write at most `100%`

            error: tbf needs a `limit` or a `latency`
             --> tc.sh:7:1
              |
            7 | tc qdisc add dev eth0 root tbf rate 1mbit burst 10k
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: as in `tbf rate 1mbit burst 10kb latency 50ms`

            error: `gap` needs `reorder`
             --> tc.sh:8:38
              |
            8 | tc qdisc add dev eth0 root netem gap 5
              |                                      ^
              |
              = help: as in `delay 10ms reorder 100% gap 5`

            error: reorder needs a delay, which packets can skip
             --> tc.sh:9:1
              |
            9 | tc qdisc add dev eth0 root netem reorder 5%
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: as in `delay 10ms reorder 25%`"#]],
    );
    becomes(
        "tc qdisc add dev a root handle 1: drr\ntc class add dev a parent 1: classid 1:1 drr\n\
         tc filter add dev a parent 1: prio 1 matchall flowid 1:1",
        expect![[r#"
            error: the rate of a is unknown, and `drr` divides the time of a link
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev a root handle 1: drr
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: add `--rate RATE`"#]],
    );
    becomes(
        "",
        expect![[r#"
            error: no `tc qdisc add` makes a link
             --> tc.sh:1:1
              |
            1 |
              | ^
              |
              = help: add one, as in `tc qdisc add dev eth0 root netem delay 10ms`"#]],
    );
}

/// The leaves of a tree of htb: two below class 1:10, and two beside 1:10.
const LEAVES: [&str; 4] = ["11", "12", "20", "30"];

fn tree(rest: &str) -> String {
    let mut script = format!(
        "tc qdisc add dev e root handle 1: htb default {rest}\n\
         tc class add dev e parent 1: classid 1:1 htb rate 10mbit\n\
         tc class add dev e parent 1:1 classid 1:10 htb rate 4mbit\n"
    );
    for (leaf, parent) in LEAVES.iter().zip(["10", "10", "1", "1"]) {
        writeln!(script, "tc class add dev e parent 1:{parent} classid 1:{leaf} htb rate 2mbit")
            .expect("a text takes all");
    }
    script
}

#[test]
fn the_filter_that_takes_a_packet_says_its_class() {
    becomes(
        &(tree("12")
            + "tc filter add dev e parent 1: prio 1 u32 match ip dst 10.0.0.5/32 flowid 1:12\n\
               tc filter add dev e parent 1: prio 2 u32 match ip dst 10.0.0.0/24 flowid 1:11\n\
               tc filter add dev e parent 1: prio 3 u32 match ip dst 10.0.0.0/16 flowid 1:20\n\
               tc filter add dev e parent 1: prio 4 u32 match ip dst 10.0.0.0/8 flowid 1:11\n\
               tc filter add dev e parent 1: prio 5 u32 match ip dst 10.0.0.9/32 flowid 1:30"),
        expect![[r##"
            # note: 12: earlier filters take all packets for 1:30: it was left out
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: htb default 12
            [link.e.up]
            rate = "10mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-20]
            match = "dst 10.0.0.0/16 not dst 10.0.0.5/32 not dst 10.0.0.0/24"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-10]
            match = "any"
            rate = "4mbit"
            ceil = "4mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-10.flow.1-11]
            match = ["dst 10.0.0.0/24 not dst 10.0.0.5/32", "dst 10.0.0.0/8 not dst 10.0.0.5/32"]
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-10.flow.1-12]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"
        "##]],
    );
}

#[test]
fn of_filters_without_a_preference_the_newest_is_tried_first() {
    becomes(
        &(tree("30")
            + "tc filter add dev e parent 1: u32 match ip dst 10.0.0.0/24 flowid 1:11\n\
               tc filter add dev e parent 1: u32 match ip dst 10.0.0.5/32 flowid 1:20\n\
               tc filter add dev e parent 1: prio 9 u32 match ip dport 53 0xffff flowid 1:30"),
        expect![[r##"
            # note: 5: no filter sends packets to 1:12: it was left out
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: htb default 30
            [link.e.up]
            rate = "10mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-20]
            match = "dst 10.0.0.5/32 not ( ip dport 53 )"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-10]
            match = "dst 10.0.0.0/24 not ( ip dport 53 )"
            rate = "4mbit"
            ceil = "4mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-10.flow.1-11]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-30]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"
        "##]],
    );
}

#[test]
fn what_differs_is_said() {
    becomes(
        "tc qdisc add dev a root netem rate 1mbit loss 1% duplicate 2%\n\
         tc qdisc add dev b root handle 1: tbf rate 1mbit burst 1000b limit 9000b\n\
         tc qdisc add dev b parent 1: netem loss 1%\n\
         tc qdisc add dev c root netem limit 5000 delay 10ms loss 1%",
        expect![[r##"
            # note: 1: netem loses and duplicates packets before the rate, falaj after it: a lost packet has used the link, and copies do not use it
            # note: 2: tbf drops every packet larger than its burst of 1kB; here they pass
            # note: 3: netem loses and duplicates packets before the rate, falaj after it: a lost packet has used the link
            # note: 4: `limit` was left out: netem counts packets in transit, and without a rate falaj queues no packet
            # packets that a sends go up
            [link.a]
            rate = "unlimited"

            # tc qdisc add dev a root netem rate 1mbit loss 1% duplicate 2%
            [link.a.up]
            scheduler = { kind = "fifo", queue = "1000p" }
            rate = "1mbit"
            loss = { probability = "1%" }
            duplicate = { probability = "2%" }

            # packets that b sends go up
            [link.b]
            rate = "unlimited"

            # tc qdisc add dev b root handle 1: tbf rate 1mbit burst 1000b limit 9000b
            # tc qdisc add dev b parent 1: netem loss 1%
            [link.b.up]
            rate = "1mbit"
            burst = "1kB"
            scheduler = { kind = "fifo", queue = "9kB" }
            loss = { probability = "1%" }

            # packets that c sends go up
            [link.c]
            rate = "unlimited"

            # tc qdisc add dev c root netem limit 5000 delay 10ms loss 1%
            [link.c.up]
            delay = "10ms"
            loss = { probability = "1%" }
        "##]],
    );
}

#[test]
fn what_packets_cost() {
    becomes(
        "tc qdisc add dev a root handle 1: stab overhead 32 mtu 2048 tsize 128 mpu 0 linklayer atm tbf rate 1mbit burst 2k limit 9k\n\
         tc qdisc add dev b handle 1: root stab overhead -4 htb default 2\n\
         tc class add dev b parent 1: classid 1:1 htb rate 1mbit\n\
         tc class add dev b parent 1:1 classid 1:2 htb rate 1mbit\n\
         tc qdisc add dev c root stab overhead 8 netem rate 1mbit",
        expect![[r##"
            # note: 1: `mtu` was left out: the cost of each packet is computed, not read from a table
            # note: 1: `tsize` was left out: the cost of each packet is computed, not read from a table
            # note: 1: `mpu` was left out: it is zero
            # packets that a sends go up
            [link.a]
            rate = "unlimited"

            # tc qdisc add dev a root handle 1: stab overhead 32 mtu 2048 tsize 128 mpu 0 linklayer atm tbf rate 1mbit burst 2k limit 9k
            [link.a.up]
            overhead = "32B"
            cells = "atm"
            rate = "1mbit"
            burst = "2KiB"
            scheduler = { kind = "fifo", queue = "9KiB" }

            # packets that b sends go up
            [link.b]
            rate = "unlimited"

            # tc qdisc add dev b handle 1: root stab overhead -4 htb default 2
            [link.b.up]
            overhead = "-4B"
            rate = "1mbit"
            scheduler = { kind = "htb" }

            [link.b.up.flow.1-2]
            match = "any"
            rate = "1mbit"
            ceil = "1mbit"
            queue = "1000p"

            # packets that c sends go up
            [link.c]
            rate = "unlimited"

            # tc qdisc add dev c root stab overhead 8 netem rate 1mbit
            [link.c.up]
            overhead = "8B"
            scheduler = { kind = "fifo", queue = "1000p" }
            rate = "1mbit"
        "##]],
    );
    becomes(
        "tc qdisc add dev a root stab mpu 64 netem rate 1mbit\n\
         tc qdisc add dev a root stab linklayer ppp netem rate 1mbit\n\
         tc class add dev a parent 1: classid 1:1 stab overhead 4 htb rate 1mbit",
        expect![[r#"
            warning: `mpu` was left out: packets count with their own size and overhead here, also below 64 B
             --> tc.sh:1:30
              |
            1 | tc qdisc add dev a root stab mpu 64 netem rate 1mbit
              |                              ^^^

            error: `ppp` is not a link layer
             --> tc.sh:2:40
              |
            2 | tc qdisc add dev a root stab linklayer ppp netem rate 1mbit
              |                                        ^^^
              |
              = help: one of `ethernet`, `atm`, `adsl`

            error: `stab` of a class has no equivalent here
             --> tc.sh:3:42
              |
            3 | tc class add dev a parent 1: classid 1:1 stab overhead 4 htb rate 1mbit
              |                                          ^^^^
              |
              = help: a link has one overhead for all packets: give it to the `qdisc`"#]],
    );
    becomes(
        "tc qdisc add dev a root stab overhead 8 tbf rate 1mbit burst 2k limit 9k overhead 4",
        expect![[r#"
            error: a second overhead has no equivalent here
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev a root stab overhead 8 tbf rate 1mbit burst 2k limit 9k overhead 4
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: a link has one overhead for all packets: give it once"#]],
    );
}

#[test]
fn words_may_be_cut_short() {
    becomes(
        "tc q a dev a root netem delay 10ms\ntc qd r dev a root netem delay 20ms\ntc -s q s dev a\ntc q d dev b root\n\
         q a dev c root netem delay 1ms",
        expect![[r##"
            # note: 5: `q` is not a command of tc, and was left out
            # packets that a sends go up
            [link.a]
            rate = "unlimited"

            # tc qd r dev a root netem delay 20ms
            [link.a.up]
            delay = "20ms"
        "##]],
    );
    becomes(
        "tc x a dev a root netem\ntc q link dev a root netem",
        expect![[r#"
            error: `x` is not an object of tc that can be imported
             --> tc.sh:1:4
              |
            1 | tc x a dev a root netem
              |    ^
              |
              = help: one of `qdisc`, `class`, `filter`

            error: `link` is not a verb of tc that can be imported
             --> tc.sh:2:6
              |
            2 | tc q link dev a root netem
              |      ^^^^
              |
              = help: one of `add`, `replace`, `change`, `delete`, `show`, `list`, `ls`, `get`"#]],
    );
}

/// A discipline that only the packets of one class pass becomes a link before the device's link.
#[test]
fn what_is_below_a_class_is_a_link_before_it() {
    // The example of netem's manual page. The rate of the device is unknown, so no band waits for
    // another.
    becomes(
        "tc qdisc add dev eth0 root handle 1: prio\n\
         tc qdisc add dev eth0 parent 1:3 handle 30: tbf rate 20kbit buffer 1600 limit 3000\n\
         tc qdisc add dev eth0 parent 30:1 handle 31: netem delay 200ms 10ms distribution normal\n\
         tc filter add dev eth0 protocol ip parent 1:0 prio 3 u32 match ip dst 65.172.181.4/32 \
         flowid 1:3",
        expect![[r##"
            # note: 1: only filters and the type of service of IPv4 choose bands here; in tc also the priority that a program sets (`SO_PRIORITY`)
            # note: 1: the rate of eth0 is unknown, so no class waits for another: `--rate` sets it
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: prio
            [link.eth0.up]

            # packets of class 1:3 pass this link first
            # tc qdisc add dev eth0 parent 1:3 handle 30: tbf rate 20kbit buffer 1600 limit 3000
            # tc qdisc add dev eth0 parent 30:1 handle 31: netem delay 200ms 10ms distribution normal
            [link.eth0-1-3]
            rate = "20kbit"
            burst = "1600B"
            scheduler = { kind = "fifo", queue = "3kB" }
            delay = "200ms"
            jitter = { amount = "10ms", distribution = "normal", order = "free" }

            [[rule]]
            match = ["dst 65.172.181.4/32", "ip tos 0x08/0x18"]
            direction = "up"
            to = ["eth0-1-3", "eth0"]

            [[rule]]
            to = "eth0"
        "##]],
    );
    // The first matching filter decides, whatever is below its class; the default class comes last.
    becomes(
        &(tree("30")
            + "tc qdisc add dev e parent 1:30 handle 30: netem delay 20ms loss 1%\n\
               tc qdisc add dev e parent 30: handle 31: fq_codel\n\
               tc filter add dev e parent 1: protocol ip prio 1 flower ip_proto udp dst_port 53 flowid 1:11\n\
               tc filter add dev e parent 1: protocol ip prio 2 flower ip_proto tcp flowid 1:12\n\
               tc filter add dev e parent 1: protocol ip prio 3 flower dst_ip 10.0.0.0/8 flowid 1:20\n\
               tc qdisc add dev e parent 1:20 tbf rate 1mbit burst 2kb latency 50ms"),
        expect![[r##"
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: htb default 30
            [link.e.up]
            rate = "10mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-10]
            match = ["ip udp dport 53", "ip tcp"]
            rate = "4mbit"
            ceil = "4mbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-10.flow.1-11]
            match = "ip udp dport 53"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-10.flow.1-12]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-20]
            match = "dst 10.0.0.0/8"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [link.e.up.flow.1-30]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            scheduler = { kind = "fq_codel", ecn = "yes" }

            [link.e.up.flow.1-30.flow.all]
            match = "any"

            # packets of class 1:20 pass this link first
            # tc qdisc add dev e parent 1:20 tbf rate 1mbit burst 2kb latency 50ms
            [link.e-1-20]
            rate = "1mbit"
            burst = "2KiB"
            scheduler = { kind = "fifo", queue = "8298B" }

            # packets of class 1:30 pass this link first
            # tc qdisc add dev e parent 1:30 handle 30: netem delay 20ms loss 1%
            [link.e-1-30]
            rate = "unlimited"
            delay = "20ms"
            loss = { probability = "1%" }

            [[rule]]
            match = ["ip udp dport 53", "ip tcp"]
            direction = "up"
            to = "e"

            [[rule]]
            match = "dst 10.0.0.0/8"
            direction = "up"
            to = ["e-1-20", "e"]

            [[rule]]
            direction = "up"
            to = ["e-1-30", "e"]

            [[rule]]
            direction = "down"
            to = "e"
        "##]],
    );
    // Links before classes in both directions; and below a class of a discipline that is itself
    // below a class.
    becomes(
        "tc qdisc add dev eth0 handle ffff: ingress\n\
         tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0\n\
         tc qdisc add dev eth0 root handle 1: htb default 20\n\
         tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:10 htb rate 2mbit ceil 10mbit\n\
         tc class add dev eth0 parent 1:1 classid 1:20 htb rate 8mbit ceil 10mbit\n\
         tc qdisc add dev eth0 parent 1:10 handle 10: prio bands 2 \
         priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n\
         tc qdisc add dev eth0 parent 10:1 netem delay 5ms limit 30\n\
         tc filter add dev eth0 parent 1: u32 match ip protocol 17 0xff flowid 1:10\n\
         tc filter add dev eth0 parent 10: u32 match ip dport 53 0xffff flowid 10:1\n\
         tc qdisc add dev ifb0 root handle 1: htb default 10\n\
         tc class add dev ifb0 parent 1: classid 1:1 htb rate 10mbit\n\
         tc class add dev ifb0 parent 1:1 classid 1:10 htb rate 10mbit\n\
         tc qdisc add dev ifb0 parent 1:10 netem delay 30ms rate 5mbit",
        expect![[r##"
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 20
            [link.eth0.up]
            rate = "10mbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-10]
            match = "ip udp"
            rate = "2mbit"
            ceil = "10mbit"
            scheduler = { kind = "priority" }

            [link.eth0.up.flow.1-10.flow.10-1]
            match = "ip dport 53"
            priority = 0
            queue = "30p"

            [link.eth0.up.flow.1-10.flow.10-2]
            match = "any"
            priority = 1
            queue = "1000p"

            [link.eth0.up.flow.1-20]
            match = "any"
            rate = "8mbit"
            ceil = "10mbit"
            queue = "1000p"

            # packets of class 10:1 pass this link first
            # tc qdisc add dev eth0 parent 10:1 netem delay 5ms limit 30
            [link.eth0-10-1]
            rate = "unlimited"
            delay = "5ms"

            # tc qdisc add dev ifb0 root handle 1: htb default 10
            [link.eth0.down]
            rate = "10mbit"
            scheduler = { kind = "htb" }

            [link.eth0.down.flow.1-10]
            match = "any"
            rate = "10mbit"
            ceil = "10mbit"
            queue = "1000p"

            # packets of class 1:10 pass this link first
            # tc qdisc add dev ifb0 parent 1:10 netem delay 30ms rate 5mbit
            [link.ifb0-1-10]
            rate = "5mbit"
            scheduler = { kind = "fifo", queue = "1000p" }
            delay = "30ms"

            [[rule]]
            match = "ip udp dport 53"
            direction = "up"
            to = ["eth0-10-1", "eth0"]

            [[rule]]
            direction = "down"
            to = ["ifb0-1-10", "eth0"]

            [[rule]]
            direction = "up"
            to = "eth0"
        "##]],
    );
}

#[test]
fn links_below_classes_that_rules_cannot_lead_through_are_refused() {
    becomes(
        "tc qdisc add dev a root handle 1: prio\ntc qdisc add dev a parent 1:2 netem delay 5ms\n\
         tc filter add dev a parent 1: matchall flowid 1:2\ntc qdisc add dev b root netem delay 5ms",
        expect![[r#"
            warning: only filters and the type of service of IPv4 choose bands here; in tc also the priority that a program sets (`SO_PRIORITY`)
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev a root handle 1: prio
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            warning: earlier filters take all packets for 1:3: it was left out
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev a root handle 1: prio
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            warning: earlier filters take all packets for 1:1: it was left out
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev a root handle 1: prio
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            warning: the rate of a is unknown, so no class waits for another: `--rate` sets it
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev a root handle 1: prio
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error: a link for a part of the packets has no equivalent here
             --> tc.sh:2:1
              |
            2 | tc qdisc add dev a parent 1:2 netem delay 5ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: this needs rules, and there are several devices: import the commands of each device separately"#]],
    );
    becomes(
        "tc qdisc add dev e root handle 1: prio\ntc filter add dev e parent 1: matchall flowid 1:2\n\
         tc qdisc add dev e parent 1:2 handle 2: tbf rate 8mbit burst 2000b limit 30kb\n\
         tc qdisc add dev e parent 2: handle 3: prio\ntc qdisc add dev e parent 3:2 netem delay 5ms\n\
         tc filter add dev e parent 3: matchall flowid 3:2",
        expect![[r#"
            error: a `netem` or `tbf` below a class within another class has no equivalent here
             --> tc.sh:5:1
              |
            5 | tc qdisc add dev e parent 3:2 netem delay 5ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: the outer class has such a discipline too, and each would become a link: write the links in the scenario, and a rule that leads through all of them, `to = ["first", "second", "third"]`"#]],
    );
}

/// Conditions of filters, each with the values that meet it: destinations, ports, protocols.
const TO: &[(&str, &[&str])] = &[
    ("", &["10.0.0.5", "10.0.0.7", "10.0.9.9", "10.1.0.1"]),
    ("dst_ip 10.0.0.0/16", &["10.0.0.5", "10.0.0.7", "10.0.9.9"]),
    ("dst_ip 10.0.0.0/24", &["10.0.0.5", "10.0.0.7"]),
    ("dst_ip 10.0.0.5", &["10.0.0.5"]),
];
const PORTS: &[(&str, &[u16])] = &[("", &[53, 80]), ("dst_port 80", &[80])];
const PROTOCOLS: &[(&str, &[Protocol])] = &[
    ("", &[Protocol::UDP, Protocol::TCP]),
    ("ip_proto udp", &[Protocol::UDP]),
    ("ip_proto tcp", &[Protocol::TCP]),
];

#[derive(Debug, Clone)]
struct Looks {
    at: [usize; 3],
    /// The filter's preference, if it has one.
    prio: Option<u64>,
    leaf: usize,
}

fn looks() -> impl Strategy<Value = Looks> {
    let at = (0..TO.len(), 0..PORTS.len(), 0..PROTOCOLS.len());
    (at, proptest::option::of(1..4u64), 0..LEAVES.len()).prop_map(|((a, b, c), prio, leaf)| Looks {
        at: [a, b, c],
        prio,
        leaf,
    })
}

proptest! {
    #[test]
    fn packets_come_to_the_class_of_their_filter(
        filters in proptest::collection::vec(looks(), 0..9),
        rest in 0..LEAVES.len(),
    ) {
        let mut script = tree(LEAVES[rest]);
        for Looks { at: [to, ports, protocol], prio, leaf } in &filters {
            let prio = prio.map(|prio| format!("prio {prio}")).unwrap_or_default();
            let [to, ports, protocol] = [TO[*to].0, PORTS[*ports].0, PROTOCOLS[*protocol].0];
            writeln!(
                script,
                "tc filter add dev e parent 1: {prio} flower {protocol} {to} {ports} classid 1:{}",
                LEAVES[*leaf]
            )
            .expect("a text takes all");
        }
        // The kernel chooses falling preferences from a high number on.
        let mut order: Vec<usize> = (0..filters.len()).collect();
        order.sort_by_key(|n| {
            filters[*n].prio.map_or((u64::MAX, filters.len() - n), |prio| (prio, *n))
        });
        let imported = tc(&script, "a", &Host::default()).unwrap_or_else(|e| panic!("{e}"));
        let (scenario, _) =
            falaj_scenario::parse(&imported.scenario, "b").unwrap_or_else(|e| panic!("{e}"));
        let mut network = Network::new(&scenario.network()).expect("a network");
        for dst in TO[0].1 {
            for port in PORTS[0].1 {
                for protocol in PROTOCOLS[0].1 {
                    let takes = |n: &&usize| {
                        let [a, b, c] = filters[**n].at;
                        TO[a].1.contains(dst)
                            && PORTS[b].1.contains(port)
                            && PROTOCOLS[c].1.contains(protocol)
                    };
                    let leaf = LEAVES[order.iter().find(takes).map_or(rest, |n| filters[*n].leaf)];
                    let far = SocketAddr::new(dst.parse().expect("an address"), *port);
                    let key = Key::of_ordinary(
                        *protocol,
                        SocketAddr::from(([10, 9, 9, 9], 4000)),
                        far,
                        100,
                    );
                    let entry = network.route(&key, 0, 100, Time::ZERO).expect("a class takes it");
                    let flow = &scenario.links[0].up.flows[entry.flow.0 as usize].name;
                    prop_assert!(
                        flow.ends_with(&format!("1-{leaf}")),
                        "{} and not {}: {:?}\n{}\n{}",
                        flow,
                        leaf,
                        key,
                        script,
                        imported.scenario
                    );
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_refused(words in proptest::collection::vec(
        prop_oneof![
            "tc|qdisc|class|filter|add|del|dev|eth0|root|parent|handle|1:|1:1|10:|netem|tbf|prio|drr|qfq|ets|delay|loss|rate|limit|burst|latency",
            "htb|hfsc|red|codel|pie|fq_codel|fq_pie|fq|maxrate|cake|bandwidth|besteffort|overhead|sfq|cbs|default|10|sc|rt|ls|ul|m1|m2|d|umax|dmax|ceil|cburst|avpkt|min|max|target|interval|ecn|idleslope|sendslope|-9|matchall",
            "stab|overhead|linklayer|atm|prio|q|a|duplicate|classid|1:2|src|10\\.0\\.0\\.0/8",
            "10ms|1%|1mbit|1500|u32|match|ip|dport|80|0xffff|flowid|quantum|weight|bands|3|strict|quanta|\n|\\\\|'|\\$x|;|protocol|flower",
            "\\PC{0,5}",
        ], 0..40))
    {
        let text = words.join(" ");
        if let Ok(imported) = tc(&text, "a", &Host::default()) {
            prop_assert!(falaj_scenario::parse(&imported.scenario, "b").is_ok());
        }
    }
}

/// A device's name may contain characters that a scenario's comments cannot contain. The error is
/// reported at the line of the script, and not as an invalid scenario.
#[test]
fn a_name_may_have_what_no_comment_has() {
    let script = "tc qdisc add dev eth0 root netem delay 10ms\ntc qdisc add dev \u{1}\u{0}l root netem delay 2ms";
    let refused = tc(script, "tc.sh", &Host::default()).unwrap_err();
    assert_eq!((refused.problems().len(), refused.problems()[0].line), (1, 2));
    assert!(refused.problems()[0].title.contains("cannot be the name of a link"), "{refused}");
}

/// Chains of iptables become rules that packets skip to.
#[test]
fn chains_of_iptables() {
    becomes(
        "iptables -t mangle -N QOS_MARK_ge0\n\
         iptables -t mangle -A QOS_MARK_ge0 -j MARK --set-mark 0x2/0xff\n\
         iptables -t mangle -A QOS_MARK_ge0 -m dscp --dscp-class CS1 -j MARK --set-mark 0x3/0xff\n\
         iptables -t mangle -A QOS_MARK_ge0 -m tos --tos Minimize-Delay -j RETURN\n\
         iptables -t mangle -A QOS_MARK_ge0 -p udp -j EMPTY\n\
         iptables -t mangle -A POSTROUTING -o ge0 -m mark --mark 0x00/0xff -g QOS_MARK_ge0\n\
         iptables -t mangle -A POSTROUTING -o ge0 -p tcp -j MARK --set-mark 0x2/0xff\n\
         tc qdisc add dev ge0 root handle 1: htb default 12\n\
         tc class add dev ge0 parent 1: classid 1:12 htb rate 2mbit\n\
         tc class add dev ge0 parent 1: classid 1:13 htb rate 1mbit\n\
         tc filter add dev ge0 parent 1: handle 0x2/0xff fw flowid 1:12\n\
         tc filter add dev ge0 parent 1: handle 0x3/0xff fw flowid 1:13",
        expect![[r##"
            # note: 5: this rule of iptables was left out: it leads to no rule whose mark a filter of kind `fw` reads
            # note: 8: the rate of ge0 is unknown, and taken as 1000gbit: classes without a limit of their own never wait
            # packets that ge0 sends go up
            [link.ge0]
            rate = "unlimited"

            # tc qdisc add dev ge0 root handle 1: htb default 12
            [link.ge0.up]
            rate = "1000gbit"
            scheduler = { kind = "htb" }

            [link.ge0.up.flow.1-13]
            match = "mark 0x3/0xff"
            rate = "1mbit"
            ceil = "1mbit"
            queue = "1000p"

            [link.ge0.up.flow.1-12]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [[rule]]
            match = "ip mark 0x00/0xff"
            direction = "up"
            to = { skip-to = "up-1-QOS_MARK_ge0" }

            [[rule]]
            direction = "up"
            to = { skip-to = "up-2-after-QOS_MARK_ge0" }

            [[rule]]
            name = "up-1-QOS_MARK_ge0"
            match = "ip"
            direction = "up"
            mark = 0x2
            mark-mask = 0xff
            to = "pass"
            then = "on"

            [[rule]]
            match = "ip dscp cs1"
            direction = "up"
            mark = 0x3
            mark-mask = 0xff
            to = "pass"
            then = "on"

            [[rule]]
            match = "ip tos 0x10/0x3f"
            direction = "up"
            to = { skip-to = "up-3-after-POSTROUTING" }

            [[rule]]
            direction = "up"
            to = { skip-to = "up-3-after-POSTROUTING" }

            [[rule]]
            name = "up-2-after-QOS_MARK_ge0"
            match = "ip tcp"
            direction = "up"
            mark = 0x2
            mark-mask = 0xff
            to = "pass"
            then = "on"

            [[rule]]
            name = "up-3-after-POSTROUTING"
            direction = "up"
            to = "pass"
            then = "on"

            [[rule]]
            to = "ge0"
        "##]],
    );
}

/// The hardware queues of a card become one, as commands make them and as `tc qdisc show` prints
/// them.
#[test]
fn queues_of_a_card() {
    becomes(
        "tc qdisc add dev eth0 root handle 1: mq\n\
         tc qdisc add dev eth0 parent 1:1 handle 10: netem delay 10ms\n\
         tc qdisc add dev eth0 parent 1:2 handle 20: netem delay 10ms",
        expect![[r##"
            # note: 2: the hardware queues below `mq` become one queue with this discipline
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 parent 1:1 handle 10: netem delay 10ms
            [link.eth0.up]
            delay = "10ms"
        "##]],
    );
    becomes(
        "qdisc mq 0: dev eth0 root\n\
         qdisc pfifo_fast 0: dev eth0 parent :2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n\
         qdisc pfifo_fast 0: dev eth0 parent :1 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
        expect![[r##"
            # note: 2: the hardware queues below `mq` become one queue with this discipline
            # note: 2: the rate of eth0 is unknown, so no packet waits in the bands of `pfifo_fast`: `--rate` sets it
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # qdisc pfifo_fast 0: dev eth0 parent :2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1
            [link.eth0.up]
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: mq\n\
         tc qdisc add dev eth0 parent 1:1 fq_codel limit 100\n\
         tc qdisc add dev eth0 parent 1:2 fq_codel limit 200",
        expect![[r#"
            warning: the hardware queues below `mq` become one queue with this discipline
             --> tc.sh:2:1
              |
            2 | tc qdisc add dev eth0 parent 1:1 fq_codel limit 100
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error: another discipline for a hardware queue has no equivalent here
             --> tc.sh:3:1
              |
            3 | tc qdisc add dev eth0 parent 1:2 fq_codel limit 200
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: the hardware queues below `mq` become one: give all the same discipline"#]],
    );
}

/// Commands of iptables in their other forms: options before the chain, names of devices with `+`,
/// rules that are deleted by other words, rules by number, and rules of other tables.
#[test]
fn forms_of_iptables() {
    becomes(
        "iptables -v -t mangle -F\n\
         iptables --table=mangle -o eth+ -A POSTROUTING -p 17 -d 10.0.0.1/32 -j MARK --set-mark 1\n\
         iptables -tmangle -A POSTROUTING -p tcp -d 10.0.0.2 -j MARK --set-mark 1\n\
         iptables -4 -t mangle -D POSTROUTING -d 10.0.0.2/32 -p 6 -j MARK --set-mark 1\n\
         iptables -t mangle -D POSTROUTING 1\n\
         iptables -t mangle -R POSTROUTING 1 -j MARK --set-mark 1\n\
         iptables -A FORWARD -j MARK --set-mark 1\n\
         tc qdisc add dev eth0 root handle 1: htb default 10\n\
         tc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit\n\
         tc class add dev eth0 parent 1: classid 1:11 htb rate 1mbit\n\
         tc filter add dev eth0 parent 1: handle 1 fw flowid 1:11",
        expect![[r##"
            # note: 5: this rule of iptables was left out, because of `1`
            # note: 6: this rule of iptables was left out, because of `-R`
            # note: 7: this rule of iptables was left out, because of `MARK`
            # note: 8: the rate of eth0 is unknown, and taken as 1000gbit: classes without a limit of their own never wait
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root handle 1: htb default 10
            [link.eth0.up]
            rate = "1000gbit"
            scheduler = { kind = "htb" }

            [link.eth0.up.flow.1-11]
            match = "mark 1"
            rate = "1mbit"
            ceil = "1mbit"
            queue = "1000p"

            [link.eth0.up.flow.1-10]
            match = "any"
            rate = "1mbit"
            ceil = "1mbit"
            queue = "1000p"

            [[rule]]
            match = "udp dst 10.0.0.1"
            direction = "up"
            mark = 1
            to = "pass"
            then = "on"

            [[rule]]
            to = "eth0"
        "##]],
    );
}

/// Rules of iptables that mark packets are imported for filters that read marks; a note names each
/// rule that is left out.
#[test]
fn iptables_marks_packets_for_filters() {
    becomes(
        "iptables -t mangle -A POSTROUTING -j MARK --set-mark 5\n\
         iptables -t mangle -F POSTROUTING\n\
         iptables -t mangle -A POSTROUTING -o e -s 10.0.0.0/255.0.0.0 -j MARK --set-mark 0x10/0x30\n\
         ip6tables-nft -t mangle -A OUTPUT -p ipv6-icmp -j MARK --set-mark 7\n\
         iptables -t mangle -A POSTROUTING -o other -j MARK --set-mark 6\n\
         iptables -t mangle -A PREROUTING -i lan -j MARK --set-mark 6\n\
         iptables -t mangle -A POSTROUTING -j MARK --xor-mark 6\n\
         iptables -t mangle -A POSTROUTING -j MARK --or-mark 0\n\
         iptables -t mangle -A QOS -j MARK --set-mark 6\n\
         iptables -t mangle -I OUTPUT 3 -j MARK --set-mark 6\n\
         iptables -t mangle -A OUTPUT -s 10.0.0.0/255.0.255.0 -j MARK --set-mark 6\n\
         iptables -t mangle -A OUTPUT -p tcp --dport ssh -j MARK --set-mark 6\n\
         iptables -A INPUT -j ACCEPT\n\
         tc qdisc add dev e root handle 1: htb default 20\n\
         tc class add dev e parent 1: classid 1:10 htb rate 1mbit\n\
         tc class add dev e parent 1: classid 1:20 htb rate 2mbit\n\
         tc filter add dev e parent 1: handle 0x10/0x30 fw flowid 1:10\n\
         tc filter add dev e parent 1: handle 0x40 fw flowid 1:10",
        expect![[r##"
            # note: 4: in the kernel only packets of the host's own programs pass this chain; here all do
            # note: 5: this rule of iptables was left out: no filter of kind `fw` reads its mark, or no rule leads to its chain
            # note: 6: this rule of iptables was left out, because of `-i`
            # note: 7: this rule of iptables was left out, because of `--xor-mark`
            # note: 8: this rule of iptables was left out, because of `MARK`
            # note: 9: this rule of iptables was left out: no filter of kind `fw` reads its mark, or no rule leads to its chain
            # note: 10: this rule of iptables was left out, because of `3`
            # note: 11: this rule of iptables was left out, because of `10.0.0.0/255.0.255.0`
            # note: 12: this rule of iptables was left out, because of `ip tcp dport ssh`
            # note: 13: `iptables` is not a command of tc, and was left out
            # note: 14: the rate of e is unknown, and taken as 1000gbit: classes without a limit of their own never wait
            # note: 18: no rule sets the mark 64, so this filter matches no packet; with tc the firewall sets marks, in falaj a rule does
            # packets that e sends go up
            [link.e]
            rate = "unlimited"

            # tc qdisc add dev e root handle 1: htb default 20
            [link.e.up]
            rate = "1000gbit"
            scheduler = { kind = "htb" }

            [link.e.up.flow.1-10]
            match = ["mark 64", "mark 0x10/0x30"]
            rate = "1mbit"
            ceil = "1mbit"
            queue = "1000p"

            [link.e.up.flow.1-20]
            match = "any"
            rate = "2mbit"
            ceil = "2mbit"
            queue = "1000p"

            [[rule]]
            match = "ip6 icmp6"
            direction = "up"
            mark = 7
            to = "pass"
            then = "on"

            [[rule]]
            match = "src 10.0.0.0/8"
            direction = "up"
            mark = 0x10
            mark-mask = 0x30
            to = "pass"
            then = "on"

            [[rule]]
            to = "e"
        "##]],
    );
}
