//! Scripts of `tc`, and the scenarios that they become.

use expect_test::{Expect, expect};
use falaj_scenario::import::{Host, tc};
use proptest::prelude::*;

fn becomes(script: &str, expected: Expect) {
    becomes_at(script, &Host::default(), expected);
}

fn becomes_at(script: &str, host: &Host, expected: Expect) {
    match tc(script, "tc.sh", host) {
        Ok(imported) => {
            let notes = imported.notes.problems().iter().map(|p| format!("# note: {}: {}\n", p.line, p.title));
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
            # note: 1: correlated loss keeps its mean here; netem's loses far less than asked, often nothing
            # what eth0 sends goes up
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
            # what eth0 sends goes up
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
        # what eth0 sends goes up
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
            # what eth0 sends goes up
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

#[test]
fn what_comes_in_is_sent_by_another_device() {
    becomes(
        "modprobe ifb\nip link set ifb0 up\n\
         tc qdisc add dev eth0 handle ffff: ingress\n\
         tc filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0\n\
         tc qdisc add dev ifb0 root netem delay 50ms\ntc qdisc add dev eth0 root netem delay 30ms loss 1%",
        expect![[r##"
            # note: 1: `modprobe` is not a command of tc, and was left out
            # note: 2: `ip` is not a command of tc, and was left out
            # what eth0 sends goes up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root netem delay 30ms loss 1%
            [link.eth0.up]
            delay = "30ms"
            loss = { probability = "1%" }

            # tc qdisc add dev ifb0 root netem delay 50ms
            [link.eth0.down]
            delay = "50ms"
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
         tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip protocol 17 0xff match ip dport 5004 0xfffe flowid 1:1",
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
            # what eth0 sends goes up
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
            # note: 1: no filter sends to 1:3: it is left out
            # what eth0 sends goes up
            [link.eth0]
            rate = "1gbit"

            # tc qdisc add dev eth0 root handle 1: prio
            [link.eth0.up]
            scheduler = { kind = "priority" }

            [link.eth0.up.flow.1-1]
            match = "tcp dport 22"
            priority = 0
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
         tc filter add dev eth0 parent 2: u32 match ip dport 22 0xffff flowid 2:1\n\
         tc filter add dev eth0 parent 2: u32 match ip dport 80 0xffff flowid 2:2\n\
         tc filter add dev eth0 parent 2: u32 match ip dport 23 0xffff flowid 2:1",
        expect![[r##"
            # note: 5: filters of other classes stand before this one; here the rules of a flow stay together
            # what eth0 sends goes up
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
}

#[test]
fn what_has_no_equal_is_refused_line_by_line() {
    becomes(
        "tc qdisc add dev eth0 root netem delay 10\n\
         tc qdisc add dev eth0 root netem delya 10ms\n\
         tc qdisc add dev eth0 root cake bandwidth 10mbit\n\
         tc qdisc add root netem delay 1ms\n\
         tc qdisc add dev $DEV root netem loss 101%\n\
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
              = help: one of `s`, `sec`, `secs`, `ms`, `msec`, `msecs`, `us`, `usec`, `usecs`, `ns`, `nsec`, `nsecs`

            error: `delya` is not a parameter of netem
             --> tc.sh:2:34
              |
            2 | tc qdisc add dev eth0 root netem delya 10ms
              |                                  ^^^^^ did you mean `delay`?
              |
              = help: one of `limit`, `delay`, `distribution`, `loss`, `corrupt`, `duplicate`, `reorder`, `gap`, `rate`, `slot`, `ecn`, `seed`

            error: `cake` has no equal here
             --> tc.sh:3:28
              |
            3 | tc qdisc add dev eth0 root cake bandwidth 10mbit
              |                            ^^^^
              |
              = help: `falaj explain` tells which disciplines there are

            error: which device? `dev NAME` is missing
             --> tc.sh:4:1
              |
            4 | tc qdisc add root netem delay 1ms
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error: only a shell knows what this is
             --> tc.sh:5:18
              |
            5 | tc qdisc add dev $DEV root netem loss 101%
              |                  ^^^^
              |
              = help: let the shell print the commands as it runs them, as in `bash -x SCRIPT`, and import those

            error: `101%` is more than certain
             --> tc.sh:5:39
              |
            5 | tc qdisc add dev $DEV root netem loss 101%
              |                                       ^^^^
              |
              = help: write at most `100%`

            error: tbf needs a `limit` or a `latency`
             --> tc.sh:6:1
              |
            6 | tc qdisc add dev eth0 root tbf rate 1mbit burst 10k
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

            error: gap goes with reorder
             --> tc.sh:7:38
              |
            7 | tc qdisc add dev eth0 root netem gap 5
              |                                      ^
              |
              = help: as in `delay 10ms reorder 100% gap 5`

            error: reorder needs a delay, which packets can skip
             --> tc.sh:8:1
              |
            8 | tc qdisc add dev eth0 root netem reorder 5%
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: as in `delay 10ms reorder 25%`"#]],
    );
    becomes(
        "tc qdisc add dev a root handle 1: drr\ntc class add dev a parent 1: classid 1:1 drr",
        expect![[r#"
        error: nothing says how fast a is, and `drr` divides the time of a link
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
        error: there is no `tc qdisc add` in it, and so no link
         --> tc.sh:1:1
          |
        1 |
          | ^"#]],
    );
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_refused(words in proptest::collection::vec(
        prop_oneof![
            "tc|qdisc|class|filter|add|del|dev|eth0|root|parent|handle|1:|1:1|10:|netem|tbf|prio|drr|qfq|ets|delay|loss|rate|limit|burst|latency",
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
