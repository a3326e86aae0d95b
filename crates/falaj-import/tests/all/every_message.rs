//! Every error and warning about a script of `tc` or `ipfw`, or of `netconfig`, is in some test.
//! This file has the messages that no other test has.

#[path = "../../../falaj-scenario/tests/all/every_message/scan.rs"]
mod scan;

use falaj_import::{Host, ipfw, netconfig, tc};
use falaj_scenario::Severity;
use scan::said;

#[test]
fn scripts_of_tc() {
    let htb = "tc qdisc add dev eth0 root handle 1: htb default 10\ntc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit\n";
    let police = |words: &str| {
        format!(
            "tc qdisc add dev eth0 ingress\n\
             tc filter add dev eth0 parent ffff: basic police {words} flowid :1"
        )
    };
    let prio = "tc qdisc add dev eth0 root handle 1: prio bands 2 \
                priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
    for (text, title) in [
        ("tc qdisc add dev eth0 root", "the kind of the discipline is missing"),
        (
            "if true; then tc qdisc add dev eth0 root netem delay 1ms; fi",
            "only a shell can decide which of the following lines run",
        ),
        (
            &format!("{prio}tc filter add dev eth0 parent 1: handle 0x3/0x1 fw flowid 1:1"),
            "this mark has bits that its mask leaves out",
        ),
        (
            &format!(
                "{prio}tc filter add dev eth0 parent 1: u32 match ip dport 1 0x10000 flowid 1:1"
            ),
            "a mask of ports has 16 bits",
        ),
        (
            &format!("{prio}tc filter add dev eth0 parent 1: u32 match ip tos 1 0x100 flowid 1:1"),
            "a mask of the type of service has 8 bits",
        ),
        (
            "tc qdisc add dev eth0 root handle 1: hfsc default 10\ntc class add dev eth0 parent 1: classid 1:20 hfsc ls rate 1mbit",
            "the default class 1:10 does not exist, or has classes below it",
        ),
        (
            "tc qdisc add dev eth0 root netem delay 1ms\ntc qdisc del dev eth0 root",
            "this removes what the lines before added",
        ),
        (
            "tc qdisc add dev eth0 root handle 1: fq_codel\ntc qdisc add dev eth0 parent 1: netem delay 1ms",
            "this discipline is below a discipline without classes",
        ),
        (
            &format!("{htb}tc class add dev eth0 parent 1: classid 1:10 htb rate 2mbit"),
            "there is such a class already: tc refuses this line",
        ),
        (
            "tc class add dev eth0 parent 1: htb rate 1mbit",
            "the class has no number: `classid` is missing",
        ),
        ("tc class add dev eth0 parent 1: classid 1:10", "the kind of the class is missing"),
        ("tc filter add dev eth0 parent 1: protocol ip", "the kind of the filter is missing"),
        (
            &format!("{prio}tc filter add dev eth0 parent 1: fw flowid 1:1"),
            "the mark is missing: write `handle MARK` before `fw`",
        ),
        (
            &format!("{prio}tc filter add dev eth0 parent 1: handle 0x100000000 fw flowid 1:1"),
            "a mark has 32 bits",
        ),
        ("tc qdisc add dev eth0 root netem parent 1:", "`parent` belongs before the kind"),
        (
            "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 0xffff",
            "the filter names no class: `flowid CLASS` is missing",
        ),
        (
            "tc qdisc add dev eth0 root netem delay 10ms distribution normal",
            "there is no jitter to which this distribution applies",
        ),
        (
            "tc filter add dev eth0 parent 1: protocol ip flower ip_proto icmp dst_port 80 flowid 1:1",
            "this becomes `ip icmp dport 80`: `icmp` has no ports",
        ),
        ("tc qdisc add dev eth0 root prio bands 1", "`1` is not a number of bands of prio"),
        ("tc qdisc add dev eth0 root ets bands 17", "`17` is not a number of bands of ets"),
        (
            "tc qdisc add dev eth0 root prio bands 99999999999999999999",
            "`99999999999999999999` exceeds the largest number, 18446744073709551615",
        ),
        ("tc qdisc add dev eth0 root handle 1: drr x", "`x` is not a parameter of drr"),
        (
            "tc qdisc add dev eth0 root red limit 30kb min 500b max 15kb avpkt 1kb burst 10",
            "no average lets a burst of 10 packets pass below this `min`",
        ),
        ("tc qdisc add dev eth0 root prio bands two", "`two` is not a whole number"),
        (
            "tc qdisc add dev eth0 root ets bands 2 strict 3",
            "ets has 1 to 16 bands, of which some are strict and the others have quanta",
        ),
        (
            "tc qdisc add dev eth0 root handle 1: hfsc default 20\ntc class add dev eth0 parent 1:5 classid 1:20 hfsc ls rate 1mbit",
            "there is no class 1:5",
        ),
        (
            &htb.replace("default 10", "default 10 r2q 0"),
            "`r2q` must be above zero: rates are divided by it",
        ),
        (&htb.replace("default 10", "default zz"), "`zz` is not the number of a class"),
        (&htb.replace(" default 10", ""), "no filter sends packets to a class of this discipline"),
        (&htb.replace("rate 1mbit", "ceil 1mbit"), "a class of htb needs a `rate`"),
        (&htb.replace("rate 1mbit", "rate 1mbit ceil 500kbit"), "a `ceil` below the `rate`"),
        (
            &format!(
                "{htb}tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:99"
            ),
            "the filter sends to 1:99, a class that does not exist",
        ),
        (
            &format!("{htb}tc filter add dev eth0 parent 1: matchall flowid 2:10"),
            "a filter of 1: sends to 2:10, a class of another discipline",
        ),
        (
            "tc qdisc add dev eth0 root handle 1: pfifo_fast
tc filter add dev eth0 parent 1: matchall flowid 1:1",
            "`pfifo_fast` takes no filters: tc refuses this line",
        ),
        (
            "iptables -t mangle -A POSTROUTING -o $(ip route) -j MARK --set-mark 1",
            "only a shell can expand this",
        ),
        (
            "iptables -t mangle -C POSTROUTING -j MARK --set-mark 1 || iptables -t mangle -F",
            "only a shell can decide which of the following lines run",
        ),
        (
            "tc qdisc add dev eth0 root red limit 30kb min 5kb max 15kb avpkt 1kb probability 0",
            "with probability 0, RED acts on no packet below `max`",
        ),
        (
            &format!("{prio}tc qdisc add dev eth0 parent 1:1 cbs idleslope 0 sendslope -1000"),
            "cbs needs an `idleslope` above zero and a `sendslope`, in kbit/s",
        ),
        (
            &format!(
                "{prio}tc qdisc add dev eth0 parent 1:1 cbs idleslope 18446744073709551 sendslope -18446744073709551"
            ),
            "the slopes exceed the largest rate",
        ),
        (
            &format!(
                "{prio}tc qdisc add dev eth0 parent 1:1 cbs idleslope 20000 sendslope -80000\n\
                 tc qdisc add dev eth0 parent 1:2 cbs idleslope 20000 sendslope -180000"
            ),
            "these slopes give another port rate than those before",
        ),
        (&police("rate 1mbit drop"), "police needs a `burst`"),
        (&police("burst 10k drop"), "police needs a `rate`"),
        (&police("rate 1mbit burst 10k conform-exceed trap"), "`trap` has no equivalent here"),
        (
            &police("rate 1mbit burst 10k conform-exceed pipe/ok action drop"),
            "this action after the policer has no equivalent here",
        ),
        (
            &police("rate 1mbit burst 10k drop action police rate 1mbit burst 9k drop"),
            "a further action has no equivalent here",
        ),
        (
            &format!(
                "{prio}tc filter add dev eth0 parent 1: prio 1 u32 match u32 0 0 police rate 1mbit burst 9k continue flowid 1:1\n\
                 tc filter add dev eth0 parent 1: prio 2 handle 6 fw flowid 1:2"
            ),
            "a filter of kind `fw` beside a policer with `continue` has no equivalent here",
        ),
        (
            &format!(
                "{}\ntc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0\n\
                 tc qdisc add dev ifb0 root handle 1: htb default 1\n\
                 tc class add dev ifb0 parent 1: classid 1:1 htb rate 1mbit\n\
                 tc filter add dev ifb0 parent 1: u32 match ip dport 80 0xffff police rate 1mbit burst 9k continue flowid 1:1",
                police("rate 1mbit burst 10k continue")
            ),
            "a policer with `continue`, on packets that already passed one, has no equivalent here",
        ),
        (&police("rate 1mbit burst 10k conform-exceed drop/drop"), "`drop` has no equivalent here"),
        (&police("rate 1mbit burst 10k peakrate 2mbit drop"), "`peakrate` needs an `mtu`"),
        (
            "tc qdisc add dev eth0 root tbf rate 1mbit burst 10k limit 9000 peakrate 2mbit",
            "`peakrate` needs an `mtu`",
        ),
        (
            "tc qdisc add dev eth0 root tbf rate 1mbit burst 10k limit 9k peakrate 1mbit mtu 2k",
            "the `peakrate` is not above the `rate`",
        ),
        (
            &format!(
                "{}\ntc filter add dev eth0 parent ffff: prio 65535 basic police rate 2mbit burst 9k flowid :1",
                police("rate 1mbit burst 10k conform-exceed drop/continue")
            ),
            "`reclassify` behind a policer that leaves packets to the next filter has no equivalent here",
        ),
        (
            &police("rate 1mbit burst 10k mtu 1000 drop"),
            "an `mtu` below a frame has no equivalent here",
        ),
        (
            &format!(
                "{prio}tc qdisc add dev eth0 parent 1:1 handle 2: prio\n\
                 tc filter add dev eth0 parent 2: basic police rate 1mbit burst 9k drop classid 2:1"
            ),
            "a policer of a class has no equivalent here",
        ),
    ] {
        let errors = tc(text, "tc.sh", &Host::default())
            .err()
            .unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, text, title);
    }
}

