//! Scripts of `ipfw`, and the scenarios that they become.

use expect_test::{Expect, expect};
use falaj_scenario::import::ipfw;
use proptest::prelude::*;

fn becomes(script: &str, expected: Expect) {
    match ipfw(script, "ipfw.sh") {
        Ok(imported) => {
            let notes = imported.notes.problems().iter().map(|p| format!("# note: {}: {}\n", p.line, p.title));
            expected.assert_eq(&(notes.collect::<String>() + &imported.scenario));
        }
        Err(errors) => expected.assert_eq(&errors.to_string()),
    }
}

#[test]
fn a_pipe_in_each_direction() {
    becomes(
        "ipfw add 100 pipe 1 ip from any to any out\n\
         ipfw add 200 pipe 2 ip from any to any in\n\
         ipfw pipe 1 config bw 1.5Mbit/s delay 50 queue 30KBytes plr 0.01\n\
         ipfw pipe 2 config bw 10Mbit/s delay 50",
        expect![[r##"
            # ipfw pipe 1 config bw 1.5Mbit/s delay 50 queue 30KBytes plr 0.01
            [link.pipe1]
            rate = "1500kbit"
            delay = "50ms"
            loss = "1%"
            scheduler = { kind = "fifo", queue = "30KiB" }

            # ipfw pipe 2 config bw 10Mbit/s delay 50
            [link.pipe2]
            rate = "10mbit"
            delay = "50ms"
            scheduler = { kind = "fifo", queue = "50p" }

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
            delay = "100ms"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config delay 10
            [link.pipe2]
            rate = "unlimited"
            delay = "10ms"
            scheduler = { kind = "fifo", queue = "50p" }

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
            # ipfw pipe 1 config bw 5Mbit/s mask dst-ip 0xffffffff
            [link.pipe1]
            rate = "5mbit"
            each = "dst"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config bw 100Mbit/s
            # ipfw sched 2 config type qfq
            [link.pipe2]
            rate = "100mbit"
            scheduler = { kind = "qfq" }

            # ipfw queue 1 config pipe 2 weight 10 mask src-ip 0xffffff00
            [link.pipe2.flow.queue1]
            match = "tcp dport 22"
            queue = "50p"
            weight = 10
            each = "src/24"

            # ipfw queue 2 config pipe 2 weight 1 queue 20
            [link.pipe2.flow.queue2]
            match = "any"
            queue = "20p"
            weight = 1

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
            # ipfw pipe 1 config bw 1Mbit/s
            [link.pipe1]
            rate = "1mbit"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 2 config bw 2Mbit/s
            [link.pipe2]
            rate = "2mbit"
            scheduler = { kind = "fifo", queue = "50p" }

            # ipfw pipe 3 config plr 0.001
            [link.pipe3]
            rate = "unlimited"
            loss = "0.1%"
            scheduler = { kind = "fifo", queue = "50p" }

            [table.table1]
            "10.1.0.0/16" = "pipe1"
            "10.2.0.0/16" = "pipe2"

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
        "##]],
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
         ipfw pipe 1 config mask src-ip 0xff00ff00\n\
         ipfw pipe 2 config red 0.002/5/10/0.1\n",
        expect![[r#"
            error: `tun0` does not begin with a number
             --> ipfw.sh:1:23
              |
            1 | ipfw pipe 1 config bw tun0
              |                       ^^^^
              |
              = help: as in `1.5Mbit/s` or `300KByte/s`

            error: `0` is out of range
             --> ipfw.sh:2:11
              |
            2 | ipfw pipe 0 config bw 1Mbit/s
              |           ^
              |
              = help: 1 to 65535

            error: `dealy` is not an option that can be imported
             --> ipfw.sh:3:31
              |
            3 | ipfw pipe 1 config bw 1Mbit/s dealy 10
              |                               ^^^^^ did you mean `delay`?
              |
              = help: one of `bw`, `delay`, `queue`, `burst`, `plr`, `mask`, `flow_mask`, `sched_mask`, `buckets`, `profile`, `weight`, `pipe`, `sched`, `type`, `droptail`, `noerror`, `lmax`, `pri`

            error: `fwd` has no equal here
             --> ipfw.sh:4:10
              |
            4 | ipfw add fwd 10.0.0.1 ip from any to any
              |          ^^^
              |
              = help: actions that can be imported: pipe, queue, allow, deny, count, skipto

            error: `me` has no equal here
             --> ipfw.sh:5:25
              |
            5 | ipfw add pipe 1 ip from me to any
              |                         ^^
              |
              = help: write the address: a scenario knows no host

            error: `keep-state` has no equal here
             --> ipfw.sh:6:36
              |
            6 | ipfw add pipe 1 ip from any to any keep-state
              |                                    ^^^^^^^^^^
              |
              = help: options that can be imported: in, out, via, recv, xmit, src-port, dst-port, src-ip, dst-ip, src-ip6, dst-ip6, proto, iplen, ipttl, dscp, tcpflags, setup, established, frag, layer2, bridged, not, //

            error: `this mask` has no equal here
             --> ipfw.sh:7:32
              |
            7 | ipfw pipe 1 config mask src-ip 0xff00ff00
              |                                ^^^^^^^^^^
              |
              = help: a mask has ones and then zeros, such as `0xffffff00` or `/24`

            error: `red` has no equal here
             --> ipfw.sh:8:20
              |
            8 | ipfw pipe 2 config red 0.002/5/10/0.1
              |                    ^^^
              |
              = help: write it into the scenario: `falaj explain queue`"#]],
    );
    becomes(
        "ipfw pipe 1 config bw 1Mbit/s\nipfw add pipe 9 ip from any to any out",
        expect![[r#"
        error: there is no pipe 9
         --> ipfw.sh:2:1
          |
        2 | ipfw add pipe 9 ip from any to any out
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    becomes(
        "",
        expect![[r#"
        error: there is no `pipe N config` in it, and so no link
         --> ipfw.sh:1:1
          |
        1 |
          | ^"#]],
    );
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_refused(words in proptest::collection::vec(
        prop_oneof![
            "ipfw|dnctl|add|pipe|queue|sched|table|config|1|2|100|prob|0\\.5|bw|1Mbit/s|delay|10|plr|mask|all|src-ip|0xffff|weight|type|qfq",
            "ip|udp|from|to|any|10\\.0\\.0\\.0/8|table\\(1\\)|in|out|not|skipto|allow|deny|\n|;|'|\\$x|\\{|\\}|or|tablearg",
            "\\PC{0,5}",
        ], 0..40))
    {
        let text = words.join(" ");
        if let Ok(imported) = ipfw(&text, "a") {
            prop_assert!(falaj_scenario::parse(&imported.scenario, "b").is_ok());
        }
    }
}
