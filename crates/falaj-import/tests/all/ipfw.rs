//! Scripts of `ipfw`, and the scenarios made from them.

use expect_test::{Expect, expect};
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::network::Network;
use falaj_import::{LastRule, ipfw};
use falaj_scenario::Towards;
use falaj_sched::units::time::Time;
use proptest::prelude::*;
use std::fmt::Write;
use std::net::SocketAddr;

fn becomes(script: &str, expected: Expect) {
    match ipfw(script, "ipfw.sh", None) {
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

/// Rules of pf send to pipes: the last matching rule decides, or the first `quick` one.
#[test]
fn rules_of_pf() {
    becomes(
        "sudo dnctl pipe 1 config bw 300Kbit/s delay 150\n\
         sudo dnctl pipe 2 config delay 20ms\n\
         sudo pfctl -e\n\
         echo \"dummynet in quick on en0 proto { tcp, udp } from any to any port {80, 8000:8010} pipe 1\" | sudo pfctl -f -\n\
         dummynet out from 10.0.0.0/8 to !192.0.2.1 pipe 2\n\
         dummynet out inet6 proto icmp6 all pipe 1",
        expect![[r##"
            # note: 3: this is not a command of dummynet or its rules, and was left out
            # note: 4: `en0` is the end of these links: rules need not name it
            # note: 4: this is not a command of dummynet or its rules, and was left out
            # note: 5: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # sudo dnctl pipe 1 config bw 300Kbit/s delay 150
            [link.pipe1]
            rate = "300kbit"
            layer = "ip"
            delay = "150ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # sudo dnctl pipe 2 config delay 20ms
            [link.pipe2]
            rate = "unlimited"
            layer = "ip"
            delay = "20ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # dummynet in quick on en0 proto { tcp , udp } from any to any port { 80 , 8000:8010 } pipe 1
            [[rule]]
            name = "100"
            match = "( tcp or udp ) dport 80,8000-8010"
            direction = "down"
            to = "pipe1"

            # dummynet out inet6 proto icmp6 all pipe 1
            [[rule]]
            name = "200"
            match = "icmp6 ip6"
            direction = "up"
            to = "pipe1"

            # dummynet out from 10.0.0.0/8 to ! 192.0.2.1 pipe 2
            [[rule]]
            name = "300"
            match = "src 10.0.0.0/8 not dst 192.0.2.1"
            direction = "up"
            to = "pipe2"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
    becomes(
        "dnctl pipe 1 config bw 3Mb\n\
         dnctl pipe 2 config bw 9MBit/s\n\
         pass out on vtnet0 proto tcp from any to any port https keep state dnpipe (1, 2)\n\
         match in proto udp to <dns> dnpipe 1",
        expect![[r#"
            error: `<dns>` has no equivalent here
             --> ipfw.sh:4:23
              |
            4 | match in proto udp to <dns> dnpipe 1
              |                       ^^^^^
              |
              = help: write the addresses, or `any`: a scenario has no tables of pf and no host's interfaces"#]],
    );
}

/// Rulesets in the style of firewalls: loopback first, `return`, `me`, names of ports.
#[test]
fn rules_as_firewalls_have_them() {
    becomes(
        "/sbin/ipfw -q flush\n\
         ipfw pipe 7 config bw 20Mb delay 50 noerror buckets 64\n\
         ipfw sched 7 config pipe 7 type fq_codel target 6ms quantum 1500 codel ecn\n\
         ipfw queue 7 config pipe 7 mask dst-ip6 /128 dst-ip 0xffffffff\n\
         ipfw pipe 8 config delay 30ms\n\
         ipfw queue 8 config pipe 8 weight 3\n\
         ipfw add 10 set 3 allow log all from any to any via lo0\n\
         ipfw add 20 deny ip from any to 127.0.0.1/8\n\
         ipfw add 30 return via any\n\
         ipfw add 40 queue 7 tcp from any to me ssh,8000-8010 in via igc0\n\
         ipfw add 50 queue 8 from me to any",
        expect![[r##"
            # note: 2: `noerror` was left out: falaj reports no drop to a sender in any case
            # note: 2: `buckets` was left out: a lookup takes equally long for any number of queues
            # note: 3: `fq_codel` keeps its own queues short: the AQM of the pipe was left out
            # note: 5: no packet waits in a pipe without a bandwidth: its queues were left out
            # note: 7: packets of the loopback interface pass no link: this rule is left out
            # note: 7: `set` was left out: rules of all sets hold
            # note: 7: `log` was left out: nothing is logged; rules count their packets
            # note: 8: `127.0.0.1/8` is `127.0.0.0/8`
            # note: 9: `return` was left out: no rule calls another, so packets continue with the next rule
            # note: 10: `me` is the near end of the link: packets to it come down
            # note: 10: `igc0` is the end of these links: rules need not name it
            # note: 11: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # note: 11: `me` is the near end of the link: packets from it go up
            # ipfw pipe 7 config bw 20Mb delay 50 noerror buckets 64
            # ipfw sched 7 config pipe 7 type fq_codel target 6ms quantum 1500 codel ecn
            [link.pipe7]
            rate = "20mbit"
            layer = "ip"
            delay = "50ms"
            scheduler = { kind = "fq_codel", ecn = "yes", target = "6ms", quantum = "1500B" }

            # ipfw queue 7 config pipe 7 mask dst-ip6 /128 dst-ip 0xffffffff
            [link.pipe7.flow.queue7]
            match = "tcp dport 22,8000-8010"
            mask = "dst"

            # ipfw pipe 8 config delay 30ms
            [link.pipe8]
            rate = "unlimited"
            layer = "ip"
            delay = "30ms"

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 20 deny ip from any to 127.0.0.1/8
            [[rule]]
            name = "20"
            match = "dst 127.0.0.0/8"
            to = "drop"

            # ipfw add 40 queue 7 tcp from any to me ssh,8000-8010 in via igc0
            [[rule]]
            name = "40"
            match = "tcp dport 22,8000-8010"
            direction = "down"
            to = "pipe7"

            # ipfw add 50 queue 8 from me to any
            [[rule]]
            name = "50"
            match = "any"
            direction = "up"
            to = "pipe8"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
    becomes(
        "fwcmd=\"/sbin/ipfw -q\"\n\
         $fwcmd pipe 1 config bw 5Mbit/s\n\
         ${fwcmd} add pipe 1 ip from any to any out\n\
         ipfw pipe 1 config bw $RATE\n\
         $other pipe 2 config delay 5",
        expect![[r#"
            error: only a shell can expand this
             --> ipfw.sh:4:23
              |
            4 | ipfw pipe 1 config bw $RATE
              |                       ^^^^^
              |
              = help: `falaj import` runs such a script in a sandbox, unless `--no-run` forbids it

            error: only a shell can expand this
             --> ipfw.sh:5:1
              |
            5 | $other pipe 2 config delay 5
              | ^^^^^^
              |
              = help: `falaj import` runs such a script in a sandbox, unless `--no-run` forbids it"#]],
    );
}

#[test]
fn a_pipe_in_each_direction() {
    becomes(
        "ipfw add 100 pipe 1 ip from any to any out\n\
         ipfw add 200 pipe 2 ip from any to any in\n\
         ipfw pipe 1 config bw 1.5Mbit/s delay 50 queue 30KBytes plr 0.01\n\
         ipfw pipe 2 config bw 10Mbit/s delay 50",
        expect![[r##"
            # note: 3: dummynet loses packets before the queue, falaj after the rate: a lost packet has used the link
            # ipfw pipe 1 config bw 1.5Mbit/s delay 50 queue 30KBytes plr 0.01
            [link.pipe1]
            rate = "1500kbit"
            layer = "ip"
            delay = "50ms"
            loss = "1%"
            scheduler = { kind = "fifo", queue = "30KiB" }

            # ipfw pipe 2 config bw 10Mbit/s delay 50
            [link.pipe2]
            rate = "10mbit"
            layer = "ip"
            delay = "50ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 100 pipe 1 ip from any to any out
            [[rule]]
            name = "100"
            match = "any"
            direction = "up"
            to = "pipe1"

            # ipfw add 200 pipe 2 ip from any to any in
            [[rule]]
            name = "200"
            match = "any"
            direction = "down"
            to = "pipe2"
        "##]],
    );
}

#[test]
fn packets_reorder_by_chance() {
    becomes(
        "ipfw add prob 0.3 pipe 1 udp from 10.0.0.0/8 to any 5000-5010,80 out\n\
         ipfw add pipe 2 ip from any to any out\n\
         ipfw add allow ip from any to any\n\
         ipfw pipe 1 config delay 100\n\
         ipfw pipe 2 config delay 10",
        expect![[r##"
            # ipfw pipe 1 config delay 100
            [link.pipe1]
            rate = "unlimited"
            layer = "ip"
            delay = "100ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config delay 10
            [link.pipe2]
            rate = "unlimited"
            layer = "ip"
            delay = "10ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add prob 0.3 pipe 1 udp from 10.0.0.0/8 to any 5000-5010,80 out
            [[rule]]
            name = "100"
            match = "udp src 10.0.0.0/8 dport 5000-5010,80"
            direction = "up"
            probability = "30%"
            to = "pipe1"

            # ipfw add pipe 2 ip from any to any out
            [[rule]]
            name = "200"
            match = "any"
            direction = "up"
            to = "pipe2"

            # ipfw add allow ip from any to any
            [[rule]]
            name = "300"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn a_pipe_for_each_customer() {
    becomes(
        "ipfw pipe 1 config bw 5Mbit/s mask dst-ip 0xffffffff\n\
         ipfw add pipe 1 ip from any to 10.1.0.0/16 in\n\
         ipfw sched 2 config type qfq\nipfw pipe 2 config bw 100Mbit/s\n\
         ipfw queue 1 config pipe 2 weight 10 mask src-ip 0xffffff00\nipfw queue 2 config pipe 2 weight 1 queue 20\n\
         ipfw add queue 1 tcp from any to any 22 out\nipfw add queue 2 ip from any to any out",
        expect![[r##"
            # note: 8: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 5Mbit/s mask dst-ip 0xffffffff
            [link.pipe1]
            rate = "5mbit"
            layer = "ip"
            mask = "dst"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config bw 100Mbit/s
            # ipfw sched 2 config type qfq
            [link.pipe2]
            rate = "100mbit"
            layer = "ip"
            scheduler = { kind = "qfq" }

            # ipfw queue 1 config pipe 2 weight 10 mask src-ip 0xffffff00
            [link.pipe2.flow.queue1]
            match = "tcp dport 22"
            queue = "50p"
            weight = 10
            mask = "src/24"

            # ipfw queue 2 config pipe 2 weight 1 queue 20
            [link.pipe2.flow.queue2]
            match = "any"
            queue = "20p"
            weight = 1

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add pipe 1 ip from any to 10.1.0.0/16 in
            [[rule]]
            name = "100"
            match = "dst 10.1.0.0/16"
            direction = "down"
            to = "pipe1"

            # ipfw add queue 1 tcp from any to any 22 out
            [[rule]]
            name = "200"
            match = "tcp dport 22"
            direction = "up"
            to = "pipe2"

            # ipfw add queue 2 ip from any to any out
            [[rule]]
            name = "300"
            match = "any"
            direction = "up"
            to = "pipe2"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn chains_and_tables() {
    becomes(
        "sysctl net.inet.ip.fw.one_pass=0\n\
         ipfw table 1 add 10.1.0.0/16 1\nipfw table 1 add 10.2.0.0/16 2\n\
         ipfw pipe 1 config bw 1Mbit/s\nipfw pipe 2 config bw 2Mbit/s\nipfw pipe 3 config plr 0.001\n\
         ipfw add 10 pipe 3 ip from any to any out\n\
         ipfw add 20 pipe tablearg ip from table(1) to any out\n\
         ipfw add 30 skipto 50 tcp from any to any established\n\
         ipfw add 40 deny icmp from any to any\n\
         ipfw add 50 allow ip from any to not 10.9.0.0/16",
        expect![[r##"
            # note: 11: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 1Mbit/s
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config bw 2Mbit/s
            [link.pipe2]
            rate = "2mbit"
            layer = "ip"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 3 config plr 0.001
            [link.pipe3]
            rate = "unlimited"
            layer = "ip"
            loss = "0.1%"
            scheduler = { kind = "fifo", queue = "50p" }

            [table.table1]
            "10.1.0.0/16" = "pipe1"
            "10.2.0.0/16" = "pipe2"

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 10 pipe 3 ip from any to any out
            [[rule]]
            name = "10"
            match = "any"
            direction = "up"
            to = "pipe3"
            then = "on"

            # ipfw add 20 pipe tablearg ip from table(1) to any out
            [[rule]]
            name = "20"
            match = "src table table1"
            direction = "up"
            to = { table = "table1", by = "src" }
            then = "on"

            # ipfw add 30 skipto 50 tcp from any to any established
            [[rule]]
            name = "30"
            match = "tcp ( flags ack or flags rst )"
            to = { skip-to = "50" }

            # ipfw add 40 deny icmp from any to any
            [[rule]]
            name = "40"
            match = "icmp"
            to = "drop"

            # ipfw add 50 allow ip from any to not 10.9.0.0/16
            [[rule]]
            name = "50"
            match = "not dst 10.9.0.0/16"
            to = "pass"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn policies_and_fair_queues() {
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s queue 60 red 0.002/5/15/0.1 ecn\n\
         ipfw pipe 2 config bw 1Mbit/s queue 60KB gred 0.002/5000/15000/0.02\n\
         ipfw pipe 3 config bw 1Mbit/s codel target 10 interval 200ms ecn\n\
         ipfw pipe 4 config bw 2Mbit/s plr 0.001,0.01,0.5,0.2\n\
         ipfw sched 4 config type fq_codel target 4ms flows 64 noecn\n\
         ipfw queue 1 config sched 4\n\
         ipfw pipe 5 config bw 3Mbit/s\n\
         ipfw sched 5 config type rr mask src-ip 0xffffffff\n\
         ipfw queue 2 config sched 5 weight 2 pie target 20ms tupdate 30 max_burst 100ms capdrop ts\n\
         ipfw add pipe 1 udp from any to any out\nipfw add pipe 2 icmp from any to any out\n\
         ipfw add pipe 3 ip from any to any 22 in\nipfw add queue 1 tcp from any to any out\n\
         ipfw add queue 2 tcp from any to any in",
        expect![[r##"
            # note: 4: dummynet loses packets before the queue, falaj after the rate: a lost packet has used the link
            # note: 9: `capdrop` was left out: it is always on, as in RFC 8033
            # note: 9: `ts` was left out: falaj measures the waiting time of each packet
            # note: 14: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 1Mbit/s queue 60 red 0.002/5/15/0.1 ecn
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"

            [link.pipe1.flow.all]
            match = "any"
            queue = { limit = "60p", policy = "red", min = "5p", max = "15p", probability = "10%", weight = "0.2%", ecn = "yes" }

            # ipfw pipe 2 config bw 1Mbit/s queue 60KB gred 0.002/5000/15000/0.02
            [link.pipe2]
            rate = "1mbit"
            layer = "ip"

            [link.pipe2.flow.all]
            match = "any"
            queue = { limit = "60KiB", policy = "gred", min = "5kB", max = "15kB", probability = "2%", weight = "0.2%" }

            # ipfw pipe 3 config bw 1Mbit/s codel target 10 interval 200ms ecn
            [link.pipe3]
            rate = "1mbit"
            layer = "ip"

            [link.pipe3.flow.all]
            match = "any"
            queue = { limit = "50p", policy = "codel", target = "10ms", interval = "200ms", ecn = "yes" }

            # ipfw pipe 4 config bw 2Mbit/s plr 0.001,0.01,0.5,0.2
            # ipfw sched 4 config type fq_codel target 4ms flows 64 noecn
            [link.pipe4]
            rate = "2mbit"
            layer = "ip"
            loss = { kind = "gilbert-elliott", to-bad = "1%", to-good = "20%", loss-bad = "50%", loss-good = "0.1%" }
            scheduler = { kind = "fq_codel", target = "4ms", queues = 64 }

            # ipfw queue 1 config sched 4
            [link.pipe4.flow.queue1]
            match = "tcp"

            # ipfw pipe 5 config bw 3Mbit/s
            # ipfw sched 5 config type rr mask src-ip 0xffffffff
            [link.pipe5]
            rate = "3mbit"
            layer = "ip"
            mask = "src"
            scheduler = { kind = "drr" }

            # ipfw queue 2 config sched 5 weight 2 pie target 20ms tupdate 30 max_burst 100ms capdrop ts
            [link.pipe5.flow.queue2]
            match = "tcp"
            queue = { limit = "50p", policy = "pie", target = "20ms", update = "30ms", burst = "100ms" }
            quantum = "3000B"

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add pipe 1 udp from any to any out
            [[rule]]
            name = "100"
            match = "udp"
            direction = "up"
            to = "pipe1"

            # ipfw add pipe 2 icmp from any to any out
            [[rule]]
            name = "200"
            match = "icmp"
            direction = "up"
            to = "pipe2"

            # ipfw add pipe 3 ip from any to any 22 in
            [[rule]]
            name = "300"
            match = "dport 22"
            direction = "down"
            to = "pipe3"

            # ipfw add queue 1 tcp from any to any out
            [[rule]]
            name = "400"
            match = "tcp"
            direction = "up"
            to = "pipe4"

            # ipfw add queue 2 tcp from any to any in
            [[rule]]
            name = "500"
            match = "tcp"
            direction = "down"
            to = "pipe5"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
    becomes(
        "ipfw pipe 1 config red 5/15\n\
         ipfw pipe 1 config codel alpha 1\n\
         ipfw pipe 1 config pie alpha 0.3\n\
         ipfw pipe 1 config pie onoff\n\
         ipfw sched 1 config type fq_red\n\
         ipfw pipe 1 config plr 0.1,0.2\n\
         ipfw pipe 1 config mask queue 1\n\
         ipfw pipe 1 config ecn",
        expect![[r#"
            error: `5/15` is not four numbers
             --> ipfw.sh:1:24
              |
            1 | ipfw pipe 1 config red 5/15
              |                        ^^^^
              |
              = help: w_q/min_th/max_th/max_p, as in `red 0.002/5/15/0.1`

            error: `alpha` is not an option that can be imported
             --> ipfw.sh:2:26
              |
            2 | ipfw pipe 1 config codel alpha 1
              |                          ^^^^^
              |
              = help: one of `bw`, `bandwidth`, `delay`, `queue`, `burst`, `plr`, `mask`, `flow_mask`, `sched_mask`, `buckets`, `profile`, `weight`, `pipe`, `sched`, `flowset`, `type`, `droptail`, `noerror`, `lmax`, `maxlen`, `pri`, `red`, `gred`, `codel`, `pie`

            error: `alpha 0.3` has no equivalent here
             --> ipfw.sh:3:30
              |
            3 | ipfw pipe 1 config pie alpha 0.3
              |                              ^^^
              |
              = help: a gain is a multiple of 0.0625 (a sixteenth), from 0 to 2

            error: `onoff` has no equivalent here
             --> ipfw.sh:4:24
              |
            4 | ipfw pipe 1 config pie onoff
              |                        ^^^^^
              |
              = help: PIE is that of RFC 8033, whose probability is capped and spread, and which is always on: leave this out

            error: `fq_red` is not a type of scheduler
             --> ipfw.sh:5:26
              |
            5 | ipfw sched 1 config type fq_red
              |                          ^^^^^^
              |
              = help: one of `fifo`, `wf2q+`, `rr`, `qfq`, `prio`, `fq_codel`, `fq_pie`

            error: `0.1,0.2` is not a loss
             --> ipfw.sh:6:24
              |
            6 | ipfw pipe 1 config plr 0.1,0.2
              |                        ^^^^^^^
              |
              = help: a probability, `0.01`, or K,p,H,r of two states, `0.001,0.01,0.5,0.2`

            error: `mask queue` has no equivalent here
             --> ipfw.sh:7:25
              |
            7 | ipfw pipe 1 config mask queue 1
              |                         ^^^^^
              |
              = help: each queue of a pipe is a flow of its own already

            error: `ecn` needs a policy
             --> ipfw.sh:8:20
              |
            8 | ipfw pipe 1 config ecn
              |                    ^^^
              |
              = help: as in `red 0.002/5/15/0.1 ecn`"#]],
    );
}

#[test]
fn rules_look_at_what_ipfw_looks_at() {
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s\nipfw table 7 add 10.0.0.0/8\n\
         ipfw add pipe 1 { tcp or udp } from 10.0.0.0:255.0.0.0 to any out via em0\n\
         ipfw add pipe 1 ip from any to any { dst-port 80,443 or src-port 22 } in recv em0\n\
         ipfw add pipe 1 ip from any to any dscp ef,af41,be ipversion 4 frag out\n\
         ipfw add pipe 1 ip from any to any not { proto icmp or proto 47 } lookup dst-ip 7 out\n\
         ipfw add pipe 1 mac-type 0x0806 MAC any 02:00:00:00:00:01 in",
        expect![[r##"
            # note: 3: `em0` is the end of these links: rules need not name it
            # note: 7: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 1Mbit/s
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"
            scheduler = { kind = "fifo", queue = "50p" }

            [table.table7]
            "10.0.0.0/8" = ""

            # ipfw add pipe 1 { tcp or udp } from 10.0.0.0:255.0.0.0 to any out via em0
            [[rule]]
            name = "100"
            match = "( tcp or udp ) src 10.0.0.0/8"
            direction = "up"
            to = "pipe1"

            # ipfw add pipe 1 ip from any to any { dst-port 80,443 or src-port 22 } in recv em0
            [[rule]]
            name = "200"
            match = "( dport 80,443 or sport 22 )"
            direction = "down"
            to = "pipe1"

            # ipfw add pipe 1 ip from any to any dscp ef,af41,be ipversion 4 frag out
            [[rule]]
            name = "300"
            match = "( dscp ef or dscp af41 or dscp 0 ) ip ( fragment not first-fragment )"
            direction = "up"
            to = "pipe1"

            # ipfw add pipe 1 ip from any to any not { proto icmp or proto 47 } lookup dst-ip 7 out
            [[rule]]
            name = "400"
            match = "not ( icmp or proto 47 ) dst table table7"
            direction = "up"
            to = "pipe1"

            # ipfw add pipe 1 mac-type 0x0806 MAC any 02:00:00:00:00:01 in
            [[rule]]
            name = "500"
            match = "( ether 0x0806 ) mac-src 02:00:00:00:00:01"
            direction = "down"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
    becomes(
        "ipfw add pipe 1 ip from any to any out via em0\nipfw add pipe 1 ip from any to any in via em1\nipfw pipe 1 config delay 1",
        expect![[r#"
            error: `in` beside `out` has no equivalent here
             --> ipfw.sh:2:1
              |
            2 | ipfw add pipe 1 ip from any to any in via em1
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: ipfw checks a packet twice between two interfaces, falaj once: write all rules for packets that go `out`

            warning: packets that match no rule pass, as on macOS, OPNsense and pfSense
             --> ipfw.sh:2:1
              |
            2 | ipfw add pipe 1 ip from any to any in via em1
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `--default deny` drops them, as FreeBSD's kernel does by default

            warning: `em0` is the far end of these links, and `em1` the near one: packets that go out by the first, or come in by the second, go up
             --> ipfw.sh:2:43
              |
            2 | ipfw add pipe 1 ip from any to any in via em1
              |                                           ^^^"#]],
    );
    becomes(
        "ipfw add count ip from any to any iptos lowdelay\n\
         ipfw add count ip from any to any uid 0\n\
         ipfw add reject ip from any to any\n\
         ipfw add count ip from any to 1.2.3.0/24{1,7}\n\
         ipfw add count ip from any to 1.2.3.4:255.0.255.0\n\
         ipfw add count ip from any to any { in or out }\n\
         ipfw add count ip from any to any via em*\n\
         ipfw add count ip from any to any { dst-port 1",
        expect![[r#"
            error: `iptos` has no equivalent here
             --> ipfw.sh:1:35
              |
            1 | ipfw add count ip from any to any iptos lowdelay
              |                                   ^^^^^
              |
              = help: rules cannot match this field: `falaj explain match` lists the fields that they can match

            error: `uid` has no equivalent here
             --> ipfw.sh:2:35
              |
            2 | ipfw add count ip from any to any uid 0
              |                                   ^^^
              |
              = help: a packet on a link does not tell which process sent it

            error: `reject` has no equivalent here
             --> ipfw.sh:3:10
              |
            3 | ipfw add reject ip from any to any
              |          ^^^^^^
              |
              = help: falaj does not answer on behalf of the other end: `deny` drops

            error: a set of last bytes has no equivalent here
             --> ipfw.sh:4:31
              |
            4 | ipfw add count ip from any to 1.2.3.0/24{1,7}
              |                               ^^^^^^^^^^^^^^^
              |
              = help: write the addresses separately, as a list or as prefixes

            error: this mask has no equivalent here
             --> ipfw.sh:5:31
              |
            5 | ipfw add count ip from any to 1.2.3.4:255.0.255.0
              |                               ^^^^^^^^^^^^^^^^^^^
              |
              = help: a mask has ones and then zeros, such as `:255.255.0.0`

            error: a block with directions or interfaces has no equivalent here
             --> ipfw.sh:6:37
              |
            6 | ipfw add count ip from any to any { in or out }
              |                                     ^^
              |
              = help: directions and interfaces hold for a whole rule: write two rules

            error: this choice of interfaces has no equivalent here
             --> ipfw.sh:7:39
              |
            7 | ipfw add count ip from any to any via em*
              |                                       ^^^
              |
              = help: a link has two ends, and `in` and `out` select the direction: name one interface, or two

            error: `1` needs the end of the block, `}`
             --> ipfw.sh:8:46
              |
            8 | ipfw add count ip from any to any { dst-port 1
              |                                              ^"#]],
    );
}

#[test]
fn what_has_no_equal_is_refused_line_by_line() {
    becomes(
        "ipfw pipe 1 config bw tun0\n\
         ipfw pipe 0 config bw 1Mbit/s\n\
         ipfw pipe 1 config bw 1Mbit/s dealy 10\n\
         ipfw add fwd 10.0.0.1 ip from any to any\n\
         ipfw add pipe 1 ip from me to any\n\
         ipfw add pipe 1 ip from any to any keep-state\n\
         ipfw pipe 1 config mask src-ip 0x1ff00ff00\n\
         ipfw pipe 2 config dre 1\n",
        expect![[r#"
            error: a device as the clock of a pipe has no equivalent here
             --> ipfw.sh:1:23
              |
            1 | ipfw pipe 1 config bw tun0
              |                       ^^^^
              |
              = help: write a bandwidth, as in `1.5Mbit/s` or `300KByte/s`

            error: `0` is not the number of a pipe, queue or scheduler
             --> ipfw.sh:2:11
              |
            2 | ipfw pipe 0 config bw 1Mbit/s
              |           ^
              |
              = help: write 1 to 65535

            error: `dealy` is not an option that can be imported
             --> ipfw.sh:3:31
              |
            3 | ipfw pipe 1 config bw 1Mbit/s dealy 10
              |                               ^^^^^ did you mean `delay`?
              |
              = help: one of `bw`, `bandwidth`, `delay`, `queue`, `burst`, `plr`, `mask`, `flow_mask`, `sched_mask`, `buckets`, `profile`, `weight`, `pipe`, `sched`, `flowset`, `type`, `droptail`, `noerror`, `lmax`, `maxlen`, `pri`, `red`, `gred`, `codel`, `pie`

            error: `fwd` has no equivalent here
             --> ipfw.sh:4:10
              |
            4 | ipfw add fwd 10.0.0.1 ip from any to any
              |          ^^^
              |
              = help: a link leads only to its other end

            warning: `me` is the near end of the link: packets from it go up
             --> ipfw.sh:5:25
              |
            5 | ipfw add pipe 1 ip from me to any
              |                         ^^

            error: `keep-state` has no equivalent here
             --> ipfw.sh:6:36
              |
            6 | ipfw add pipe 1 ip from any to any keep-state
              |                                    ^^^^^^^^^^
              |
              = help: rules match packets, not connections

            error: this mask has no equivalent here
             --> ipfw.sh:7:32
              |
            7 | ipfw pipe 1 config mask src-ip 0x1ff00ff00
              |                                ^^^^^^^^^^^
              |
              = help: this field has 32 bits: write a number up to `0xffffffff`, or a length up to `/32`

            error: `dre` is not an option that can be imported
             --> ipfw.sh:8:20
              |
            8 | ipfw pipe 2 config dre 1
              |                    ^^^
              |
              = help: one of `bw`, `bandwidth`, `delay`, `queue`, `burst`, `plr`, `mask`, `flow_mask`, `sched_mask`, `buckets`, `profile`, `weight`, `pipe`, `sched`, `flowset`, `type`, `droptail`, `noerror`, `lmax`, `maxlen`, `pri`, `red`, `gred`, `codel`, `pie`"#]],
    );
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s\nipfw add pipe 9 ip from any to any out",
        expect![[r#"
            error: there is no pipe 9
             --> ipfw.sh:2:1
              |
            2 | ipfw add pipe 9 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: add `pipe 9 config …`

            warning: packets that match no rule pass, as on macOS, OPNsense and pfSense
             --> ipfw.sh:2:1
              |
            2 | ipfw add pipe 9 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `--default deny` drops them, as FreeBSD's kernel does by default"#]],
    );
    becomes(
        "",
        expect![[r#"
            error: there is no `pipe N config`, and so no link
             --> ipfw.sh:1:1
              |
            1 |
              | ^
              |
              = help: add one, as in `ipfw pipe 1 config bw 1Mbit/s delay 10`"#]],
    );
}

/// Two queues of one pipe.
const QUEUES: &str = "ipfw pipe 1 config bw 10Mbit/s\nipfw queue 1 config pipe 1 weight 10\nipfw queue 2 config pipe 1 weight 1\n";

fn queues_become(rules: &str, expected: Expect) {
    becomes(&format!("{QUEUES}{rules}"), expected);
}

#[test]
fn the_rule_that_takes_a_packet_says_its_queue() {
    queues_become(
        "ipfw add queue 1 ip from any to any out\nipfw add queue 2 ip from any to any in",
        expect![[r##"
            # ipfw pipe 1 config bw 10Mbit/s
            [link.pipe1]
            rate = "10mbit"
            layer = "ip"
            scheduler = { kind = "wf2q+" }

            # ipfw queue 1 config pipe 1 weight 10
            [link.pipe1.up.flow.queue1]
            match = "any"
            queue = "50p"
            weight = 10

            # ipfw queue 2 config pipe 1 weight 1
            [link.pipe1.down.flow.queue2]
            match = "any"
            queue = "50p"
            weight = 1

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add queue 1 ip from any to any out
            [[rule]]
            name = "100"
            match = "any"
            direction = "up"
            to = "pipe1"

            # ipfw add queue 2 ip from any to any in
            [[rule]]
            name = "200"
            match = "any"
            direction = "down"
            to = "pipe1"
        "##]],
    );
    queues_become(
        "ipfw add 10 skipto 30 ip from any to 10.1.0.0/16 out\n\
         ipfw add 20 queue 1 ip from any to any out\nipfw add 30 queue 2 ip from any to any out",
        expect![[r##"
            # note: 6: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 10Mbit/s
            [link.pipe1]
            rate = "10mbit"
            layer = "ip"
            scheduler = { kind = "wf2q+" }

            # ipfw queue 1 config pipe 1 weight 10
            [link.pipe1.flow.queue1]
            match = "not dst 10.1.0.0/16"
            queue = "50p"
            weight = 10

            # ipfw queue 2 config pipe 1 weight 1
            [link.pipe1.flow.queue2]
            match = "any"
            queue = "50p"
            weight = 1

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 10 skipto 30 ip from any to 10.1.0.0/16 out
            [[rule]]
            name = "10"
            match = "dst 10.1.0.0/16"
            direction = "up"
            to = { skip-to = "30" }

            # ipfw add 20 queue 1 ip from any to any out
            [[rule]]
            name = "20"
            match = "any"
            direction = "up"
            to = "pipe1"

            # ipfw add 30 queue 2 ip from any to any out
            [[rule]]
            name = "30"
            match = "any"
            direction = "up"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
    queues_become(
        "ipfw add 10 queue 1 ip from any to 10.0.0.5 out\n\
         ipfw add 20 queue 2 ip from any to 10.0.0.0/24 out\n\
         ipfw add 30 queue 1 ip from any to 10.0.0.0/16 out",
        expect![[r##"
            # note: 6: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 10Mbit/s
            [link.pipe1]
            rate = "10mbit"
            layer = "ip"
            scheduler = { kind = "wf2q+" }

            # ipfw queue 1 config pipe 1 weight 10
            [link.pipe1.flow.queue1]
            match = ["dst 10.0.0.5", "dst 10.0.0.0/16 not dst 10.0.0.0/24"]
            queue = "50p"
            weight = 10

            # ipfw queue 2 config pipe 1 weight 1
            [link.pipe1.flow.queue2]
            match = "dst 10.0.0.0/24"
            queue = "50p"
            weight = 1

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 10 queue 1 ip from any to 10.0.0.5 out
            [[rule]]
            name = "10"
            match = "dst 10.0.0.5"
            direction = "up"
            to = "pipe1"

            # ipfw add 20 queue 2 ip from any to 10.0.0.0/24 out
            [[rule]]
            name = "20"
            match = "dst 10.0.0.0/24"
            direction = "up"
            to = "pipe1"

            # ipfw add 30 queue 1 ip from any to 10.0.0.0/16 out
            [[rule]]
            name = "30"
            match = "dst 10.0.0.0/16"
            direction = "up"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn where_packets_do_not_tell_the_queue_it_is_refused() {
    queues_become(
        "ipfw add 20 prob 0.5 queue 2 ip from any to any out\nipfw add 30 queue 1 ip from any to any out",
        expect![[r#"
            error: a random choice sends the same packets to queue 2 and to queue 1 of one pipe
             --> ipfw.sh:4:1
              |
            4 | ipfw add 20 prob 0.5 queue 2 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: fields of the packets distinguish the flows of a link: give queue 2 a pipe of its own, and send to that, `prob P pipe N …`

            warning: packets that match no rule pass, as on macOS, OPNsense and pfSense
             --> ipfw.sh:5:1
              |
            5 | ipfw add 30 queue 1 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `--default deny` drops them, as FreeBSD's kernel does by default"#]],
    );
    queues_become(
        "ipfw add 10 prob 0.5 skipto 30 ip from any to any out\n\
         ipfw add 20 queue 1 ip from any to any out\nipfw add 30 queue 2 ip from any to any out",
        expect![[r#"
            error: a random choice sends the same packets to queue 1 and to queue 2 of one pipe
             --> ipfw.sh:5:1
              |
            5 | ipfw add 20 queue 1 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: fields of the packets distinguish the flows of a link: give queue 1 a pipe of its own, and send to that, `prob P pipe N …`

            warning: packets that match no rule pass, as on macOS, OPNsense and pfSense
             --> ipfw.sh:6:1
              |
            6 | ipfw add 30 queue 2 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `--default deny` drops them, as FreeBSD's kernel does by default"#]],
    );
    queues_become(
        "ipfw disable one_pass\nipfw add queue 2 udp from any to any out\nipfw add queue 1 ip from any to any out\n\
         ipfw add allow ip from any to any",
        expect![[r#"
            error: these packets were in queue 2 of the same pipe before, and one_pass is 0
             --> ipfw.sh:6:1
              |
            6 | ipfw add queue 1 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: fields of the packets distinguish the flows of a link: give queue 1 a pipe of its own"#]],
    );
    queues_become(
        "ipfw add queue 2 udp from any to any out\nipfw add pipe 1 ip from any to any out",
        expect![[r#"
            warning: no rule sends packets to this queue: it was left out
             --> ipfw.sh:2:1
              |
            2 | ipfw queue 1 config pipe 1 weight 10
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error: pipe 1 has queues, and this rule sends to none of them
             --> ipfw.sh:5:1
              |
            5 | ipfw add pipe 1 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: in ipfw the rule has a link of its own: configure another such pipe for its packets

            warning: packets that match no rule pass, as on macOS, OPNsense and pfSense
             --> ipfw.sh:5:1
              |
            5 | ipfw add pipe 1 ip from any to any out
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `--default deny` drops them, as FreeBSD's kernel does by default"#]],
    );
    queues_become(
        "ipfw table 1 add 10.0.0.0/8 1\nipfw add queue tablearg ip from table(1) to any out",
        expect![[r#"
        error: `queue tablearg` has no equivalent here
         --> ipfw.sh:5:10
          |
        5 | ipfw add queue tablearg ip from table(1) to any out
          |          ^^^^^
          |
          = help: in falaj, tables select links: write a rule for each queue, `queue 1 ip from 10.1.0.0/16 to any`"#]],
    );
}

#[test]
fn a_queue_that_gets_nothing_is_left_out() {
    queues_become(
        "ipfw add 20 prob 0.5 queue 2 udp from any to any out\nipfw add 30 queue 2 udp from any to any out\n\
         ipfw add 40 queue 1 tcp from any to any out\nipfw queue 3 config pipe 1\n\
         ipfw add 50 queue 3 tcp from any to any 53 out",
        expect![[r##"
            # note: 8: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 10Mbit/s
            [link.pipe1]
            rate = "10mbit"
            layer = "ip"
            scheduler = { kind = "wf2q+" }

            # ipfw queue 2 config pipe 1 weight 1
            [link.pipe1.flow.queue2]
            match = "udp"
            queue = "50p"
            weight = 1

            # ipfw queue 1 config pipe 1 weight 10
            [link.pipe1.flow.queue1]
            match = "tcp"
            queue = "50p"
            weight = 10

            # ipfw queue 3 config pipe 1
            [link.pipe1.flow.queue3]
            match = "tcp dport 53"
            queue = "50p"
            weight = 1

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 20 prob 0.5 queue 2 udp from any to any out
            [[rule]]
            name = "20"
            match = "udp"
            direction = "up"
            probability = "50%"
            to = "pipe1"

            # ipfw add 30 queue 2 udp from any to any out
            [[rule]]
            name = "30"
            match = "udp"
            direction = "up"
            to = "pipe1"

            # ipfw add 40 queue 1 tcp from any to any out
            [[rule]]
            name = "40"
            match = "tcp"
            direction = "up"
            to = "pipe1"

            # ipfw add 50 queue 3 tcp from any to any 53 out
            [[rule]]
            name = "50"
            match = "tcp dport 53"
            direction = "up"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn rules_may_share_a_number() {
    becomes(
        "ipfw pipe 1 config delay 10\nipfw pipe 2 config delay 20\n\
         ipfw add 100 skipto 200 icmp from any to any\nipfw add 100 pipe 1 ip from any to any out\n\
         ipfw add 200 count ip from any to any\nipfw add 200 pipe 2 ip from any to any out\n\
         ipfw add deny ip from any to any",
        expect![[r##"
            # ipfw pipe 1 config delay 10
            [link.pipe1]
            rate = "unlimited"
            layer = "ip"
            delay = "10ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config delay 20
            [link.pipe2]
            rate = "unlimited"
            layer = "ip"
            delay = "20ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 100 skipto 200 icmp from any to any
            [[rule]]
            name = "100"
            match = "icmp"
            to = { skip-to = "200" }

            # ipfw add 100 pipe 1 ip from any to any out
            [[rule]]
            name = "100-2"
            match = "any"
            direction = "up"
            to = "pipe1"

            # ipfw add 200 count ip from any to any
            [[rule]]
            name = "200"
            match = "any"
            to = { skip-to = "200-2" }

            # ipfw add 200 pipe 2 ip from any to any out
            [[rule]]
            name = "200-2"
            match = "any"
            direction = "up"
            to = "pipe2"

            # ipfw add deny ip from any to any
            [[rule]]
            name = "300"
            match = "any"
            to = "drop"
        "##]],
    );
}

#[test]
fn rules_behind_all_others_that_only_count_are_left_out() {
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s\nipfw add 50 skipto 200 udp from any to any\n\
         ipfw add 100 pipe 1 ip from any to any\nipfw add 200 count ip from any to any",
        expect![[r##"
            # note: 3: without `in` or `out` both directions share the pipe in ipfw; here each has its own
            # note: 3: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # note: 4: this rule counts packets after all other rules; it was left out
            # ipfw pipe 1 config bw 1Mbit/s
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"
            scheduler = { kind = "fifo", queue = "50p" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add 50 skipto 200 udp from any to any
            [[rule]]
            name = "50"
            match = "udp"
            to = { skip-to = "last" }

            # ipfw add 100 pipe 1 ip from any to any
            [[rule]]
            name = "100"
            match = "any"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn masks_keep_the_last_bits_of_addresses() {
    becomes(
        "ipfw add pipe 1 ip from 192.168.2.0/24 to any out\nipfw add pipe 2 ip from any to 192.168.2.0/24 in\n\
         ipfw pipe 1 config mask src-ip 0x000000ff bw 200Kbit/s queue 20Kbytes\n\
         ipfw pipe 2 config mask dst-ip 0x000000ff bw 200Kbit/s queue 20Kbytes",
        expect![[r##"
            # note: 2: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config mask src-ip 0x000000ff bw 200Kbit/s queue 20Kbytes
            [link.pipe1]
            rate = "200kbit"
            layer = "ip"
            mask = "src/0x000000ff"
            scheduler = { kind = "fifo", queue = "20KiB" }

            # ipfw pipe 2 config mask dst-ip 0x000000ff bw 200Kbit/s queue 20Kbytes
            [link.pipe2]
            rate = "200kbit"
            layer = "ip"
            mask = "dst/0x000000ff"
            scheduler = { kind = "fifo", queue = "20KiB" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add pipe 1 ip from 192.168.2.0/24 to any out
            [[rule]]
            name = "100"
            match = "src 192.168.2.0/24"
            direction = "up"
            to = "pipe1"

            # ipfw add pipe 2 ip from any to 192.168.2.0/24 in
            [[rule]]
            name = "200"
            match = "dst 192.168.2.0/24"
            direction = "down"
            to = "pipe2"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

#[test]
fn what_stands_where_it_cannot_says_so() {
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s type rr\nipfw queue 1 config pipe 1 weight 2\nipfw queue 2 config pipe 1\n\
         ipfw add queue 1 udp from any to any out\nipfw add queue 2 ip from any to any out",
        expect![[r##"
            # note: 5: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 1Mbit/s type rr
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"
            scheduler = { kind = "drr" }

            # ipfw queue 1 config pipe 1 weight 2
            [link.pipe1.flow.queue1]
            match = "udp"
            queue = "50p"
            quantum = "3000B"

            # ipfw queue 2 config pipe 1
            [link.pipe1.flow.queue2]
            match = "any"
            queue = "50p"
            quantum = "1500B"

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add queue 1 udp from any to any out
            [[rule]]
            name = "100"
            match = "udp"
            direction = "up"
            to = "pipe1"

            # ipfw add queue 2 ip from any to any out
            [[rule]]
            name = "200"
            match = "any"
            direction = "up"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
    becomes(
        "ipfw queue 1 config pipe 1 type fifo\n\
         ipfw queue 1 config pipe 1 bw 1Mbit/s\n\
         ipfw queue 1 config pipe 1 plr 0.1\n\
         ipfw pipe 1 config pipe 2\n\
         ipfw sched 1 config pipe 2 type rr\n\
         ipfw pipe 1 config droptail red 0.002/5/15/0.1 codel\n\
         ipfw set disable 3",
        expect![[r#"
            error: `type` is for a `pipe` or a `sched`, and this is a `queue`
             --> ipfw.sh:1:28
              |
            1 | ipfw queue 1 config pipe 1 type fifo
              |                            ^^^^
              |
              = help: write it in the `config` of a `pipe` or a `sched`

            error: `bw` is for a `pipe`, and this is a `queue`
             --> ipfw.sh:2:28
              |
            2 | ipfw queue 1 config pipe 1 bw 1Mbit/s
              |                            ^^
              |
              = help: write it in the `config` of a `pipe`

            error: `plr` of a queue has no equivalent here
             --> ipfw.sh:3:28
              |
            3 | ipfw queue 1 config pipe 1 plr 0.1
              |                            ^^^
              |
              = help: a link loses packets, whatever their queue: give this queue a pipe of its own

            error: `pipe` is for a `queue`, and this is a `pipe`
             --> ipfw.sh:4:20
              |
            4 | ipfw pipe 1 config pipe 2
              |                    ^^^^
              |
              = help: write it in the `config` of a `queue`

            error: a scheduler for a pipe of another number has no equivalent here
             --> ipfw.sh:5:26
              |
            5 | ipfw sched 1 config pipe 2 type rr
              |                          ^
              |
              = help: the scheduler of a pipe has its number: `sched 2 config …`

            error: `codel`: a queue has one policy
             --> ipfw.sh:6:48
              |
            6 | ipfw pipe 1 config droptail red 0.002/5/15/0.1 codel
              |                                                ^^^^^
              |
              = help: keep one of `red`, `gred`, `codel` and `pie`

            error: `set` has no equivalent here
             --> ipfw.sh:7:6
              |
            7 | ipfw set disable 3
              |      ^^^
              |
              = help: falaj has no sets of rules: leave out those that are disabled; `falaj set` changes a running link"#]],
    );
    becomes(
        "ipfw add prob 0.05 deny ip from any to any in",
        expect![[r#"
        error: there is no `pipe N config`, and so no link
         --> ipfw.sh:1:1
          |
        1 | ipfw add prob 0.05 deny ip from any to any in
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          |
          = help: let a pipe lose them: `ipfw pipe 1 config plr P` and `ipfw add pipe 1 …` in place of `prob P deny`; in a scenario that is `loss = "5%"` of a link"#]],
    );
}

#[test]
fn what_differs_is_said() {
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s plr 0.01\nsysctl net.inet.ip.fw.one_pass=0\nipfw add pipe 1 ip from any to any out",
        expect![[r##"
            # note: 1: dummynet loses packets before the queue, falaj after the rate: a lost packet has used the link
            # note: 3: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 1Mbit/s plr 0.01
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"
            loss = "1%"
            scheduler = { kind = "fifo", queue = "50p" }

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add pipe 1 ip from any to any out
            [[rule]]
            name = "100"
            match = "any"
            direction = "up"
            to = "pipe1"
            then = "on"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

/// dummynet stores `pri` and never uses it: the weight is the priority.
#[test]
fn pri_means_nothing_and_that_is_said() {
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s\nipfw sched 1 config type prio\nipfw queue 1 config sched 1 pri 5 weight 3\n\
         ipfw add queue 1 ip from any to any out",
        expect![[r##"
            # note: 3: `pri` was left out, because dummynet ignores it: under `type prio` the `weight` is the priority
            # note: 4: packets that match no rule pass, as on macOS, OPNsense and pfSense
            # ipfw pipe 1 config bw 1Mbit/s
            # ipfw sched 1 config type prio
            [link.pipe1]
            rate = "1mbit"
            layer = "ip"
            scheduler = { kind = "priority" }

            # ipfw queue 1 config sched 1 pri 5 weight 3
            [link.pipe1.flow.queue1]
            match = "any"
            queue = "50p"
            priority = 3

            # frames other than IP, such as ARP, meet no rule
            [[rule]]
            name = "no-ip"
            match = "not ( ip or ip6 )"
            to = "pass"

            # ipfw add queue 1 ip from any to any out
            [[rule]]
            name = "100"
            match = "any"
            direction = "up"
            to = "pipe1"

            # the last rule, built into the platform
            [[rule]]
            name = "last"
            match = "any"
            to = "pass"
        "##]],
    );
}

/// Conditions of rules, each with the values that meet it: destinations, ports, protocols,
/// directions.
const TO: &[(&str, &[&str])] = &[
    ("any", &["10.0.0.5", "10.0.0.7", "10.0.9.9", "10.1.0.1"]),
    ("10.0.0.0/8", &["10.0.0.5", "10.0.0.7", "10.0.9.9", "10.1.0.1"]),
    ("10.0.0.0/16", &["10.0.0.5", "10.0.0.7", "10.0.9.9"]),
    ("10.0.0.0/24", &["10.0.0.5", "10.0.0.7"]),
    ("10.0.0.5", &["10.0.0.5"]),
    ("not 10.0.0.0/24", &["10.0.9.9", "10.1.0.1"]),
];
const PORTS: &[(&str, &[u16])] =
    &[("", &[53, 80, 85]), ("80", &[80]), ("80-90", &[80, 85]), ("53,85", &[53, 85])];
const PROTOCOLS: &[(&str, &[Protocol])] = &[
    ("ip", &[Protocol::UDP, Protocol::TCP]),
    ("udp", &[Protocol::UDP]),
    ("tcp", &[Protocol::TCP]),
];
const WAYS: &[(&str, &[usize])] = &[("", &[0, 1]), ("out", &[0]), ("in", &[1])];

/// A rule that sends to a queue, or skips a number of rules.
#[derive(Debug, Clone)]
struct Rule {
    looks: [usize; 4],
    queue: Option<u64>,
    skips: usize,
}

fn rule() -> impl Strategy<Value = Rule> {
    let looks = (0..TO.len(), 0..PORTS.len(), 0..PROTOCOLS.len(), 0..WAYS.len());
    let queue = prop_oneof![3 => (1..4u64).prop_map(Some), 1 => Just(None)];
    (looks, queue, 1..4usize).prop_map(|((a, b, c, d), queue, skips)| Rule {
        looks: [a, b, c, d],
        queue,
        skips,
    })
}

proptest! {
    #[test]
    fn packets_come_to_the_queue_of_their_rule(
        mut rules in proptest::collection::vec(rule(), 1..9),
    ) {
        rules.push(Rule { looks: [0; 4], queue: Some(1), skips: 1 });
        let mut script = String::from("ipfw pipe 1 config bw 1Mbit/s\n");
        for queue in 1..4 {
            writeln!(script, "ipfw queue {queue} config pipe 1 weight {queue}")
                .expect("a text takes all");
        }
        let target = |n: usize| (n + rules[n].skips).min(rules.len() - 1);
        for (n, Rule { looks: [to, ports, protocol, way], queue, .. }) in rules.iter().enumerate() {
            let action = match queue {
                Some(queue) => format!("queue {queue}"),
                None => format!("skipto {}", 10 * (target(n) + 1)),
            };
            let [protocol, to, ports, way] =
                [PROTOCOLS[*protocol].0, TO[*to].0, PORTS[*ports].0, WAYS[*way].0];
            writeln!(
                script,
                "ipfw add {} {action} {protocol} from any to {to} {ports} {way}",
                10 * (n + 1)
            )
            .expect("a text takes all");
        }
        let imported = ipfw(&script, "a", Some(LastRule::Deny)).unwrap_or_else(|e| panic!("{e}"));
        let (scenario, _) =
            falaj_scenario::parse(&imported.scenario, "b").unwrap_or_else(|e| panic!("{e}"));
        let mut network = Network::new(&scenario.network()).expect("a network");
        for dst in TO[0].1 {
            for port in PORTS[0].1 {
                for protocol in PROTOCOLS[0].1 {
                    for way in 0..2 {
                        let takes = |rule: &Rule| {
                            let [a, b, c, d] = rule.looks;
                            TO[a].1.contains(dst)
                                && PORTS[b].1.contains(port)
                                && PROTOCOLS[c].1.contains(protocol)
                                && WAYS[d].1.contains(&way)
                        };
                        let mut n = 0;
                        let queue = loop {
                            match rules[n].queue {
                                _ if !takes(&rules[n]) => n += 1,
                                Some(queue) => break queue,
                                None => n = target(n),
                            }
                        };
                        let far = SocketAddr::new(dst.parse().expect("an address"), *port);
                        let key = Key::of_ordinary(
                            *protocol,
                            SocketAddr::from(([10, 9, 9, 9], 4000)),
                            far,
                            100,
                        );
                        let entry =
                            network.route(&key, way, 100, Time::ZERO).expect("a rule takes it");
                        let direction =
                            scenario.links[0].direction([Towards::Up, Towards::Down][way]);
                        let flow = &direction.flows[entry.flow.0 as usize].name;
                        prop_assert_eq!(
                            flow,
                            &format!("queue{queue}"),
                            "{:?}\n{}\n{}",
                            key,
                            script,
                            imported.scenario
                        );
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_refused(words in proptest::collection::vec(
        prop_oneof![
            "ipfw|dnctl|add|pipe|queue|sched|table|config|1|2|100|prob|0\\.5|bw|1Mbit/s|delay|10|plr|mask|all|src-ip|0xffff|weight|type|qfq",
            "red|gred|codel|pie|fq_codel|fq_pie|ecn|target|5ms|0\\.002/5/15/0\\.1|0\\.1,0\\.2,0\\.3,0\\.4|via|em0|mac-type|lookup|dscp|ef|frag|ipversion|4|burst|queue|50|profile",
            "set|0x000000ff|/8|disable|one_pass|flush|rr|sched_mask",
            "ip|udp|from|to|any|10\\.0\\.0\\.0/8|table\\(1\\)|in|out|not|skipto|allow|deny|\n|;|'|\\$x|\\{|\\}|or|tablearg",
            "\\PC{0,5}",
        ], 0..40))
    {
        let text = words.join(" ");
        if let Ok(imported) = ipfw(&text, "a", None) {
            prop_assert!(falaj_scenario::parse(&imported.scenario, "b").is_ok());
        }
    }
}