#[test]
fn scripts_of_ipfw() {
    let pipe = "ipfw add 100 pipe 1 ip from any to any out\nipfw pipe 1 config bw 1Mbit/s\n";
    for (text, title) in [
        ("ipfw queue 1 config weight 5", "the queue has no pipe: `pipe NUMBER` is missing"),
        ("ipfw pipe 1 config mask", "the mask names no field"),
        (
            "ipfw pipe 1 config bw 1Mbit/s red 0.002/5/15/0",
            "with max_p 0, RED acts on no packet below max_th",
        ),
        ("ipfw pipe 1 config bw 1Mbit/s red 0/5/15/0.1", "with w_q 0, RED's average stays zero"),
        (
            "dnctl pipe 1 config bw 1Mbit/s\npass in from any to any dnpipe (1, 2, 3)",
            "the rule names more than two pipes",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe 1 ip from any to any not proto ip"),
            "`not ip` matches no packet",
        ),
        (&format!("{pipe}ipfw add 50 queue 3 ip from any to any out"), "there is no queue 3"),
        (
            "dnctl pipe 1 config bw 1Mbit/s\ndummynet out proto tcp from any to any port 80",
            "the rule has no pipe: its number is missing",
        ),
        (
            "dnctl pipe 1 config bw 1Mbit/s\ndummynet out proto tcp from any to any port wwww pipe 1",
            "`wwww` is not a port",
        ),
        (
            &format!("{pipe}dummynet out all pipe 1"),
            "the script has rules of pf and of ipfw: it is unknown which of them a packet meets first",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe tablearg ip from any to any out"),
            "`tablearg` without a table",
        ),
        (&format!("{pipe}ipfw add 200 pipe 1 ip from any out"), "`from` needs `to`"),
        (
            &format!("{pipe}ipfw add 200 pipe 1 ip from not any to any out"),
            "`not any` matches no packet",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe 1 {{ udp or {{ tcp }} }} from any to any out"),
            "a block within a block",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe 1 ip from any to any or out"),
            "`or` is valid only in a block",
        ),
        (
            &format!("{pipe}ipfw add 200 count tag 70000 ip from any to any"),
            "`70000` is not a number for `tag`",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe 1 ip from any to any mark x"),
            "`x` is not a number for `mark`",
        ),
        ("ipfw pipe 1 config bw '1Mbit/s", "this quote is not closed"),
    ] {
        let errors =
            ipfw(text, "ipfw.sh", None).err().unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, text, title);
    }
    for (text, title) in [
        (
            "ipfw pipe 1 config bw 1Mbit/s\nipfw queue 1 config pipe 1\nipfw queue 2 config pipe 1\n\
             ipfw add 50 queue 2 ip from any to any out"
                .to_owned(),
            "no rule sends packets to this queue: it was left out",
        ),
        (
            format!("{pipe}ipfw add 10 count tag 1 ip from any to any\nipfw add 20 count tag 2 udp from any to any"),
            "a packet that gets several tags has all of them in ipfw; here it has one mark, the one that it got last",
        ),
        (
            format!("{pipe}kldload dummynet"),
            "this is not a command of dummynet or its rules, and was left out",
        ),
        (
            format!("{pipe}sysctl net.inet.ip.forwarding=1"),
            "this setting does not concern links, and was left out",
        ),
    ] {
        let imported = ipfw(&text, "ipfw.sh", None).unwrap_or_else(|errors| panic!("{errors}"));
        said(&imported.notes, Severity::Warning, &text, title);
    }
}

#[test]
fn commands_of_netconfig() {
    for (text, title) in [
        ("config client 80 90 IN delay 100ms", "`90` is a second list of ports"),
        ("config client IN delay 100ms", "ports or an address are missing"),
        ("config client 80 IN delay 100ms IN delay 50ms", "`IN` is given twice"),
        ("config client 80", "`config` has no parameters"),
    ] {
        let errors =
            netconfig(text, "the command").err().unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, text, title);
    }
}

#[test]
fn no_message_is_without_a_test() {
    let tests = ["tests", "../falaj/tests"];
    let (messages, missing) = scan::untested(env!("CARGO_MANIFEST_DIR"), &tests);
    assert!(messages > 60, "{messages}");
    assert!(missing.is_empty(), "in no test: {missing:#?}");
}
