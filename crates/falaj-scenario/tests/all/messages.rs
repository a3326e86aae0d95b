//! The exact messages for wrong files.

use expect_test::{Expect, expect};

/// Checks the errors of a file, of which there must be one at least.
fn errors(text: &str, expected: Expect) {
    let problems = falaj_scenario::parse(text, "a.toml")
        .map(|(_, warnings)| warnings)
        .expect_err("no error was found");
    expected.assert_eq(&format!("{problems}\n"));
}

/// Checks the warnings of a file that has no errors.
fn warnings(text: &str, expected: Expect) {
    let (_, warnings) =
        falaj_scenario::parse(text, "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
    expected.assert_eq(&format!("{warnings}\n"));
}

/// The first lines of most files here.
const LINK: &str = "[link.a]\nrate = \"100mbit\"\n";

/// Checks the errors of a file with the two lines of [`LINK`] and then this text.
fn errors_of_link(rest: &str, expected: Expect) {
    errors(&format!("{LINK}{rest}"), expected);
}

/// Checks the warnings of a file with the two lines of [`LINK`] and then this text.
fn warnings_of_link(rest: &str, expected: Expect) {
    warnings(&format!("{LINK}{rest}"), expected);
}

#[test]
fn an_unknown_key() {
    errors(
        r#"[link.uplink]
rate = "100mbit"
dealy = "2ms"
"#,
        expect![[r#"
            error: link `uplink` has no key `dealy`
             --> a.toml:3:1
              |
            3 | dealy = "2ms"
              | ^^^^^ did you mean `delay`?
              |
              = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`
        "#]],
    );
}

#[test]
fn a_key_of_another_discipline() {
    errors_of_link(
        r#"scheduler = { kind = "drr", tail = "skip" }
[link.a.flow.x]
match = "any"
phase = "1ms"
"#,
        expect![[r#"
            error: the scheduler `drr` has no key `tail`
             --> a.toml:3:29
              |
            3 | scheduler = { kind = "drr", tail = "skip" }
              |                             ^^^^
              |
              = help: `tail` is for the scheduler `virtual-links`: `scheduler = { kind = "virtual-links", tail = … }`
              = help: allowed: `kind`, `quanta`

            error: flow `x` has no key `phase`
             --> a.toml:6:1
              |
            6 | phase = "1ms"
              | ^^^^^
              |
              = help: `phase` is for flows of the scheduler `virtual-links`
              = help: allowed: `adapter`, `batches`, `envelope`, `expire`, `flow`, `mask`, `match`, `max-flows`, `quantum`, `queue`, `requires`, `scheduler`
        "#]],
    );
}

#[test]
fn a_number_without_a_unit() {
    errors(
        r#"[link.a]
rate = 100
delay = 2.5
mtu = 1500
[link.a.flow.x]
match = "any"
queue = 20
"#,
        expect![[r#"
            error: `rate`: `100` is a number without a unit
             --> a.toml:2:8
              |
            2 | rate = 100
              |        ^^^
              |
              = help: write, in quotes, `100mbit` or `100kbit`; units of rate: bit, kbit, mbit, gbit, tbit; B/s, kB/s, MB/s, GB/s

            error: `delay`: `2.5` is a number without a unit
             --> a.toml:3:9
              |
            3 | delay = 2.5
              |         ^^^
              |
              = help: write, in quotes, `2.5ms` or `2.5s`; units of time: ns, us, ms, s, min, h

            error: `mtu`: `1500` is a number without a unit
             --> a.toml:4:7
              |
            4 | mtu = 1500
              |       ^^^^
              |
              = help: write, in quotes, `1500B`; units of size: B, kB, MB, GB (thousands); KiB, MiB, GiB (1024)

            error: `queue`: `20` is a number without a unit
             --> a.toml:7:9
              |
            7 | queue = 20
              |         ^^
              |
              = help: write, in quotes, `20p` for packets, or `20kB` for an amount of data
        "#]],
    );
}

#[test]
fn units_that_could_be_meant_two_ways() {
    errors(
        r#"[link.a]
rate = "10MB"
delay = "5m"
[link.a.flow.x]
match = "any"
queue = "64k"
requires = { rate = "10mb", delay = "30u" }
"#,
        expect![[r#"
            error: `rate`: `10MB` is an amount, not a rate
             --> a.toml:2:8
              |
            2 | rate = "10MB"
              |        ^^^^^^
              |
              = help: write `10MB/s` for bytes a second, or `10mbit` for bits a second

            error: `delay`: `5m` could be minutes or milliseconds
             --> a.toml:3:9
              |
            3 | delay = "5m"
              |         ^^^^
              |
              = help: write `5min` or `5ms`

            error: `queue`: `64k` could count 1000 or 1024 bytes
             --> a.toml:6:9
              |
            6 | queue = "64k"
              |         ^^^^^
              |
              = help: write `64kB` (1000) or `64KiB` (1024); or packets: `20p`

            error: `rate`: `10mb` could be bits or bytes a second
             --> a.toml:7:21
              |
            7 | requires = { rate = "10mb", delay = "30u" }
              |                     ^^^^^^
              |
              = help: write `10mbit` for bits, or `10MB/s` for bytes

            error: `delay`: `30u`: `u` is not a unit of time
             --> a.toml:7:37
              |
            7 | requires = { rate = "10mb", delay = "30u" }
              |                                     ^^^^^ did you mean `us`?
              |
              = help: units of time: ns, us, ms, s, min, h
        "#]],
    );
}

#[test]
fn a_text_without_quotes() {
    errors(
        r#"[link.a]
rate = 100mbit
delay = 2ms # as measured
mtu =
[link.a.flow.x]
match = any
"#,
        expect![[r#"
            error: a text needs quotes
             --> a.toml:2:8
              |
            2 | rate = 100mbit
              |        ^^^^^^^
              |
              = help: write `"100mbit"`

            error: a text needs quotes
             --> a.toml:3:9
              |
            3 | delay = 2ms # as measured
              |         ^^^
              |
              = help: write `"2ms"`

            error: a key without a value
             --> a.toml:4:6
              |
            4 | mtu =
              |      ^ nothing after `=`

            error: a text needs quotes
             --> a.toml:6:9
              |
            6 | match = any
              |         ^^^
              |
              = help: write `"any"`
        "#]],
    );
}

#[test]
fn a_broken_header_is_all_that_is_said() {
    errors(
        r#"[link.a
rate = 100mbit
"#,
        expect![[r#"
            error: this is not valid TOML: unclosed table
             --> a.toml:1:8
              |
            1 | [link.a
              |        ^ expected `]`
        "#]],
    );
}

#[test]
fn a_key_given_twice() {
    errors(
        r#"[link.a]
rate = "1gbit"
rate = "2gbit"
delay = "1"
"#,
        expect![[r#"
            error: `rate` is given twice
             --> a.toml:3:1
              |
            3 | rate = "2gbit"
              | ^^^^ the second
              |
              = help: keep one of the two

            error: `delay`: `1` is a number without a unit
             --> a.toml:4:9
              |
            4 | delay = "1"
              |         ^^^
              |
              = help: write `1ms` or `1s`; units of time: ns, us, ms, s, min, h
        "#]],
    );
}

#[test]
fn a_table_given_twice() {
    errors(
        r#"[link.a]
rate = "1gbit"
[link.b]
[link.a]
delay = "1ms"
"#,
        expect![[r#"
            error: `a` is given twice
             --> a.toml:4:7
              |
            4 | [link.a]
              |       ^ the second
              |
              = help: keep one of the two
        "#]],
    );
}

#[test]
fn no_link() {
    errors(
        r#"[run]
seed = 7
"#,
        expect![[r#"
            error: a scenario needs a link, and there is none
             --> a.toml:1:1
              |
            1 | [run]
              | ^
              |
              = help: begin with `[link.uplink]`, and on the next line `rate = "100mbit"`
        "#]],
    );
}

#[test]
fn an_empty_file() {
    errors(
        r#""#,
        expect![[r#"
            error: a scenario needs a link, and there is none
             --> a.toml:1:1
              |
            1 |
              | ^
              |
              = help: begin with `[link.uplink]`, and on the next line `rate = "100mbit"`
        "#]],
    );
}

#[test]
fn a_missing_rate() {
    errors(
        r#"[link.a]
delay = "1ms"
[link.b.up]
rate = "1mbit"
"#,
        expect![[r#"
            error: link `a` lacks `rate`
             --> a.toml:1:1
              |
            1 | [link.a]
              | ^^^^^^^^
              |
              = help: `rate`: bandwidth of the link in bits per second, or `unlimited`; a `trace`, a `preset` or a `profile` can replace it; write a rate in quotes, as in `"100mbit"`

            error: link `b` lacks `rate`
             --> a.toml:3:7
              |
            3 | [link.b.up]
              |       ^
              |
              = help: `rate`: bandwidth of the link in bits per second, or `unlimited`; a `trace`, a `preset` or a `profile` can replace it; write a rate in quotes, as in `"100mbit"`
        "#]],
    );
}

#[test]
fn an_unknown_discipline() {
    errors(
        r#"[link.a]
rate = "1mbit"
scheduler = { kind = "ddr" }
[link.a.flow.x]
match = "any"
quantum = "1514B"
"#,
        expect![[r#"
            error: `kind`: `ddr` is not one of the words allowed
             --> a.toml:3:22
              |
            3 | scheduler = { kind = "ddr" }
              |                      ^^^^^ did you mean `drr`?
              |
              = help: allowed: `fifo`, `priority`, `rr`, `wrr`, `hrr`, `corr`, `drr`, `drr+`, `drr++`, `ets`, `virtual-clock`, `scfq`, `sfq`, `wfq`, `wf2q`, `spfq`, `edf`, `sced`, `mtr-ls`, `arc`, `qfq`, `qfq+`, `wf2q+`, `ffs`, `timer-wheels`, `virtual-links`, `shaper`, `cbs`, `tas`, `ats`, `mclock`, `hfsc`, `htb`, `rcsp`, `mgfq`, `netback`, `xen-wrr`, `fq_codel`, `fq_pie`, `fq`, `cake`, `dualpi2`, `dcf`, `plugin`
        "#]],
    );
}

#[test]
fn a_scheduler_that_is_no_table() {
    errors(
        r#"[link.a]
rate = "1mbit"
scheduler = "drr"
"#,
        expect![[r#"
            error: `scheduler`: a scheduler is a table
             --> a.toml:3:13
              |
            3 | scheduler = "drr"
              |             ^^^^^
              |
              = help: write `{ kind = "drr" }`
        "#]],
    );
}

#[test]
fn a_discipline_refuses() {
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
[link.a.flow.voice]
match = "udp"
kind = "A"
phase = "30us"
[link.a.flow.rest]
match = "any"
kind = "B"
phase = "200us"
"#,
        expect![[r#"
            error: flow `voice`: a phase of 30us is shorter than one packet of 1514 B, which takes 121.12us at 100mbit
             --> a.toml:7:9
              |
            7 | phase = "30us"
              |         ^^^^^^
              |
              = help: at least `121.12us`; or a smaller `mtu`
        "#]],
    );
}

#[test]
fn a_discipline_refuses_what_is_a_default() {
    errors(
        r#"[link.a]
rate = "unlimited"
scheduler = { kind = "virtual-links" }
[link.a.flow.all]
match = "any"
kind = "A"
phase = "1ms"
queue = "100B"
"#,
        expect![[r#"
            error: scheduler `virtual-links`: a phase divides the time of a link, and an unlimited link takes none
             --> a.toml:2:8
              |
            2 | rate = "unlimited"
              |        ^^^^^^^^^^^
              |
              = help: give the link a `rate`, or choose `fifo`
        "#]],
    );
}

#[test]
fn what_a_discipline_needs_of_a_flow() {
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
[link.a.flow.voice]
match = "any"
kind = "C"
"#,
        expect![[r#"
            error: flow `voice` lacks `phase`
             --> a.toml:4:1
              |
            4 | [link.a.flow.voice]
              | ^^^^^^^^^^^^^^^^^^^
              |
              = help: `phase`: maximum time that the flow may use the link in each cycle, at least that of one largest packet, at most an hour; its share is its phase over the sum of all phases; write a time in quotes, as in `"40ms"`

            error: `kind`: `C` is not one of the words allowed
             --> a.toml:6:8
              |
            6 | kind = "C"
              |        ^^^
              |
              = help: allowed: `A`, `B`
        "#]],
    );
}

#[test]
fn a_discipline_that_needs_flows() {
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
"#,
        expect![[r#"
            error: link `a` has no flows, but the scheduler `virtual-links` needs flows
             --> a.toml:1:1
              |
            1 | [link.a]
              | ^^^^^^^^
              |
              = help: add flows `[link.NAME.flow.FLOW]` with `match` and `kind`, `phase`
        "#]],
    );
}

#[test]
fn rules() {
    errors_of_link(
        r#"[link.a.flow.x]
match = "udp dprot 5004"
[link.a.flow.y]
match = ["icmp dport 7", "udp and", "tcp dst 10.0.0.1/8"]
[link.a.flow.z]
match = []
[link.a.flow.w]
match = 'any'
[link.a.flow.v]
match = "ip src 2001:db8::/32"
"#,
        expect![[r#"
            error: `match`: `dprot` is not a term of a rule
             --> a.toml:4:14
              |
            4 | match = "udp dprot 5004"
              |              ^^^^^ did you mean `dport`?
              |
              = help: terms: any, udp, tcp, icmp, icmp6, ip, ip6, proto N, src ADDRESS[/N], dst ADDRESS[/N], sport N[-M], dport N[-M], dscp N, tos N[/MASK], ttl N[-M], length N[-M], flags F, fragment, first-fragment, ether N, vlan N, mac-src MAC, mac-dst MAC, mark N[/MASK], not TERM, ( A or B ); see `falaj explain match`

            error: `match`: `icmp` has no ports
             --> a.toml:6:16
              |
            6 | match = ["icmp dport 7", "udp and", "tcp dst 10.0.0.1/8"]
              |                ^^^^^^^
              |
              = help: ports go with `udp` or `tcp`, or with neither to mean both

            error: `match`: `and` joins two terms
             --> a.toml:6:31
              |
            6 | match = ["icmp dport 7", "udp and", "tcp dst 10.0.0.1/8"]
              |                               ^^^
              |
              = help: write a term on both sides, or leave it out

            error: `match`: `10.0.0.1/8` has bits set after its first 8
             --> a.toml:6:46
              |
            6 | match = ["icmp dport 7", "udp and", "tcp dst 10.0.0.1/8"]
              |                                              ^^^^^^^^^^
              |
              = help: write `10.0.0.0/8` for the network, or `10.0.0.1` for the one address

            error: `match`: an empty list matches nothing
             --> a.toml:8:9
              |
            8 | match = []
              |         ^^
              |
              = help: write `"any"` for every packet

            error: `match`: a rule for both IPv4 and IPv6 matches nothing
              --> a.toml:12:13
               |
            12 | match = "ip src 2001:db8::/32"
               |             ^^^^^^^^^^^^^^^^^
               |
               = help: keep to one version, or write a list of two rules
        "#]],
    );
}

#[test]
fn envelopes() {
    errors(
        r#"[link.a]
rate = "10mbit"
[link.a.flow.one]
match = "udp"
envelope = "10mbit"
[link.a.flow.two]
match = "tcp"
envelope = { rate = "unlimited", bursts = "3kB" }
[link.a.flow.three]
match = "icmp"
envelope = [{ rate = "1mbit", burst = "0B" }, 5, { rate = "2mbit" }]
[link.a.flow.four]
match = "any"
envelope = []
"#,
        expect![[r#"
            error: `envelope`: a text is not allowed here
             --> a.toml:5:12
              |
            5 | envelope = "10mbit"
              |            ^^^^^^^^
              |
              = help: write a table of `rate`, `burst`, as in `{ rate = "100mbit", burst = "1500B" }`, or a list of such tables

            error: `rate`: `unlimited` is for the rate of a link
             --> a.toml:8:21
              |
            8 | envelope = { rate = "unlimited", bursts = "3kB" }
              |                     ^^^^^^^^^^^
              |
              = help: write a rate, as in `100mbit`

            error: the envelope of flow `two` has no key `bursts`
             --> a.toml:8:34
              |
            8 | envelope = { rate = "unlimited", bursts = "3kB" }
              |                                  ^^^^^^ did you mean `burst`?
              |
              = help: allowed: `burst`, `rate`

            error: `envelope`: a whole number is not allowed here
              --> a.toml:11:47
               |
            11 | envelope = [{ rate = "1mbit", burst = "0B" }, 5, { rate = "2mbit" }]
               |                                               ^
               |
               = help: write a table of `rate`, `burst`, as in `{ rate = "100mbit", burst = "1500B" }`, or a list of such tables

            error: `envelope`: an empty list has no meaning
              --> a.toml:14:12
               |
            14 | envelope = []
               |            ^^
               |
               = help: leave it out, or fill it
        "#]],
    );
}

#[test]
fn wrong_types() {
    errors(
        r#"traffic = 5
[link]
b = 1
[link.a]
rate = true
scheduler = { kind = 1 }
up = "fast"
[link.a.flow.x]
match = { udp = 5 }
requires = "1ms"
[run]
seed = "1"
replications = 1.5
"#,
        expect![[r#"
            error: `traffic`: a whole number is not allowed here
             --> a.toml:1:11
              |
            1 | traffic = 5
              |           ^
              |
              = help: write a table for each, with a name, as in `[traffic.NAME]`

            error: link `b` has to be a table
             --> a.toml:3:5
              |
            3 | b = 1
              |     ^
              |
              = help: write `{ rate = "100mbit", … }`

            error: `rate`: true or false is not allowed here
             --> a.toml:5:8
              |
            5 | rate = true
              |        ^^^^
              |
              = help: write a rate in quotes, as in `"100mbit"`

            error: `kind`: a whole number is not allowed here
             --> a.toml:6:22
              |
            6 | scheduler = { kind = 1 }
              |                      ^
              |
              = help: write one of these in quotes: `fifo`, `priority`, `rr`, `wrr`, `hrr`, `corr`, `drr`, `drr+`, `drr++`, `ets`, `virtual-clock`, `scfq`, `sfq`, `wfq`, `wf2q`, `spfq`, `edf`, `sced`, `mtr-ls`, `arc`, `qfq`, `qfq+`, `wf2q+`, `ffs`, `timer-wheels`, `virtual-links`, `shaper`, `cbs`, `tas`, `ats`, `mclock`, `hfsc`, `htb`, `rcsp`, `mgfq`, `netback`, `xen-wrr`, `fq_codel`, `fq_pie`, `fq`, `cake`, `dualpi2`, `dcf`, `plugin`

            error: `up`: a text is not allowed here
             --> a.toml:7:6
              |
            7 | up = "fast"
              |      ^^^^^^
              |
              = help: write a table of `rate`, `delay`, `mtu`, `layer`, `scheduler`, `flow`, `overhead`, `cells`, `preset`, `paced-by`, `backlog`, `burst`, `peak`, `trace`, `loss`, `duplicate`, `corrupt`, `reorder`, `jitter`, `slot`, `profile`, `mask`, `max-flows`, `expire`

            error: `match`: a table is not allowed here
             --> a.toml:9:9
              |
            9 | match = { udp = 5 }
              |         ^^^^^^^^^^^
              |
              = help: write a rule in quotes, or a list of them, as in `"udp dport 5004"`

            error: `requires`: a text is not allowed here
              --> a.toml:10:12
               |
            10 | requires = "1ms"
               |            ^^^^^
               |
               = help: write a table of `rate`, `delay`

            error: `seed`: a text is not allowed here
              --> a.toml:12:8
               |
            12 | seed = "1"
               |        ^^^
               |
               = help: write a whole number from 0 to 9223372036854775807, without quotes

            error: `replications`: a number with decimals is not allowed here
              --> a.toml:13:16
               |
            13 | replications = 1.5
               |                ^^^
               |
               = help: write a whole number from 1 to 10000, without quotes
        "#]],
    );
}

#[test]
fn out_of_range() {
    errors(
        r#"[link.a]
rate = "0mbit"
mtu = "67B"
delay = "0.3ns"
[link.a.flow.x]
match = "any"
queue = "0p"
[run]
duration = "0s"
seed = -1
replications = 10001
"#,
        expect![[r#"
            error: `rate`: a rate of zero sends nothing
             --> a.toml:2:8
              |
            2 | rate = "0mbit"
              |        ^^^^^^^
              |
              = help: write a rate above zero, or `unlimited`

            error: `mtu`: `67B` is out of range
             --> a.toml:3:7
              |
            3 | mtu = "67B"
              |       ^^^^^
              |
              = help: write a size from `68B` to `65535B`

            error: `delay`: `0.3ns` is not a whole number of nanoseconds
             --> a.toml:4:9
              |
            4 | delay = "0.3ns"
              |         ^^^^^^^
              |
              = help: write `1ns`

            error: `queue`: a queue of zero holds nothing
             --> a.toml:7:9
              |
            7 | queue = "0p"
              |         ^^^^
              |
              = help: write `1p` or more

            error: `duration`: a time of zero
             --> a.toml:9:12
              |
            9 | duration = "0s"
              |            ^^^^
              |
              = help: write one above zero, as in `10ms`

            error: `seed`: `-1` is out of range
              --> a.toml:10:8
               |
            10 | seed = -1
               |        ^^
               |
               = help: write a whole number from 0 to 9223372036854775807: `seed` is the seed of all random numbers; the same seed gives the same results

            error: `replications`: `10001` is out of range
              --> a.toml:11:16
               |
            11 | replications = 10001
               |                ^^^^^
               |
               = help: write a whole number from 1 to 10000: `replications` is the number of independent replications, each with random numbers of its own
        "#]],
    );
}

#[test]
fn traffic_that_fits_nothing() {
    errors(
        r#"[link.uplink]
rate = "100mbit"
[link.uplink.flow.voice]
match = "udp"
[link.uplink.flow.bulk]
match = "any"
[traffic.a]
link = "uplnk"
model = "poisson"
rate = "1mbit"
size = "500B"
[traffic.b]
flow = "bluk"
model = "possion"
rate = "unlimited"
size = "1500"
[traffic.c]
flow = "voice"
model = "cbr"
rate = "1mbit"
size = "1515B"
on = "1s"
[traffic.d]
model = "on-off"
rate = "1mbit"
size = "41B"
off = "1s"
start = "2s"
stop = "1s"
"#,
        expect![[r#"
            error: there is no link `uplnk`
             --> a.toml:8:8
              |
            8 | link = "uplnk"
              |        ^^^^^^^ did you mean `uplink`?
              |
              = help: links: `uplink`

            error: there is no flow `bluk` of link `uplink`
              --> a.toml:13:8
               |
            13 | flow = "bluk"
               |        ^^^^^^ did you mean `bulk`?
               |
               = help: flows of link `uplink`: `voice`, `bulk`

            error: `model`: `possion` is not one of the words allowed
              --> a.toml:14:9
               |
            14 | model = "possion"
               |         ^^^^^^^^^ did you mean `poisson`?
               |
               = help: allowed: `poisson`, `cbr`, `on-off`, `pareto-on-off`, `mmpp`, `map`, `mpeg`, `greedy`, `replay`, `tcp`

            error: `rate`: `unlimited` is for the rate of a link
              --> a.toml:15:8
               |
            15 | rate = "unlimited"
               |        ^^^^^^^^^^^
               |
               = help: write a rate, as in `100mbit`

            error: `size`: `1500` is a number without a unit
              --> a.toml:16:8
               |
            16 | size = "1500"
               |        ^^^^^^
               |
               = help: write `1500B`; units of size: B, kB, MB, GB (thousands); KiB, MiB, GiB (1024)

            error: `size`: 1515B is more than link `uplink` carries
              --> a.toml:21:8
               |
            21 | size = "1515B"
               |        ^^^^^^^
               |
               = help: at most `1514B`: its mtu of 1500B, accounted at `l2`

            error: `on` is for `model = "on-off"`, `model = "pareto-on-off"`, and this is `cbr`
              --> a.toml:22:1
               |
            22 | on = "1s"
               | ^^
               |
               = help: leave out `on`, or change the model

            error: traffic `d` lacks `on`, which `on-off` needs
              --> a.toml:23:1
               |
            23 | [traffic.d]
               | ^^^^^^^^^^^
               |
               = help: write its mean, as in `on = "100ms"`

            error: traffic `d` lacks `flow`
              --> a.toml:23:1
               |
            23 | [traffic.d]
               | ^^^^^^^^^^^
               |
               = help: flows of link `uplink`: `voice`, `bulk`

            error: `size`: 41B has no room for the headers of a datagram
              --> a.toml:26:8
               |
            26 | size = "41B"
               |        ^^^^^
               |
               = help: at least `42B`, since link `uplink` accounts `l2`

            error: traffic `d` stops before it starts
              --> a.toml:29:8
               |
            29 | stop = "1s"
               |        ^^^^
               |
               = help: write a time after its start, `2s`
        "#]],
    );
}

#[test]
fn traffic_without_a_link() {
    errors(
        r#"[link.a]
rate = "1mbit"
[link.b]
rate = "1mbit"
[traffic.x]
model = "cbr"
rate = "1mbit"
size = "500B"
"#,
        expect![[r#"
            error: traffic `x` lacks `link`
             --> a.toml:5:1
              |
            5 | [traffic.x]
              | ^^^^^^^^^^^
              |
              = help: links: `a`, `b`
        "#]],
    );
}

#[test]
fn errors_of_both_directions_are_said_once() {
    errors(
        r#"[link.a]
rate = "1mbits/s"
scheduler = { kind = "drr" }
[link.a.flow.x]
match = "any"
quantum = "100B"
[link.a.up]
delay = "1 ms"
[link.a.down]
rate = "1mbit"
dleay = "1ms"
"#,
        expect![[r#"
            error: flow `x`: a quantum of 100 B is out of range
             --> a.toml:6:11
              |
            6 | quantum = "100B"
              |           ^^^^^^
              |
              = help: at least 1514 B, the largest packet as the link accounts it; at most 1 GiB

            error: link `a` down has no key `dleay`
              --> a.toml:11:1
               |
            11 | dleay = "1ms"
               | ^^^^^ did you mean `delay`?
               |
               = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`
        "#]],
    );
}

#[test]
fn names() {
    errors(
        r#"[link."a b"]
rate = "1mbit"
[link.a.flow.""]
match = "any"
"#,
        expect![[r#"
            error: `a b` cannot be the name of a link
             --> a.toml:1:7
              |
            1 | [link."a b"]
              |       ^^^^^
              |
              = help: a name has 1 to 64 letters, digits, `-`, `_` or `.`

            error: link `a` lacks `rate`
             --> a.toml:3:7
              |
            3 | [link.a.flow.""]
              |       ^
              |
              = help: `rate`: bandwidth of the link in bits per second, or `unlimited`; a `trace`, a `preset` or a `profile` can replace it; write a rate in quotes, as in `"100mbit"`

            error: `` cannot be the name of a flow
             --> a.toml:3:14
              |
            3 | [link.a.flow.""]
              |              ^^
              |
              = help: a name has 1 to 64 letters, digits, `-`, `_` or `.`
        "#]],
    );
}

#[test]
fn one_value_over_lines_and_other_scripts() {
    errors(
        r#"[link."قناة"]
rate = "1mbit"
delay = """
1 fortnight"""
mtu = "१५००"
"#,
        expect![[r#"
            error: `delay`: `1 fortnight`: `fortnight` is not a unit of time
             --> a.toml:3:9
              |
            3 |   delay = """
              |  _________^
            4 | | 1 fortnight"""
              | |______________^
              |
              = help: units of time: ns, us, ms, s, min, h

            error: `mtu`: `१५००` does not begin with a number
             --> a.toml:5:7
              |
            5 | mtu = "१५००"
              |       ^^^^^^
              |
              = help: write a number and a unit, as in `1500B`
        "#]],
    );
}

#[test]
fn a_slip_is_said_once() {
    errors(
        r#"[links.a]
rate = "1mbit"
"#,
        expect![[r#"
            error: a scenario has no key `links`
             --> a.toml:1:2
              |
            1 | [links.a]
              |  ^^^^^ did you mean `link`?
              |
              = help: allowed: `change`, `host`, `link`, `rule`, `run`, `table`, `traffic`
        "#]],
    );
}

#[test]
fn a_slip_in_a_name_that_is_needed() {
    errors(
        r#"[link.a]
rte = "1mbit"
shceduler = { kind = "drr" }
[link.a.flows.x]
quantum = "2kB"
[traffic.x]
lnik = "a"
model = "on-off"
rate = "1mbit"
size = "500B"
"#,
        expect![[r#"
            error: link `a` has no key `rte`
             --> a.toml:2:1
              |
            2 | rte = "1mbit"
              | ^^^ did you mean `rate`?
              |
              = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`

            error: link `a` has no key `shceduler`
             --> a.toml:3:1
              |
            3 | shceduler = { kind = "drr" }
              | ^^^^^^^^^ did you mean `scheduler`?
              |
              = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`

            error: link `a` has no key `flows`
             --> a.toml:4:9
              |
            4 | [link.a.flows.x]
              |         ^^^^^ did you mean `flow`?
              |
              = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`

            error: traffic `x` lacks `on`, which `on-off` needs
             --> a.toml:6:1
              |
            6 | [traffic.x]
              | ^^^^^^^^^^^
              |
              = help: write its mean, as in `on = "100ms"`

            error: traffic `x` lacks `off`, which `on-off` needs
             --> a.toml:6:1
              |
            6 | [traffic.x]
              | ^^^^^^^^^^^
              |
              = help: write its mean, as in `off = "100ms"`

            error: traffic `x` has no key `lnik`
             --> a.toml:7:1
              |
            7 | lnik = "a"
              | ^^^^ did you mean `link`?
              |
              = help: allowed: `acknowledge`, `allowed`, `bytes`, `capture`, `congestion`, `d0`, `d1`, `direction`, `ecn`, `flow`, `frames`, `headers`, `initial-window`, `link`, `model`, `off`, `offset`, `on`, `pattern`, `pause`, `policed`, `rate`, `repeat`, `return`, `scale`, `select`, `shape`, `shaped`, …
        "#]],
    );
}

#[test]
fn two_texts_of_a_line_without_quotes() {
    errors(
        r#"[link.a]
rate = "1mbit"
scheduler = { kind = virtual-links, tail = skip }
[link.a.flow.x]
match = [tcp, udp]
"#,
        expect![[r#"
            error: a text needs quotes
             --> a.toml:3:22
              |
            3 | scheduler = { kind = virtual-links, tail = skip }
              |                      ^^^^^^^^^^^^^
              |
              = help: write `"virtual-links"`

            error: a text needs quotes
             --> a.toml:3:44
              |
            3 | scheduler = { kind = virtual-links, tail = skip }
              |                                            ^^^^
              |
              = help: write `"skip"`

            error: flow `x` lacks `kind`
             --> a.toml:4:1
              |
            4 | [link.a.flow.x]
              | ^^^^^^^^^^^^^^^
              |
              = help: `kind`: end of the flow's phase: `A` after its whole length even if the queue is empty, `B` as soon as the queue is empty; write one of these in quotes: `A`, `B`

            error: flow `x` lacks `phase`
             --> a.toml:4:1
              |
            4 | [link.a.flow.x]
              | ^^^^^^^^^^^^^^^
              |
              = help: `phase`: maximum time that the flow may use the link in each cycle, at least that of one largest packet, at most an hour; its share is its phase over the sum of all phases; write a time in quotes, as in `"40ms"`

            error: a text needs quotes
             --> a.toml:5:10
              |
            5 | match = [tcp, udp]
              |          ^^^
              |
              = help: write `"tcp"`

            error: a text needs quotes
             --> a.toml:5:15
              |
            5 | match = [tcp, udp]
              |               ^^^
              |
              = help: write `"udp"`
        "#]],
    );
}

#[test]
fn packets_that_match_no_rule() {
    warnings(
        r#"[link.a]
rate = "1mbit"
[link.a.flow.x]
match = "udp"
"#,
        expect![[r#"
            warning: some packets match no flow of link `a`
             --> a.toml:1:1
              |
            1 | [link.a]
              | ^^^^^^^^ they are dropped
              |
              = help: a last flow with `match = "any"` takes them
        "#]],
    );
}

#[test]
fn a_flow_behind_any() {
    warnings(
        r#"[link.a]
rate = "1mbit"
[link.a.flow.x]
match = ["any"]
[link.a.flow.y]
match = "udp"
"#,
        expect![[r#"
            warning: no packet reaches flow `y`
             --> a.toml:5:1
              |
            5 | [link.a.flow.y]
              | ^^^^^^^^^^^^^^^
              |
              = help: flow `x` before it matches every packet; put flow `x` last
        "#]],
    );
}

#[test]
fn a_source_that_never_starts() {
    warnings(
        r#"[link.a]
rate = "1mbit"
[traffic.x]
model = "cbr"
rate = "1mbit"
size = "500B"
start = "10s"
"#,
        expect![[r#"
            warning: traffic `x` never starts
             --> a.toml:7:9
              |
            7 | start = "10s"
              |         ^^^^^
              |
              = help: the run lasts `10s`: see `duration` in `[run]`
        "#]],
    );
}

#[test]
fn flows_that_no_direction_uses() {
    warnings(
        r#"[link.a]
rate = "1mbit"
[link.a.flow.x]
match = "any"
[link.a.up.flow.y]
match = "any"
[link.a.down.flow.z]
match = "any"
"#,
        expect![[r#"
            warning: these flows of link `a` are not used
             --> a.toml:3:9
              |
            3 | [link.a.flow.x]
              |         ^^^^
              |
              = help: `up` and `down` both have flows of their own
        "#]],
    );
}

#[test]
fn a_queue_far_below_what_is_on_its_way() {
    // Three limits are too short: the sum of several flows' limits, a scheduler's limit, and a
    // flow's own limit. The default limit is large enough.
    warnings(
        r#"[link.a]
rate = "1gbit"
delay = "40ms"
[link.a.flow.x]
match = "udp"
queue = "10p"
[link.a.flow.y]
match = "any"
queue = "10p"
"#,
        expect![[r#"
            warning: the scheduler `fifo`: its queue is less than a tenth of its rate times the link's delay
             --> a.toml:1:1
              |
            1 | [link.a]
              | ^^^^^^^^ `queue` is not set here: it is 30280B; 1gbit x 40ms is 5 MB
              |
              = help: one TCP connection needs about `scheduler = { kind = "fifo", queue = "3303p" }` to use that rate
              = help: if it is short on purpose, a flow says so by the delay it needs: `requires = { delay = "…" }`
        "#]],
    );
    warnings(
        r#"[link.a]
rate = "1gbit"
delay = "40ms"
scheduler = { kind = "fifo", queue = "64kB" }
"#,
        expect![[r#"
            warning: the scheduler `fifo`: its queue is less than a tenth of its rate times the link's delay
             --> a.toml:4:38
              |
            4 | scheduler = { kind = "fifo", queue = "64kB" }
              |                                      ^^^^^^ `queue` holds 64000B; 1gbit x 40ms is 5 MB
              |
              = help: one TCP connection needs about `scheduler = { kind = "fifo", queue = "3303p" }` to use that rate
              = help: if it is short on purpose, a flow says so by the delay it needs: `requires = { delay = "…" }`
        "#]],
    );
    warnings_of_link(
        r#"delay = "40ms"
scheduler = { kind = "drr" }
[link.a.flow.x]
match = "udp"
queue = "4p"
[link.a.flow.short]
match = "icmp"
queue = "4p"
requires = { delay = "5ms" }
[link.a.flow.y]
match = "any"
queue = "300p"
"#,
        expect![[r#"
            warning: flow `x`: its queue is less than a tenth of its rate times the link's delay
             --> a.toml:7:9
              |
            7 | queue = "4p"
              |         ^^^^ `queue` holds 4p; about 33.3 Mbit/s x 40ms is about 166.7 kB
              |
              = help: one TCP connection needs about `queue = "111p"` to use that rate
              = help: if it is short on purpose, a flow says so by the delay it needs: `requires = { delay = "…" }`
        "#]],
    );
}

const VOICE: &str = r#"[link.a]
rate = "1mbit"
scheduler = { kind = "drr" }
[link.a.flow.voice]
match = "udp"
[link.a.flow.rest]
match = "any"
[traffic.one]
flow = "voice"
model = "cbr"
rate = "224kbit"
size = "160B"
[traffic.two]
flow = "voice"
model = "cbr"
rate = "224kbit"
size = "160B"
"#;

#[test]
fn headers_that_decide() {
    warnings(
        VOICE,
        expect![[r#"
        warning: flow `voice`: its traffic fits only if `rate` and `size` count headers
          --> a.toml:11:8
           |
        11 | rate = "224kbit"
           |        ^^^^^^^^^ as payload it takes 26 % more: 565.6kbit, beyond the 500kbit that it is guaranteed
           |
           = help: `layer = "l2"` in the link's table says that this is meant: a rate and a size count Ethernet, IP and UDP headers
           = help: an application's 160 B of payload are `size = "202B"`, and its `rate` grows alike
    "#]],
    );
    warnings(
        &VOICE.replace("224k", "300k"),
        expect![[r#"
        warning: flow `voice`: its traffic does not fit, only because of its headers
          --> a.toml:11:8
           |
        11 | rate = "300kbit"
           |        ^^^^^^^^^ 600kbit are beyond the 500kbit that it is guaranteed; 36 % on top of 442.5kbit of payload are headers
           |
           = help: `layer = "l2"` in the link's table says that this is meant: a rate and a size count Ethernet, IP and UDP headers
           = help: `layer = "payload"`, if all these rates and sizes are to count payload
    "#]],
    );
    // If the flow has no guarantee, the limit is the link's rate.
    warnings(
        &VOICE.replace("224k", "450k").replace("drr", "fifo"),
        expect![[r#"
        warning: link `a`: its traffic fits only if `rate` and `size` count headers
          --> a.toml:11:8
           |
        11 | rate = "450kbit"
           |        ^^^^^^^^^ as payload it takes 26 % more: about 1.1 Mbit/s, beyond its 1mbit
           |
           = help: `layer = "l2"` in the link's table says that this is meant: a rate and a size count Ethernet, IP and UDP headers
           = help: an application's 160 B of payload are `size = "202B"`, and its `rate` grows alike
    "#]],
    );
}

#[test]
fn headers_that_decide_nothing() {
    let silent = |text: &str| {
        let (_, warnings) =
            falaj_scenario::parse(text, "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
        assert!(warnings.is_empty(), "{warnings}\n{text}");
    };
    // The traffic fits both ways: it is 565.7 kbit/s with headers, and 442.5 kbit/s without.
    silent(&VOICE.replace("224k", "190k"));
    silent(&VOICE.replace("224k", "350k"));
    // An explicit layer suppresses the warning.
    for layer in ["payload", "ip", "l2", "l1"] {
        silent(&VOICE.replace("\"1mbit\"", &format!("\"1mbit\"\nlayer = \"{layer}\"")));
    }
    // Headers are negligible: 42 of 1500 bytes.
    silent(&VOICE.replace("224k", "249k").replace("160B", "1500B"));
    // The rate of `on-off` is that of a burst; its mean is low.
    silent(&VOICE.replace("\"cbr\"", "\"on-off\"\non = \"1ms\"\noff = \"9ms\""));
    silent(&VOICE.replace("\"1mbit\"", "\"unlimited\"").replace("drr", "fifo"));
}

#[test]
fn a_discipline_refuses_all_flows_at_once() {
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "udp"
kind = "A"
phase = "1us"
queue = "100B"
[link.a.flow.y]
match = "any"
kind = "B"
phase = "2us"
"#,
        expect![[r#"
            error: flow `x`: a phase of 1us is shorter than one packet of 1514 B, which takes 121.12us at 100mbit
             --> a.toml:7:9
              |
            7 | phase = "1us"
              |         ^^^^^
              |
              = help: at least `121.12us`; or a smaller `mtu`

            error: flow `x`: a queue of 100B never admits a packet of 1514 B
             --> a.toml:8:9
              |
            8 | queue = "100B"
              |         ^^^^^^
              |
              = help: at least `1p` or `1514B`

            error: flow `y`: a phase of 2us is shorter than one packet of 1514 B, which takes 121.12us at 100mbit
              --> a.toml:12:9
               |
            12 | phase = "2us"
               |         ^^^^^
               |
               = help: at least `121.12us`; or a smaller `mtu`
        "#]],
    );
    errors_of_link(
        r#"scheduler = { kind = "drr" }
[link.a.flow.x]
match = "udp"
quantum = "1B"
[link.a.flow.y]
match = "any"
quantum = "2B"
"#,
        expect![[r#"
            error: flow `x`: a quantum of 1 B is out of range
             --> a.toml:6:11
              |
            6 | quantum = "1B"
              |           ^^^^
              |
              = help: at least 1514 B, the largest packet as the link accounts it; at most 1 GiB

            error: flow `y`: a quantum of 2 B is out of range
             --> a.toml:9:11
              |
            9 | quantum = "2B"
              |           ^^^^
              |
              = help: at least 1514 B, the largest packet as the link accounts it; at most 1 GiB
        "#]],
    );
}

#[test]
fn a_phase_with_a_long_tail() {
    let text = r#"[link.a]
rate = "1gbit"
layer = "payload"
mtu = "528B"
scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "udp"
kind = "A"
phase = "30us"
[link.a.flow.y]
match = "any"
kind = "B"
phase = "28us"
"#;
    warnings(
        text,
        expect![[r#"
        warning: flow `x`: 6.7 % of its phase is unused if its packets have the largest size
         --> a.toml:9:9
          |
        9 | phase = "30us"
          |         ^^^^^^ 2us are too short for 500 B
          |
          = help: write `28us` or `32us`, which packets of the largest size fill without a rest
          = help: or give the rest away: `tail = "skip"` in the scheduler
    "#]],
    );
    for other in ["skip", "carry"] {
        let text =
            text.replace("\"virtual-links\"", &format!("\"virtual-links\", tail = \"{other}\""));
        let (_, warnings) = falaj_scenario::parse(&text, "a.toml").unwrap();
        assert!(warnings.is_empty(), "{warnings}");
    }
}

/// At 100 Gbit/s, 64 B take 5.12 ns, so 195,312 packets fill a millisecond. If the time per packet
/// were rounded to whole nanoseconds, a long tail would be left.
#[test]
fn a_phase_of_packets_that_take_fractions_of_a_nanosecond_has_no_tail() {
    let text = r#"[link.a]
rate = "100gbit"
layer = "payload"
mtu = "92B"
scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
"#;
    let (_, warnings) = falaj_scenario::parse(text, "a.toml").unwrap();
    assert!(warnings.is_empty(), "{warnings}");
}

// The tests below have one wrong value each.

#[test]
fn what_is_no_rate() {
    errors(
        r#"[link.a]
rate = "1e9bit"
"#,
        expect![[r#"
            error: `rate`: `1e9bit` is more than one number and one unit
             --> a.toml:2:8
              |
            2 | rate = "1e9bit"
              |        ^^^^^^^^
              |
              = help: write a number and a unit, as in `100mbit`
        "#]],
    );
    errors(
        r#"[link.a]
rate = "-1mbit"
"#,
        expect![[r#"
            error: `rate`: `-1mbit` is negative
             --> a.toml:2:8
              |
            2 | rate = "-1mbit"
              |        ^^^^^^^^
              |
              = help: write a number and a unit, as in `100mbit`
        "#]],
    );
    errors(
        r#"[link.a]
rate = "1,5mbit"
"#,
        expect![[r#"
            error: `rate`: `1,5mbit` has a number that cannot be read
             --> a.toml:2:8
              |
            2 | rate = "1,5mbit"
              |        ^^^^^^^^^
              |
              = help: write digits, with a point before decimals: 1500, 1.5
        "#]],
    );
    errors(
        r#"[link.a]
rate = "10mibit"
"#,
        expect![[r#"
            error: `rate`: `10mibit` has a binary prefix, and bit rates count in thousands
             --> a.toml:2:8
              |
            2 | rate = "10mibit"
              |        ^^^^^^^^^
              |
              = help: write `10mbit` if that is meant
        "#]],
    );
    errors(
        r#"[link.a]
rate = "2000tbit"
"#,
        expect![[r#"
            error: `rate`: `2000tbit` is above the highest rate, 1000000gbit
             --> a.toml:2:8
              |
            2 | rate = "2000tbit"
              |        ^^^^^^^^^^
              |
              = help: write at most `1000000gbit`, or `unlimited`
        "#]],
    );
    errors(
        r#"[link.a]
rate = ""
"#,
        expect![[r#"
            error: `rate`: an empty text is not a quantity
             --> a.toml:2:8
              |
            2 | rate = ""
              |        ^^
              |
              = help: write a number and a unit, as in `100mbit`
        "#]],
    );
    errors(
        r#"[link.a]
rate = "mbit"
"#,
        expect![[r#"
            error: `rate`: `mbit` does not begin with a number
             --> a.toml:2:8
              |
            2 | rate = "mbit"
              |        ^^^^^^
              |
              = help: write a number and a unit, as in `100mbit`
        "#]],
    );
    errors(
        r#"[link.a]
rate = "10KB/s"
"#,
        expect![[r#"
            error: `rate`: `10KB/s` could count 1000 or 1024 bytes
             --> a.toml:2:8
              |
            2 | rate = "10KB/s"
              |        ^^^^^^^^
              |
              = help: write `10kB/s` (1000) or `10KiB/s` (1024)
        "#]],
    );
    errors(
        r#"[link.a]
rate = "0.5bit"
"#,
        expect![[r#"
            error: `rate`: `0.5bit` is not a whole number of bits a second
             --> a.toml:2:8
              |
            2 | rate = "0.5bit"
              |        ^^^^^^^^
              |
              = help: write `1bit`
        "#]],
    );
    errors(
        r#"[link.a]
rate = "100mbits/sec"
"#,
        expect![[r#"
            error: `rate`: `100mbits/sec`: `mbits/sec` is not a unit of rate
             --> a.toml:2:8
              |
            2 | rate = "100mbits/sec"
              |        ^^^^^^^^^^^^^^
              |
              = help: units of rate: bit, kbit, mbit, gbit, tbit; B/s, kB/s, MB/s, GB/s
        "#]],
    );
    errors(
        r#"[link.a]
rate = "1.2.3mbit"
"#,
        expect![[r#"
            error: `rate`: `1.2.3mbit` has more than one point
             --> a.toml:2:8
              |
            2 | rate = "1.2.3mbit"
              |        ^^^^^^^^^^^
              |
              = help: write a number and a unit, as in `100mbit`
        "#]],
    );
}

#[test]
fn what_is_no_time() {
    errors_of_link(
        r#"delay = "2 weeks"
"#,
        expect![[r#"
            error: `delay`: `2 weeks`: `weeks` is not a unit of time
             --> a.toml:3:9
              |
            3 | delay = "2 weeks"
              |         ^^^^^^^^^
              |
              = help: units of time: ns, us, ms, s, min, h
        "#]],
    );
    errors_of_link(
        r#"delay = "99999999999h"
"#,
        expect![[r#"
            error: `delay`: `99999999999h` is too large
             --> a.toml:3:9
              |
            3 | delay = "99999999999h"
              |         ^^^^^^^^^^^^^^
              |
              = help: write at most `18446744073.709551615s`
        "#]],
    );
    errors_of_link(
        r#"delay = "unlimited"
"#,
        expect![[r#"
            error: `delay`: `unlimited` does not begin with a number
             --> a.toml:3:9
              |
            3 | delay = "unlimited"
              |         ^^^^^^^^^^^
              |
              = help: write a number and a unit, as in `40ms`
        "#]],
    );
    errors_of_link(
        r#"delay = "1ms 5us"
"#,
        expect![[r#"
            error: `delay`: `1ms 5us` is more than one number and one unit
             --> a.toml:3:9
              |
            3 | delay = "1ms 5us"
              |         ^^^^^^^^^
              |
              = help: write a number and a unit, as in `40ms`
        "#]],
    );
    errors_of_link(
        r#"delay = "1.0000000000000000001s"
"#,
        expect![[r#"
            error: `delay`: `1.0000000000000000001s` has too many digits
             --> a.toml:3:9
              |
            3 | delay = "1.0000000000000000001s"
              |         ^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: write at most 20 digits before the point, and 18 after it
        "#]],
    );
}

#[test]
fn what_is_no_size() {
    errors_of_link(
        r#"mtu = "64KB"
"#,
        expect![[r#"
            error: `mtu`: `64KB` could count 1000 or 1024 bytes
             --> a.toml:3:7
              |
            3 | mtu = "64KB"
              |       ^^^^^^
              |
              = help: write `64kB` (1000) or `64KiB` (1024)
        "#]],
    );
    errors_of_link(
        r#"mtu = "9001b"
"#,
        expect![[r#"
            error: `mtu`: `9001b` could be bits or bytes
             --> a.toml:3:7
              |
            3 | mtu = "9001b"
              |       ^^^^^^^
              |
              = help: a size is in bytes: write `9001B`
        "#]],
    );
    errors_of_link(
        r#"mtu = "70kB"
"#,
        expect![[r#"
            error: `mtu`: `70kB` is out of range
             --> a.toml:3:7
              |
            3 | mtu = "70kB"
              |       ^^^^^^
              |
              = help: write a size from `68B` to `65535B`
        "#]],
    );
    errors_of_link(
        r#"mtu = "1.5M"
"#,
        expect![[r#"
            error: `mtu`: `1.5M` has a prefix without a unit
             --> a.toml:3:7
              |
            3 | mtu = "1.5M"
              |       ^^^^^^
              |
              = help: write `1.5MB` (thousands) or `1.5MiB` (1024)
        "#]],
    );
}

#[test]
fn what_is_no_limit() {
    errors_of_link(
        r#"[link.a.flow.x]
match = "any"
queue = "1.5p"
"#,
        expect![[r#"
            error: `queue`: `1.5p` is not a whole number of packets
             --> a.toml:5:9
              |
            5 | queue = "1.5p"
              |         ^^^^^^
              |
              = help: write `1p` or `2p`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "any"
queue = "5000000000p"
"#,
        expect![[r#"
            error: `queue`: `5000000000p` is too many packets
             --> a.toml:5:9
              |
            5 | queue = "5000000000p"
              |         ^^^^^^^^^^^^^
              |
              = help: write at most `4294967295p`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "any"
queue = "20 pakets"
"#,
        expect![[r#"
            error: `queue`: `20 pakets`: `pakets` is not a unit of size
             --> a.toml:5:9
              |
            5 | queue = "20 pakets"
              |         ^^^^^^^^^^^ did you mean `packets`?
              |
              = help: units of size: B, kB, MB, GB (thousands); KiB, MiB, GiB (1024); or packets: `20p`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "any"
queue = "2M"
"#,
        expect![[r#"
            error: `queue`: `2M` has a prefix without a unit
             --> a.toml:5:9
              |
            5 | queue = "2M"
              |         ^^^^
              |
              = help: write `2MB` (thousands) or `2MiB` (1024); or packets: `20p`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "any"
queue = ["20p"]
"#,
        expect![[r#"
            error: `queue`: a list is not allowed here
             --> a.toml:5:9
              |
            5 | queue = ["20p"]
              |         ^^^^^^^
              |
              = help: write a limit in quotes, as in `"20p"`
        "#]],
    );
}

#[test]
fn what_is_no_rule() {
    errors_of_link(
        r#"[link.a.flow.x]
match = "udp dport 70000"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `70000` is not a port
             --> a.toml:4:20
              |
            4 | match = "udp dport 70000"
              |                    ^^^^^
              |
              = help: write a number from 0 to 65535, or a range such as `5000-5010`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "dport 20-10"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `20-10` is an empty range
             --> a.toml:4:16
              |
            4 | match = "dport 20-10"
              |                ^^^^^
              |
              = help: write `10-20`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "src 10.0.0.0/33"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `10.0.0.0/33` has no prefix length that IP knows
             --> a.toml:4:14
              |
            4 | match = "src 10.0.0.0/33"
              |              ^^^^^^^^^^^
              |
              = help: write 0 to 32 after the slash
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "any udp"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `any` stands alone
             --> a.toml:4:14
              |
            4 | match = "any udp"
              |              ^^^
              |
              = help: leave out `any`, or all the rest
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "proto 300"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `300` is not the number of a protocol
             --> a.toml:4:16
              |
            4 | match = "proto 300"
              |                ^^^
              |
              = help: write a number from 0 to 255
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "udp tcp"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: a second protocol, and all terms must hold at once
             --> a.toml:4:14
              |
            4 | match = "udp tcp"
              |              ^^^
              |
              = help: for "either", write a list: `match = ["udp", "tcp"]`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "udp dport"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `dport` needs a port
             --> a.toml:4:14
              |
            4 | match = "udp dport"
              |              ^^^^^
              |
              = help: write `dport 5004`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = ""
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: an empty rule
             --> a.toml:4:9
              |
            4 | match = ""
              |         ^^
              |
              = help: write `any` for every packet
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "src example.com"
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: `example.com` is not an address
             --> a.toml:4:14
              |
            4 | match = "src example.com"
              |              ^^^^^^^^^^^
              |
              = help: write one such as `10.1.2.3`, `10.0.0.0/8` or `2001:db8::/32`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = ["udp", 5]
[link.a.flow.rest]
match = "any"
"#,
        expect![[r#"
            error: `match`: a whole number is not allowed here
             --> a.toml:4:17
              |
            4 | match = ["udp", 5]
              |                 ^
              |
              = help: write a rule in quotes, or a list of them, as in `"udp dport 5004"`
        "#]],
    );
}

#[test]
fn what_is_no_choice() {
    errors_of_link(
        r#"layer = "L2"
"#,
        expect![[r#"
            error: `layer`: `L2` is not one of the words allowed
             --> a.toml:3:9
              |
            3 | layer = "L2"
              |         ^^^^ did you mean `l2`?
              |
              = help: allowed: `payload`, `ip`, `l2`, `l1`
        "#]],
    );
    errors_of_link(
        r#"layer = "frame"
"#,
        expect![[r#"
            error: `layer`: `frame` is not one of the words allowed
             --> a.toml:3:9
              |
            3 | layer = "frame"
              |         ^^^^^^^
              |
              = help: allowed: `payload`, `ip`, `l2`, `l1`
        "#]],
    );
    errors_of_link(
        r#"scheduler = {}
"#,
        expect![[r#"
            error: the scheduler lacks `kind`
             --> a.toml:3:13
              |
            3 | scheduler = {}
              |             ^^
              |
              = help: `kind`: name of the discipline; write one of these in quotes: `fifo`, `priority`, `rr`, `wrr`, `hrr`, `corr`, `drr`, `drr+`, `drr++`, `ets`, `virtual-clock`, `scfq`, `sfq`, `wfq`, `wf2q`, `spfq`, `edf`, `sced`, `mtr-ls`, `arc`, `qfq`, `qfq+`, `wf2q+`, `ffs`, `timer-wheels`, `virtual-links`, `shaper`, `cbs`, `tas`, `ats`, `mclock`, `hfsc`, `htb`, `rcsp`, `mgfq`, `netback`, `xen-wrr`, `fq_codel`, `fq_pie`, `fq`, `cake`, `dualpi2`, `dcf`, `plugin`
        "#]],
    );
    errors_of_link(
        r#"[traffic.t]
rate = "1mbit"
size = "500B"
model = "possion"
"#,
        expect![[r#"
            error: `model`: `possion` is not one of the words allowed
             --> a.toml:6:9
              |
            6 | model = "possion"
              |         ^^^^^^^^^ did you mean `poisson`?
              |
              = help: allowed: `poisson`, `cbr`, `on-off`, `pareto-on-off`, `mmpp`, `map`, `mpeg`, `greedy`, `replay`, `tcp`
        "#]],
    );
    errors_of_link(
        r#"scheduler = { kind = "virtual-links", serve = "packetwise" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
"#,
        expect![[r#"
            error: `serve`: `packetwise` is not one of the words allowed
             --> a.toml:3:47
              |
            3 | scheduler = { kind = "virtual-links", serve = "packetwise" }
              |                                               ^^^^^^^^^^^^ did you mean `packet-wise`?
              |
              = help: allowed: `packet-wise`, `phase-wise`
        "#]],
    );
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
lend = true
"#,
        expect![[r#"
            error: `lend`: true or false is not allowed here
             --> a.toml:8:8
              |
            8 | lend = true
              |        ^^^^
              |
              = help: write one of these in quotes: `no`, `yes`
        "#]],
    );
}

#[test]
fn what_disciplines_refuse() {
    errors_of_link(
        r#"scheduler = { kind = "virtual-links", serve = "phase-wise", tail = "carry" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
"#,
        expect![[r#"
            error: scheduler `virtual-links`: a phase-wise server carries no tails over
             --> a.toml:3:68
              |
            3 | scheduler = { kind = "virtual-links", serve = "phase-wise", tail = "carry" }
              |                                                                    ^^^^^^^
              |
              = help: leave it out, or choose `serve = "packet-wise"`
        "#]],
    );
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "2h"
"#,
        expect![[r#"
            error: flow `x`: a phase of 7200s is longer than an hour
             --> a.toml:7:9
              |
            7 | phase = "2h"
              |         ^^^^
              |
              = help: links are divided in cycles of microseconds to seconds
        "#]],
    );
    errors(
        r#"[link.a]
rate = "unlimited"
scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
"#,
        expect![[r#"
            error: scheduler `virtual-links`: a phase divides the time of a link, and an unlimited link takes none
             --> a.toml:2:8
              |
            2 | rate = "unlimited"
              |        ^^^^^^^^^^^
              |
              = help: give the link a `rate`, or choose `fifo`
        "#]],
    );
    errors_of_link(
        r#"scheduler = { kind = "fifo", queue = "100B" }
"#,
        expect![[r#"
            error: scheduler `fifo`: a queue of 100B never admits a packet of 1514 B
             --> a.toml:3:38
              |
            3 | scheduler = { kind = "fifo", queue = "100B" }
              |                                      ^^^^^^
              |
              = help: at least `1p` or `1514B`
        "#]],
    );
    errors_of_link(
        r#"scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
queue = "1kB"
"#,
        expect![[r#"
            error: flow `x`: a queue of 1000B never admits a packet of 1514 B
             --> a.toml:8:9
              |
            8 | queue = "1kB"
              |         ^^^^^
              |
              = help: at least `1p` or `1514B`
        "#]],
    );
}

#[test]
fn what_is_no_source() {
    errors_of_link(
        r#"[traffic.t]
rate = "1mbit"
size = "500B"
model = "cbr"
on = "1s"
"#,
        expect![[r#"
            error: `on` is for `model = "on-off"`, `model = "pareto-on-off"`, and this is `cbr`
             --> a.toml:7:1
              |
            7 | on = "1s"
              | ^^
              |
              = help: leave out `on`, or change the model
        "#]],
    );
    errors_of_link(
        r#"[traffic.t]
rate = "1mbit"
size = "500B"
model = "on-off"
on = "1s"
"#,
        expect![[r#"
            error: traffic `t` lacks `off`, which `on-off` needs
             --> a.toml:3:1
              |
            3 | [traffic.t]
              | ^^^^^^^^^^^
              |
              = help: write its mean, as in `off = "100ms"`
        "#]],
    );
    errors_of_link(
        r#"[traffic.t]
rate = "1mbit"
size = "500B"
model = "cbr"
direction = "left"
"#,
        expect![[r#"
            error: `direction`: `left` is not one of the words allowed
             --> a.toml:7:13
              |
            7 | direction = "left"
              |             ^^^^^^
              |
              = help: allowed: `up`, `down`
        "#]],
    );
    errors_of_link(
        r#"[traffic.t]
rate = "unlimited"
size = "500B"
model = "cbr"
"#,
        expect![[r#"
            error: `rate`: `unlimited` is for the rate of a link
             --> a.toml:4:8
              |
            4 | rate = "unlimited"
              |        ^^^^^^^^^^^
              |
              = help: write a rate, as in `100mbit`
        "#]],
    );
    errors_of_link(
        r#"[traffic.t]
rate = "1mbit"
size = "500B"
model = "cbr"
start = "2s"
stop = "1s"
"#,
        expect![[r#"
            error: traffic `t` stops before it starts
             --> a.toml:8:8
              |
            8 | stop = "1s"
              |        ^^^^
              |
              = help: write a time after its start, `2s`
        "#]],
    );
}

#[test]
fn what_is_out_of_place() {
    errors(
        r#"[lnik.a]
rate = "1mbit"
"#,
        expect![[r#"
            error: a scenario has no key `lnik`
             --> a.toml:1:2
              |
            1 | [lnik.a]
              |  ^^^^ did you mean `link`?
              |
              = help: allowed: `change`, `host`, `link`, `rule`, `run`, `table`, `traffic`
        "#]],
    );
    errors_of_link(
        r#"
[runs]
seed = 1
"#,
        expect![[r#"
            error: a scenario has no key `runs`
             --> a.toml:4:2
              |
            4 | [runs]
              |  ^^^^ did you mean `run`?
              |
              = help: allowed: `change`, `host`, `link`, `rule`, `run`, `table`, `traffic`
        "#]],
    );
    errors_of_link(
        r#"
[run]
seed = 1.0
"#,
        expect![[r#"
            error: `seed`: a number with decimals is not allowed here
             --> a.toml:5:8
              |
            5 | seed = 1.0
              |        ^^^
              |
              = help: write a whole number from 0 to 9223372036854775807, without quotes
        "#]],
    );
    errors_of_link(
        r#"
[run]
durration = "1s"
"#,
        expect![[r#"
            error: `[run]` has no key `durration`
             --> a.toml:5:1
              |
            5 | durration = "1s"
              | ^^^^^^^^^ did you mean `duration`?
              |
              = help: allowed: `duration`, `replications`, `seed`, `time`
        "#]],
    );
    errors_of_link(
        r#"account = "ip"
[link.a.flow.x]
match = "any"
need = { delay = "1ms" }
each = "src"
mask = "src"
"#,
        expect![[r#"
            error: link `a` has no key `account`
             --> a.toml:3:1
              |
            3 | account = "ip"
              | ^^^^^^^ its name is now `layer`
              |
              = help: `falaj fmt --upgrade FILE` replaces the former names of all keys

            error: flow `x` has no key `need`
             --> a.toml:6:1
              |
            6 | need = { delay = "1ms" }
              | ^^^^ its name is now `requires`
              |
              = help: `falaj fmt --upgrade FILE` replaces the former names of all keys

            error: flow `x` has no key `each`
             --> a.toml:7:1
              |
            7 | each = "src"
              | ^^^^ its name is now `mask`, which the table has, too
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow.x]
match = "any"
requires = { dealy = "1ms" }
"#,
        expect![[r#"
            error: the requirement of flow `x` has no key `dealy`
             --> a.toml:5:14
              |
            5 | requires = { dealy = "1ms" }
              |              ^^^^^ did you mean `delay`?
              |
              = help: allowed: `delay`, `rate`
        "#]],
    );
    errors_of_link(
        r#"[link.a.flow."x y"]
match = "any"
"#,
        expect![[r#"
            error: `x y` cannot be the name of a flow
             --> a.toml:3:14
              |
            3 | [link.a.flow."x y"]
              |              ^^^^^
              |
              = help: a name has 1 to 64 letters, digits, `-`, `_` or `.`
        "#]],
    );
}

#[test]
fn a_part_that_no_packet_reaches_and_a_rest_without_a_part() {
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
[link.up.flow.a]
match = "udp"
kind = "A"
phase = "1ms"
scheduler = { kind = "drr" }
[link.up.flow.a.flow.x]
match = "tcp"
quantum = "10B"
[link.up.flow.a.flow.y]
match = "udp dport 3"
"#,
        expect![[r#"
            warning: some packets match no flow of link `up`
             --> a.toml:1:1
              |
            1 | [link.up]
              | ^^^^^^^^^ they are dropped
              |
              = help: a last flow with `match = "any"` takes them

            error: no packet reaches flow `x`
              --> a.toml:10:9
               |
            10 | match = "tcp"
               |         ^^^^^
               |
               = help: no packet matches both it and flow `a`

            error: flow `x`: a quantum of 10 B is out of range
              --> a.toml:11:11
               |
            11 | quantum = "10B"
               |           ^^^^^
               |
               = help: at least 1514 B, the largest packet as the link accounts it; at most 1 GiB

            error: the parts of flow `a` do not match all of its packets
              --> a.toml:12:1
               |
            12 | [link.up.flow.a.flow.y]
               | ^^^^^^^^^^^^^^^^^^^^^^^
               |
               = help: end them with one that has `match = "any"`
        "#]],
    );
}

#[test]
fn a_divided_flow_with_a_queue() {
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
[link.up.flow.a]
match = "udp"
kind = "A"
phase = "1ms"
queue = "9p"
scheduler = { kind = "drr" }
[link.up.flow.a.flow.x]
match = "any"
"#,
        expect![[r#"
            error: flow `a` is divided, so it has no queue
             --> a.toml:8:1
              |
            8 | queue = "9p"
              | ^^^^^
              |
              = help: write `queue` in its parts
        "#]],
    );
}

#[test]
fn what_is_said_of_a_divided_flow_and_not_of_its_parts() {
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "drr" }
[link.up.flow.a]
match = "any"
requires = { delay = "1us" }
envelope = { rate = "1mbit", burst = "10kB" }
scheduler = { kind = "drr" }
[link.up.flow.a.flow.x]
match = "any"
"#,
        expect![[r#"
            error: flow `a` is divided, so it has no requirement of its own
             --> a.toml:6:1
              |
            6 | requires = { delay = "1us" }
              | ^^^^^^^^
              |
              = help: write `requires` in its parts

            error: flow `a` is divided, so it has no envelope of its own
             --> a.toml:7:1
              |
            7 | envelope = { rate = "1mbit", burst = "10kB" }
              | ^^^^^^^^
              |
              = help: write `envelope` in its parts
        "#]],
    );
}

#[test]
fn a_scheduler_with_nothing_to_divide() {
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
[link.up.flow.a]
match = "udp"
kind = "A"
phase = "1ms"
scheduler = { kind = "drr" }
"#,
        expect![[r#"
            error: flow `a` has a scheduler, but nothing to divide
             --> a.toml:8:1
              |
            8 | scheduler = { kind = "drr" }
              | ^^^^^^^^^
              |
              = help: add its parts, `[link.LINK.flow.FLOW.flow.PART]`, or leave the scheduler out
        "#]],
    );
}

#[test]
fn phases_below_phases() {
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
[link.up.flow.a]
match = "udp"
kind = "A"
phase = "1ms"
scheduler = { kind = "virtual-links" }
[link.up.flow.a.flow.x]
match = "any"
kind = "A"
phase = "1ms"
"#,
        expect![[r#"
            warning: some packets match no flow of link `up`
             --> a.toml:1:1
              |
            1 | [link.up]
              | ^^^^^^^^^ they are dropped
              |
              = help: a last flow with `match = "any"` takes them

            error: flow `a`: its scheduler: `kind`: does not divide a flow: its phases are times on the link itself
             --> a.toml:8:13
              |
            8 | scheduler = { kind = "virtual-links" }
              |             ^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: choose another discipline here; this discipline may be above others
        "#]],
    );
}

#[test]
fn a_slip_in_the_name_of_a_link() {
    let office = "[link.office]\nrate = \"20mbit\"\nscheduler = { kind = \"drr\" }\n\n";
    let traffic = "[traffic.x]\nlink = \"office\"\nflow = \"b\"\nmodel = \"cbr\"\nrate = \"1mbit\"\nsize = \"500B\"\n";
    // No missing flow, source or rate is reported for either link.
    let slip = format!(
        "{office}[link.office.flow.a]\nmatch = \"udp\"\n\n[link.ofice.flow.b]\nmatch = \"any\"\nquantum = \"2kB\"\n\n{traffic}"
    );
    errors(
        &slip,
        expect![[r#"
        error: link `ofice` has no rate, and link `office` has one
         --> a.toml:8:7
          |
        8 | [link.ofice.flow.b]
          |       ^^^^^ did you mean `office`?
          |
          = help: if `ofice` is a link of its own, give it a `rate`
    "#]],
    );
    // The misspelt name has all flows, and the discipline of `up` requires flows. Both directions
    // have tables; `down` has only a rate.
    let all = "[link.office.up]\nrate = \"20mbit\"\nscheduler = { kind = \"virtual-links\" }\n\n[link.office.down]\nrate = \"30mbit\"\n\n\
               [link.offce.up.flow.b]\nmatch = \"any\"\nkind = \"A\"\nphase = \"5ms\"\n";
    errors(
        all,
        expect![[r#"
        error: link `offce` has no rate, and link `office` has one
         --> a.toml:8:7
          |
        8 | [link.offce.up.flow.b]
          |       ^^^^^ did you mean `office`?
          |
          = help: if `offce` is a link of its own, give it a `rate`
    "#]],
    );
    // The rate itself is in the table with the misspelt name.
    errors(
        "[link.ofice]\nrate = \"20mbit\"\n\n[link.office.flow.b]\nmatch = \"any\"\n",
        expect![[r#"
        error: link `office` has no rate, and link `ofice` has one
         --> a.toml:4:7
          |
        4 | [link.office.flow.b]
          |       ^^^^^^ did you mean `ofice`?
          |
          = help: if `office` is a link of its own, give it a `rate`
    "#]],
    );
    // If the names are not similar, or both links have rates, they are separate links.
    errors(
        &format!("{office}[link.home.flow.b]\nmatch = \"any\"\n"),
        expect![[r#"
            error: link `home` lacks `rate`
             --> a.toml:5:7
              |
            5 | [link.home.flow.b]
              |       ^^^^
              |
              = help: `rate`: bandwidth of the link in bits per second, or `unlimited`; a `trace`, a `preset` or a `profile` can replace it; write a rate in quotes, as in `"100mbit"`
        "#]],
    );
    errors(
        &format!("{office}[link.ofice]\nrat = \"20mbit\"\n"),
        expect![[r#"
            error: link `ofice` has no key `rat`
             --> a.toml:6:1
              |
            6 | rat = "20mbit"
              | ^^^ did you mean `rate`?
              |
              = help: allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`
        "#]],
    );
}

#[test]
fn a_port_of_either_side() {
    errors(
        "[link.a]\nrate = \"1mbit\"\n[link.a.flow.b]\nmatch = \"udp port 5004\"\n",
        expect![[r#"
            error: `match`: `port` is not a term of a rule
             --> a.toml:4:14
              |
            4 | match = "udp port 5004"
              |              ^^^^ did you mean `sport` or `dport`?
              |
              = help: terms: any, udp, tcp, icmp, icmp6, ip, ip6, proto N, src ADDRESS[/N], dst ADDRESS[/N], sport N[-M], dport N[-M], dscp N, tos N[/MASK], ttl N[-M], length N[-M], flags F, fragment, first-fragment, ether N, vlan N, mac-src MAC, mac-dst MAC, mark N[/MASK], not TERM, ( A or B ); see `falaj explain match`
        "#]],
    );
}

#[test]
fn what_a_link_cannot_do_to_packets() {
    errors_of_link(
        r#"loss = 1
duplicate = "0.01"
corrupt = "101%"
reorder = { gap = 3 }
jitter = { amount = "2h", order = "fre" }
slot = { least = "5ms", most = "3ms" }
"#,
        expect![[r#"
            error: `loss`: `1` could be a fraction or a percentage
             --> a.toml:3:8
              |
            3 | loss = 1
              |        ^
              |
              = help: write, in quotes, `1%` for 1 percent

            error: `duplicate`: `0.01` could be a fraction or a percentage
             --> a.toml:4:13
              |
            4 | duplicate = "0.01"
              |             ^^^^^^
              |
              = help: write `0.01%` for 0.01 percent

            error: `corrupt`: `101%` is above 100%
             --> a.toml:5:11
              |
            5 | corrupt = "101%"
              |           ^^^^^^
              |
              = help: write at most `100%`

            error: `reorder` of link `a` lacks `probability`
             --> a.toml:6:11
              |
            6 | reorder = { gap = 3 }
              |           ^^^^^^^^^^^
              |
              = help: `probability`: probability that a packet is affected; write a probability in quotes, as in `"1%"`

            error: `order`: `fre` is not one of the words allowed
             --> a.toml:7:35
              |
            7 | jitter = { amount = "2h", order = "fre" }
              |                                   ^^^^^ did you mean `free`?
              |
              = help: allowed: `kept`, `free`

            error: `slot` of link `a`: `most` is shorter than `least`
             --> a.toml:8:32
              |
            8 | slot = { least = "5ms", most = "3ms" }
              |                                ^^^^^
              |
              = help: write `5ms` or more
        "#]],
    );
    errors_of_link(
        r#"loss = { kind = "gilbert", to-bad = "1%" }
[link.a.up]
jitter = "2h"
[link.b]
rate = "1mbit"
[link.b.up]
loss = { to-bad = "1%" }
[link.b.down]
loss = { kind = "gilbert-elliott", to-bad = "1%" }
"#,
        expect![[r#"
            error: `kind`: `gilbert` is not one of the words allowed
             --> a.toml:3:17
              |
            3 | loss = { kind = "gilbert", to-bad = "1%" }
              |                 ^^^^^^^^^
              |
              = help: allowed: `random`, `gilbert-elliott`, `four-states`, `every`, `list`

            error: `jitter` of link `a` up: 7200s is too much
             --> a.toml:5:10
              |
            5 | jitter = "2h"
              |          ^^^^
              |
              = help: write at most `3600s`

            error: `loss` of link `b` up lacks `probability`
             --> a.toml:9:8
              |
            9 | loss = { to-bad = "1%" }
              |        ^^^^^^^^^^^^^^^^^
              |
              = help: the kind `random` needs it, as in `loss = { probability = "1%", correlation = "25%" }`

            error: `loss` of link `b` up has no key `to-bad`
             --> a.toml:9:10
              |
            9 | loss = { to-bad = "1%" }
              |          ^^^^^^
              |
              = help: allowed: `correlation`, `kind`, `probability`

            error: `loss` of link `b` down lacks `to-good`
              --> a.toml:11:8
               |
            11 | loss = { kind = "gilbert-elliott", to-bad = "1%" }
               |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               |
               = help: the kind `gilbert-elliott` needs it, as in `loss = { kind = "gilbert-elliott", to-bad = "1%", to-good = "30%", loss-bad = "80%" }`
        "#]],
    );
    errors_of_link(
        "loss = { kind = \"gilbert-elliott\", to-bad = \"1%\", to-good = \"0%\" }\n",
        expect![[r#"
        error: `to-good`: a state that is never left, or never entered
         --> a.toml:3:61
          |
        3 | loss = { kind = "gilbert-elliott", to-bad = "1%", to-good = "0%" }
          |                                                             ^^^^
          |
          = help: write a probability above zero
    "#]],
    );
    errors_of_link(
        "loss = { kind = \"four-states\", p13 = \"60%\", p14 = \"50%\" }\n",
        expect![[r#"
        error: `p14`: with `p13` it is above 100%
         --> a.toml:3:51
          |
        3 | loss = { kind = "four-states", p13 = "60%", p14 = "50%" }
          |                                                   ^^^^^
          |
          = help: both are transitions out of a gap: together 100% at most
    "#]],
    );
    errors_of_link(
        "loss = { kind = \"list\", packets = \"3, 9-5\" }\n",
        expect![[r#"
        error: `packets`: `9-5` ends before it begins
         --> a.toml:3:35
          |
        3 | loss = { kind = "list", packets = "3, 9-5" }
          |                                   ^^^^^^^^
          |
          = help: write `5-9`
    "#]],
    );
    errors_of_link(
        "loss = { kind = \"list\", packets = \"3, 1-5\" }\n",
        expect![[r#"
        error: `packets`: packet 3 is given twice
         --> a.toml:3:35
          |
        3 | loss = { kind = "list", packets = "3, 1-5" }
          |                                   ^^^^^^^^
          |
          = help: write each number once
    "#]],
    );
    errors_of_link(
        "loss = { kind = \"list\", packets = \"0\" }\n",
        expect![[r#"
        error: `packets`: packets are counted from 1
         --> a.toml:3:35
          |
        3 | loss = { kind = "list", packets = "0" }
          |                                   ^^^
          |
          = help: write `1` for the first one
    "#]],
    );
    errors_of_link(
        "jitter = { amount = \"1ms\", table = \"there-is-none.dist\" }\n",
        expect![[r#"
        error: `table`: `there-is-none.dist` cannot be read: No such file or directory (os error 2)
         --> a.toml:3:36
          |
        3 | jitter = { amount = "1ms", table = "there-is-none.dist" }
          |                                    ^^^^^^^^^^^^^^^^^^^^
          |
          = help: whole numbers separated by blanks, in ascending order as netem's `maketable` writes them; `#` begins a comment
    "#]],
    );
    errors_of_link(
        "jitter = { amount = \"1ms\", table = \"Cargo.toml\", distribution = \"normal\" }\n",
        expect![[r#"
        error: `jitter` of link `a` has two distributions
         --> a.toml:3:50
          |
        3 | jitter = { amount = "1ms", table = "Cargo.toml", distribution = "normal" }
          |                                                  ^^^^^^^^^^^^
          |
          = help: leave out `distribution` or `table`
    "#]],
    );
    errors_of_link(
        "jitter = { amount = \"1ms\", table = \"Cargo.toml\" }\n",
        expect![[r#"
            error: `table`: Cargo.toml:1:1: `[package]` is not a whole number from -32768 to 32767
             --> a.toml:3:36
              |
            3 | jitter = { amount = "1ms", table = "Cargo.toml" }
              |                                    ^^^^^^^^^^^^
              |
              = help: whole numbers separated by blanks, in ascending order as netem's `maketable` writes them; `#` begins a comment
        "#]],
    );
}

#[test]
fn what_a_link_would_do_otherwise() {
    warnings_of_link(
        "delay = \"10ms\"\njitter = { amount = \"5ms\", distribution = \"normal\" }\n",
        expect![[r#"
            warning: `jitter` of link `a`: some packets would have to arrive before they leave
             --> a.toml:4:21
              |
            4 | jitter = { amount = "5ms", distribution = "normal" }
              |                     ^^^^^ they arrive without delay instead: the mean is 10.042ms, not 10ms, and the deviation is 4.9ms
              |
              = help: from a `delay` of 19.997102ms on it is as configured
        "#]],
    );
    warnings_of_link(
        "reorder = \"25%\"\n",
        expect![[r#"
        warning: `reorder` of link `a`: no packet can overtake
         --> a.toml:3:11
          |
        3 | reorder = "25%"
          |           ^^^^^ the link has no delay that it could skip
          |
          = help: write a `delay`
    "#]],
    );
}

#[test]
fn what_is_no_capacity() {
    errors_of_link(
        "trace = \"a.csv\"\n",
        expect![[r#"
        error: link `a` has a rate and a trace of it
         --> a.toml:3:1
          |
        3 | trace = "a.csv"
          | ^^^^^
          |
          = help: leave out `rate`, or `trace`
    "#]],
    );
    errors(
        "[link.a]\ntrace = { file = \"there-is-none.csv\", repeat = \"1s\" }\n",
        expect![[r#"
        error: `file`: `there-is-none.csv` cannot be read: No such file or directory (os error 2)
         --> a.toml:2:18
          |
        2 | trace = { file = "there-is-none.csv", repeat = "1s" }
          |                  ^^^^^^^^^^^^^^^^^^^
          |
          = help: lines of `time,rate`, as in `1.5s,10mbit` (`0bit`: no packet passes), or lines of whole milliseconds, as in mahimahi; `#` begins a comment
    "#]],
    );
    errors(
        "[link.a]\ntrace = \"Cargo.toml\"\n",
        expect![[r#"
        error: `file`: Cargo.toml:1:1: `[package]` is not a whole number of milliseconds up to a day
         --> a.toml:2:9
          |
        2 | trace = "Cargo.toml"
          |         ^^^^^^^^^^^^
          |
          = help: lines of `time,rate`, as in `1.5s,10mbit` (`0bit`: no packet passes), or lines of whole milliseconds, as in mahimahi; `#` begins a comment
    "#]],
    );
    errors(
        "[link.a]\ntrace = \"tests/lte.trace\"\nburst = \"1kB\"\n",
        expect![[r#"
        error: a link with a trace cannot be a token bucket
         --> a.toml:3:1
          |
        3 | burst = "1kB"
          | ^^^^^
          |
          = help: leave out `burst`, or write a `rate` in place of the `trace`
    "#]],
    );
    errors(
        "[link.a]\ntrace = { file = \"tests/train.csv\", repeat = \"1s\" }\n",
        expect![[r#"
        error: `trace` of link `a`: it starts again after 1s, before its last line at 12.5s
         --> a.toml:2:46
          |
        2 | trace = { file = "tests/train.csv", repeat = "1s" }
          |                                              ^^^^
          |
          = help: write a longer time
    "#]],
    );
    errors(
        "[link.a]\ntrace = \"tests/train.csv\"\n",
        expect![[r#"
        error: `trace` of link `a`: its rate is zero in the end
         --> a.toml:2:9
          |
        2 | trace = "tests/train.csv"
          |         ^^^^^^^^^^^^^^^^^
          |
          = help: add a line, or `repeat`
    "#]],
    );
    errors(
        "[link.a]\ntrace = { file = \"tests/lte.trace\", repeat = \"1s\" }\n",
        expect![[r#"
        error: `trace` of link `a`: a mahimahi trace repeats where it ends
         --> a.toml:2:46
          |
        2 | trace = { file = "tests/lte.trace", repeat = "1s" }
          |                                              ^^^^
          |
          = help: leave out `repeat`
    "#]],
    );
    errors(
        "[link.a]\nrate = \"unlimited\"\nburst = \"1kB\"\n",
        expect![[r#"
        error: an unlimited link needs no tokens
         --> a.toml:3:1
          |
        3 | burst = "1kB"
          | ^^^^^
          |
          = help: write a `rate`, or leave out `burst`
    "#]],
    );
    errors(
        "[link.a]\nrate = \"8mbit\"\npeak = { rate = \"16mbit\", burst = \"1600B\" }\n",
        expect![[r#"
            error: `peak` limits the speed of a `burst`, and the link has none
             --> a.toml:3:1
              |
            3 | peak = { rate = "16mbit", burst = "1600B" }
              | ^^^^
              |
              = help: write a `burst`, or leave out `peak`
        "#]],
    );
    errors(
        "[link.a]\nrate = \"8mbit\"\nburst = \"10kB\"\npeak = { rate = \"8mbit\", burst = \"1600B\" }\n",
        expect![[r#"
            error: `peak` of link `a`: a peak rate of 8mbit is not above the link's rate of 8mbit
             --> a.toml:4:17
              |
            4 | peak = { rate = "8mbit", burst = "1600B" }
              |                 ^^^^^^^
              |
              = help: write a rate above 8mbit, or leave out `peak`
        "#]],
    );
    errors(
        "[link.a]\nrate = \"8mbit\"\nburst = \"10kB\"\npeak = { rate = \"unlimited\", burst = \"1600B\" }\n",
        expect![[r#"
            error: `rate`: `unlimited` is for the rate of a link
             --> a.toml:4:17
              |
            4 | peak = { rate = "unlimited", burst = "1600B" }
              |                 ^^^^^^^^^^^
              |
              = help: write a rate, as in `100mbit`
        "#]],
    );
    errors(
        "[link.a]\nrate = \"8mbit\"\nburst = \"10kB\"\npeak = \"7mbit\"\n",
        expect![[r#"
        error: `peak` of link `a`: a peak rate of 7mbit is not above the link's rate of 8mbit
         --> a.toml:4:8
          |
        4 | peak = "7mbit"
          |        ^^^^^^^
          |
          = help: write a rate above 8mbit, or leave out `peak`
    "#]],
    );
    errors(
        "[link.a]\ntrace = \"tests/lte.trace\"\npeak = { rate = \"16mbit\", burst = \"1600B\" }\n",
        expect![[r#"
            error: a link with a trace cannot be a token bucket
             --> a.toml:3:1
              |
            3 | peak = { rate = "16mbit", burst = "1600B" }
              | ^^^^
              |
              = help: leave out `peak`, or write a `rate` in place of the `trace`
        "#]],
    );
    errors(
        r#"[link.a]
trace = "tests/lte.trace"
scheduler = { kind = "virtual-links" }
[link.a.flow.x]
match = "any"
kind = "A"
phase = "10ms"
"#,
        expect![[r#"
            error: scheduler `virtual-links`: `virtual-links` divides the time of a link that serialises at one rate
             --> a.toml:3:22
              |
            3 | scheduler = { kind = "virtual-links" }
              |                      ^^^^^^^^^^^^^^^
              |
              = help: choose another scheduler, or leave out `burst`, `trace`, `profile` and the limits of a `slot`
        "#]],
    );
}

#[test]
fn what_no_device_paces() {
    let device = |rest: &str| format!("paced-by = \"device\"\n{rest}\n");
    errors_of_link(
        "paced-by = \"card\"\n",
        expect![[r#"
            error: `paced-by`: `card` is not one of the words allowed
             --> a.toml:3:12
              |
            3 | paced-by = "card"
              |            ^^^^^^
              |
              = help: allowed: `falaj`, `device`
        "#]],
    );
    errors_of_link(
        "backlog = \"20p\"\n",
        expect![[r#"
        error: `backlog` is for a link that a device paces, and falaj paces this one
         --> a.toml:3:1
          |
        3 | backlog = "20p"
          | ^^^^^^^
          |
          = help: write `paced-by = "device"`, or leave out `backlog`
    "#]],
    );
    errors_of_link(
        &device("backlog = \"1000B\""),
        expect![[r#"
        error: `backlog`: a device that holds 1000 B never accepts a packet of 1514 B
         --> a.toml:4:11
          |
        4 | backlog = "1000B"
          |           ^^^^^^^
          |
          = help: at least `1p` or `1514B`
    "#]],
    );
    errors_of_link(
        &device("delay = \"1ms\""),
        expect![[r#"
            error: `paced-by`: packets that the device was handed can be neither delayed nor impaired
             --> a.toml:3:12
              |
            3 | paced-by = "device"
              |            ^^^^^^^^
              |
              = help: leave out `delay` and impairments, or let falaj pace the link: `paced-by = "falaj"`
        "#]],
    );
    errors_of_link(
        &device("burst = \"20kB\""),
        expect![[r#"
            error: `paced-by`: a device that paces its link sends at one rate
             --> a.toml:3:12
              |
            3 | paced-by = "device"
              |            ^^^^^^^^
              |
              = help: leave out `burst` or `trace`, or let falaj pace the link: `paced-by = "falaj"`
        "#]],
    );
}

#[test]
fn what_is_no_overhead() {
    errors_of_link(
        "overhead = \"-14\"\ncells = \"aal5\"\n",
        expect![[r#"
            error: `overhead`: `-14` is not a number of bytes
             --> a.toml:3:12
              |
            3 | overhead = "-14"
              |            ^^^^^
              |
              = help: write a number and a unit, as in `-14B`; units of size: B, kB, MB, GB (thousands); KiB, MiB, GiB (1024)

            error: `cells`: `aal5` is not one of the words allowed
             --> a.toml:4:9
              |
            4 | cells = "aal5"
              |         ^^^^^^
              |
              = help: allowed: `none`, `atm`, `ptm`
        "#]],
    );
    errors_of_link(
        "overhead = -14\n",
        expect![[r#"
            error: `overhead`: `-14` is not a number of bytes
             --> a.toml:3:12
              |
            3 | overhead = -14
              |            ^^^
              |
              = help: write a number and a unit, as in `-14B`; units of size: B, kB, MB, GB (thousands); KiB, MiB, GiB (1024)
        "#]],
    );
    errors_of_link(
        "overhead = \"1MB\"\n",
        expect![[r#"
        error: `overhead`: `1MB` is out of range
         --> a.toml:3:12
          |
        3 | overhead = "1MB"
          |            ^^^^^
          |
          = help: write a size from `-65535B` to `65535B`
    "#]],
    );
}

/// The first lines of files with rules.
const TWO: &str = "[link.slow]\nrate = \"1mbit\"\n[link.fast]\nrate = \"1gbit\"\n";

#[test]
fn rules_that_lead_nowhere() {
    errors(
        &format!(
            "{TWO}{}",
            r#"[table.customers]
"10.1.0.0/16" = "slwo"
"10.2.0.1/16" = "fast"
[table.odd]
"1-5" = ""
"5" = ""
[[rule]]
name = "web"
match = "tcp src table custmers ( dport 80,443 or flags sny )"
to = "fats"
[[rule]]
match = "udp src table customer"
to = ["slow", "drop"]
[[rule]]
to = { skip-to = "wbe" }
[[rule]]
to = { skip-to = "web" }
[[rule]]
name = "web"
to = { by = "src" }
[[rule]]
to = "drop"
then = "on"
[[rule]]
too = "slow"
"#
        ),
        expect![[r#"
            error: `10.2.0.1/16` has bits set after its first 16
             --> a.toml:7:1
              |
            7 | "10.2.0.1/16" = "fast"
              | ^^^^^^^^^^^^^
              |
              = help: write `10.2.0.0/16` for the network, or `10.2.0.1` for the one address

            error: another entry of this table covers it too
              --> a.toml:10:1
               |
            10 | "5" = ""
               | ^^^
               |
               = help: "1-5" covers it, or a part of it; keep one of the two

            error: `match`: `sny` is not a flag of TCP
              --> a.toml:13:57
               |
            13 | match = "tcp src table custmers ( dport 80,443 or flags sny )"
               |                                                         ^^^ did you mean `syn`?
               |
               = help: flags: fin, syn, rst, psh, ack, urg, ece, cwr; `!` before one that is not set

            error: rule `web`: there is no link `fats`
              --> a.toml:14:6
               |
            14 | to = "fats"
               |      ^^^^^^ did you mean `fast`?
               |
               = help: links: `slow`, `fast`; or `drop`, or `pass` for no link

            error: there is no table `customer`
              --> a.toml:16:24
               |
            16 | match = "udp src table customer"
               |                        ^^^^^^^^ did you mean `customers`?
               |
               = help: tables: `customers`, `odd`

            error: `to`: a list may contain only links
              --> a.toml:17:15
               |
            17 | to = ["slow", "drop"]
               |               ^^^^^^
               |
               = help: links: `slow`, `fast`

            error: there is no rule `wbe`
              --> a.toml:19:18
               |
            19 | to = { skip-to = "wbe" }
               |                  ^^^^^ did you mean `web`?
               |
               = help: rules after this one: `4`, `web`, `6`, `7`

            error: rule `web` is not after this one
              --> a.toml:21:18
               |
            21 | to = { skip-to = "web" }
               |                  ^^^^^
               |
               = help: packets only go forward through the rules, so that they come to an end

            error: a second rule `web`
              --> a.toml:23:8
               |
            23 | name = "web"
               |        ^^^^^
               |
               = help: give each another name

            error: `to` has neither a `table` nor `skip-to`
              --> a.toml:24:6
               |
            24 | to = { by = "src" }
               |      ^^^^^^^^^^^^^^
               |
               = help: write `{ table = "customers", by = "src" }` or `{ skip-to = "web" }`

            error: rule `6` cannot continue with the next rule
              --> a.toml:27:8
               |
            27 | then = "on"
               |        ^^^^
               |
               = help: leave `then` out: `drop` ends a packet's way, and `skip-to` names the rule that follows

            error: rule `7` has no key `too`
              --> a.toml:29:1
               |
            29 | too = "slow"
               | ^^^ did you mean `to`?
               |
               = help: allowed: `conforms-to`, `direction`, `mark`, `mark-mask`, `match`, `name`, `probability`, `then`, `to`
        "#]],
    );
}

#[test]
fn tables_that_lead_nowhere() {
    errors(
        &format!(
            "{TWO}{}",
            r#"[table.customers]
"10.1.0.0/16" = "slwo"
"10.2.0.0/16" = 5
[table.twice]
"10.0.0.0/8" = ""
"10.0.0.0/8 " = ""
[[rule]]
to = { table = "customers", by = "source" }
[[rule]]
to = { table = "customrs" }
"#
        ),
        expect![[r#"
            error: the value of an entry must be a text
             --> a.toml:7:17
              |
            7 | "10.2.0.0/16" = 5
              |                 ^
              |
              = help: write the name of a link, `"drop"` or `"pass"`; or `""` if only `match` uses the entry

            error: `10.0.0.0/8 ` has no prefix length that IP knows
              --> a.toml:10:1
               |
            10 | "10.0.0.0/8 " = ""
               | ^^^^^^^^^^^^^
               |
               = help: write 0 to 32 after the slash

            error: `by`: `source` is not one of the words allowed
              --> a.toml:12:34
               |
            12 | to = { table = "customers", by = "source" }
               |                                  ^^^^^^^^
               |
               = help: allowed: `src`, `dst`, `sport`, `dport`, `proto`, `dscp`, `vlan`

            error: there is no table `customrs`
              --> a.toml:14:16
               |
            14 | to = { table = "customrs" }
               |                ^^^^^^^^^^ did you mean `customers`?
               |
               = help: tables: `customers`, `twice`
        "#]],
    );
}

#[test]
fn rules_that_are_hardly_meant() {
    warnings(
        &format!(
            "{TWO}{}",
            r#"[table.numbers]
"5" = ""
[table.nobodys]
"10.0.0.0/8" = ""
[[rule]]
match = "tcp src table numbers"
to = "slow"
[[rule]]
match = "udp"
to = "slow"
[[rule]]
match = "udp dport 53"
to = "drop"
"#
        ),
        expect![[r#"
            warning: no rule uses table `nobodys`
             --> a.toml:7:1
              |
            7 | [table.nobodys]
              | ^^^^^^^^^^^^^^^
              |
              = help: write `src table nobodys` in a `match`, or `to = { table = "nobodys" }` in a rule

            warning: no rule leads to link `fast`
             --> a.toml:9:1
              |
            9 | [[rule]]
              | ^^^^^^^^
              |
              = help: write a rule with `to = "fast"`

            warning: table `numbers` has no addresses
              --> a.toml:10:24
               |
            10 | match = "tcp src table numbers"
               |                        ^^^^^^^ no packet's `src` is in it

            warning: no packet reaches rule `3`
              --> a.toml:15:1
               |
            15 | [[rule]]
               | ^^^^^^^^
               |
               = help: rule `2` before it matches them all; put rule `2` after it

            warning: packets that match no rule are dropped
              --> a.toml:15:1
               |
            15 | [[rule]]
               | ^^^^^^^^ after the last rule
               |
               = help: a last rule without `match` takes them: `to = "pass"`, to a link, or `to = "drop"`
        "#]],
    );
    warnings(
        &format!(
            "{TWO}[[rule]]\nname = \"all\"\nto = \"slow\"\n[[rule]]\nmatch = \"udp\"\nto = \"fast\"\n"
        ),
        expect![[r#"
            warning: no packet reaches rule `2`
             --> a.toml:8:1
              |
            8 | [[rule]]
              | ^^^^^^^^
              |
              = help: a rule before it matches every packet; put that rule last
        "#]],
    );
    // One rule in each direction takes all packets. A rule with a policer leaves some packets to
    // the next rule.
    warnings(
        &format!(
            "{TWO}[[rule]]\ndirection = \"up\"\nto = \"slow\"\n\
             [[rule]]\ndirection = \"down\"\n\
             conforms-to = {{ rate = \"1mbit\", burst = \"3kB\" }}\nto = \"slow\"\n\
             [[rule]]\ndirection = \"down\"\nto = \"fast\"\n\
             [[rule]]\nmatch = \"udp\"\nto = \"fast\"\n"
        ),
        expect![[r#"
            warning: no packet reaches rule `4`
              --> a.toml:15:1
               |
            15 | [[rule]]
               | ^^^^^^^^
               |
               = help: a rule before it matches every packet; put that rule last
        "#]],
    );
}

#[test]
fn sources_that_rules_lead_nowhere() {
    let traffic = |headers: &str| {
        format!(
            "{TWO}[[rule]]\nmatch = \"udp dport 5\"\nto = \"slow\"\n[[rule]]\nmatch = \"tcp\"\nto = \"fast\"\n\
             [[rule]]\nto = \"drop\"\n[traffic.a]\n{headers}\nmodel = \"cbr\"\nrate = \"1mbit\"\nsize = \"500B\"\n"
        )
    };
    errors(
        &traffic("headers = \"udp dport 6\""),
        expect![[r#"
        error: the rules lead traffic `a` to no link
          --> a.toml:14:11
           |
        14 | headers = "udp dport 6"
           |           ^^^^^^^^^^^^^
           |
           = help: give the headers of its packets, `headers = "…"`, or its `link` and `flow`
    "#]],
    );
    errors(
        &traffic("headers = \"udp dport 5,6\""),
        expect![[r#"
        error: a packet has headers without `or` and lists
          --> a.toml:14:11
           |
        14 | headers = "udp dport 5,6"
           |           ^^^^^^^^^^^^^^^
           |
           = help: write one value of each, as in `tcp src 10.1.0.7 dport 443`
    "#]],
    );
    errors(
        &traffic("headers = \"udp dport 5-6\""),
        expect![[r#"
        error: a packet has one port, and no range
          --> a.toml:14:11
           |
        14 | headers = "udp dport 5-6"
           |           ^^^^^^^^^^^^^^^
           |
           = help: write one value of each, as in `tcp src 10.1.0.7 dport 443`
    "#]],
    );
    errors(
        &traffic("link = \"slow\"\nheaders = \"udp dport 5\""),
        expect![[r#"
        error: traffic `a` passes its link, whatever its `headers`
          --> a.toml:15:1
           |
        15 | headers = "udp dport 5"
           | ^^^^^^^
           |
           = help: only rules use them, and only if the source has no `link`
    "#]],
    );
    let good = traffic("headers = \"udp dport 5\"");
    let (scenario, _) =
        falaj_scenario::parse(&good, "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let source = &scenario.traffic[0];
    let key = source.key.expect("it goes by the rules");
    assert_eq!((source.link, key.ports.map(|p| p.1), key.length), (0, Some(5), Some(486)));
}

#[test]
fn envelopes_that_cannot_be() {
    errors_of_link(
        r#"[traffic.a]
model = "greedy"
size = "1500B"
allowed = { rate = "2mbit", burst = "1kB" }
[traffic.b]
model = "greedy"
size = "1500B"
allowed = { rate = "2mbit", frame = "5ms" }
[traffic.c]
model = "greedy"
size = "1500B"
allowed = { x-min = "4ms", x-ave = "1ms", over = "100ms" }
[traffic.d]
model = "greedy"
size = "1500B"
allowed = { rate = "2mbit", burst = "15kB", frame = "10ms" }
[traffic.e]
model = "greedy"
size = "1500B"
allowed = [{ rate = "2mbit", burst = "15kB" }, { rate = "2mbit", frame = "10ms" }]
[traffic.f]
model = "greedy"
rate = "1mbit"
size = "1500B"
[traffic.g]
model = "poisson"
rate = "1mbit"
size = "1500B"
shaped = { rate = "2mbit", burst = "100B" }
[traffic.h]
model = "poisson"
rate = "1mbit"
size = "imix"
shaped = { rate = "2mbit", burst = "15kB" }
policed = { rate = "2mbit", burst = "15kB" }
[traffic.i]
model = "poisson"
rate = "1mbit"
size = "imix"
policed = { burst = "15kB" }
offset = "1ms"
"#,
        expect![[r#"
            error: `burst`: a bucket of 1000B never holds a packet of 1500B
             --> a.toml:6:37
              |
            6 | allowed = { rate = "2mbit", burst = "1kB" }
              |                                     ^^^^^
              |
              = help: write at least `1500B`, or a smaller `size`

            error: `frame`: at this rate 1250B fit a frame, and packets have up to 1500B
              --> a.toml:10:37
               |
            10 | allowed = { rate = "2mbit", frame = "5ms" }
               |                                     ^^^^^
               |
               = help: write a longer frame, or a smaller `size`

            error: `x-ave` is less than `x-min`; packets cannot conform to both
              --> a.toml:14:36
               |
            14 | allowed = { x-min = "4ms", x-ave = "1ms", over = "100ms" }
               |                                    ^^^^^
               |
               = help: `x-min` is the least, and `over` the greatest

            error: the envelope of traffic `d` mixes or lacks keys
              --> a.toml:18:11
               |
            18 | allowed = { rate = "2mbit", burst = "15kB", frame = "10ms" }
               |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               |
               = help: write `{ rate = "2mbit", burst = "15kB" }`, a token bucket (sigma, rho); `{ rate = "2mbit", frame = "10ms" }`, (r, T); or `{ x-min = "1ms", x-ave = "4ms", over = "100ms" }`, (Xmin, Xave, I)

            error: several envelopes must all be token buckets
              --> a.toml:22:48
               |
            22 | allowed = [{ rate = "2mbit", burst = "15kB" }, { rate = "2mbit", frame = "10ms" }]
               |                                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               |
               = help: write a `rate` and a `burst` in each, or leave the others out

            error: traffic `f` lacks `allowed`, which `greedy` needs
              --> a.toml:23:1
               |
            23 | [traffic.f]
               | ^^^^^^^^^^^
               |
               = help: write the envelope, as in `allowed = { rate = "2mbit", burst = "15kB" }`

            error: `rate` is for `model = "poisson"`, `model = "cbr"`, `model = "on-off"`, `model = "pareto-on-off"`, `model = "mpeg"`, and this is `greedy`
              --> a.toml:25:1
               |
            25 | rate = "1mbit"
               | ^^^^
               |
               = help: leave out `rate`, or change the model

            error: `burst`: a bucket of 100B never holds a packet of 1500B
              --> a.toml:31:36
               |
            31 | shaped = { rate = "2mbit", burst = "100B" }
               |                                    ^^^^^^
               |
               = help: write at least `1500B`, or a smaller `size`

            error: traffic `h` is both `shaped` and `policed`
              --> a.toml:37:1
               |
            37 | policed = { rate = "2mbit", burst = "15kB" }
               | ^^^^^^^
               |
               = help: shaped packets conform already: leave one of them out

            error: `offset` is for `model = "greedy"`, `model = "replay"`, and this is `poisson`
              --> a.toml:43:1
               |
            43 | offset = "1ms"
               | ^^^^^^
               |
               = help: leave out `offset`, or change the model
        "#]],
    );
}

#[test]
fn sources_that_cannot_be() {
    errors_of_link(
        r#"[traffic.a]
model = "mmpp"
rate = "1mbit"
states = [{ rate = "1mbit", stay = "10ms" }, { stay = "0s" }, { rate = "fast" }]
size = "74B x 7, 1514B x 0"
[traffic.b]
model = "map"
d0 = [[-3, 1], [2]]
d1 = [["x"]]
size = "900B-100B"
[traffic.c]
model = "map"
d0 = [[-3, 1], [2, -4]]
d1 = [[1, 0], [0, 2]]
size = "500B"
[traffic.d]
model = "pareto-on-off"
rate = "1mbit"
on = "10ms"
off = "10ms"
shape = 1
size = "500B"
[traffic.e]
model = "mpeg"
rate = "1mbit"
pattern = "IPBX"
size = "1600B"
[traffic.f]
model = "poisson"
size = "74B-1514B"
"#,
        expect![[r#"
            error: `rate` is for `model = "poisson"`, `model = "cbr"`, `model = "on-off"`, `model = "pareto-on-off"`, `model = "mpeg"`, and this is `mmpp`
             --> a.toml:5:1
              |
            5 | rate = "1mbit"
              | ^^^^
              |
              = help: leave out `rate`, or change the model

            error: `size`: `0` is not the weight of a size
             --> a.toml:7:8
              |
            7 | size = "74B x 7, 1514B x 0"
              |        ^^^^^^^^^^^^^^^^^^^^
              |
              = help: write a mix as in `74B x 7, 590B x 4, 1514B x 1`; 1 to 1000000

            error: `d1`: a text is not allowed here
              --> a.toml:11:8
               |
            11 | d1 = [["x"]]
               |        ^^^
               |
               = help: write a list of lists of numbers, as in `[[-3, 1], [2, -4]]`

            error: `size`: `900B-100B` ends before it begins
              --> a.toml:12:8
               |
            12 | size = "900B-100B"
               |        ^^^^^^^^^^^
               |
               = help: write `100B-900B`

            error: `d0`: the sum of row 1 of `d0` and `d1` is -1, and must be 0
              --> a.toml:15:6
               |
            15 | d0 = [[-3, 1], [2, -4]]
               |      ^^^^^^^^^^^^^^^^^^
               |
               = help: write transitions per second: each row of `d0` and `d1` together adds up to zero, as in `d0 = [[-300, 100], [50, -60]]` and `d1 = [[200, 0], [0, 10]]`

            error: `shape`: with the shape 1, bursts have no mean length
              --> a.toml:23:9
               |
            23 | shape = 1
               |         ^
               |
               = help: write a number above 1 and up to 10, as in `1.5`

            error: `pattern`: `IPBX` contains a letter that is no type of frame
              --> a.toml:28:11
               |
            28 | pattern = "IPBX"
               |           ^^^^^^
               |
               = help: write `I`, `P` and `B`, as in `IPBBPBBPBB`

            error: `size`: 1600B is more than link `a` carries
              --> a.toml:29:8
               |
            29 | size = "1600B"
               |        ^^^^^^^
               |
               = help: at most `1514B`: its mtu of 1500B, accounted at `l2`

            error: traffic `f` lacks `rate`, which `poisson` needs
              --> a.toml:30:1
               |
            30 | [traffic.f]
               | ^^^^^^^^^^^
               |
               = help: write `rate = "10mbit"`
        "#]],
    );
}

/// Invalid TCP connections, and a connection over a link with an unlimited rate.
#[test]
fn connections_that_cannot_be() {
    errors_of_link(
        r#"[traffic.a]
model = "tcp"
size = "74B-1514B"
rate = "1mbit"
[traffic.b]
model = "tcp"
size = "1514B"
pause = "1s"
shaped = { rate = "2mbit", burst = "15kB" }
[traffic.c]
model = "tcp"
size = "1514B"
congestion = "vegas"
[traffic.d]
model = "tcp"
size = "imix"
[traffic.e]
model = "poisson"
rate = "1mbit"
size = "500B"
congestion = "reno"
"#,
        expect![[r#"
            error: `rate` is for `model = "poisson"`, `model = "cbr"`, `model = "on-off"`, `model = "pareto-on-off"`, `model = "mpeg"`, and this is `tcp`
             --> a.toml:6:1
              |
            6 | rate = "1mbit"
              | ^^^^
              |
              = help: leave out `rate`, or change the model

            error: `pause`: no transfer follows a transfer without end
              --> a.toml:10:1
               |
            10 | pause = "1s"
               | ^^^^^
               |
               = help: write `bytes = "1MB"` too

            error: `shaped`: a connection adapts its sending to the packets that arrive, and has no token bucket
              --> a.toml:11:1
               |
            11 | shaped = { rate = "2mbit", burst = "15kB" }
               | ^^^^^^
               |
               = help: leave it out, or let the traffic pass a link with such a discipline, as `shaper`

            error: `congestion`: `vegas` is not one of the words allowed
              --> a.toml:15:14
               |
            15 | congestion = "vegas"
               |              ^^^^^^^
               |
               = help: allowed: `reno`, `cubic`, `dctcp`, `bbr`

            error: `size`: all segments of a connection except the last have the same size
              --> a.toml:18:8
               |
            18 | size = "imix"
               |        ^^^^^^
               |
               = help: write the size of a full one, as in `size = "1514B"`

            error: `congestion` is for `model = "tcp"`, and this is `poisson`
              --> a.toml:23:1
               |
            23 | congestion = "reno"
               | ^^^^^^^^^^
               |
               = help: leave out `congestion`, or change the model
        "#]],
    );
    errors(
        "[link.a]\nrate = \"unlimited\"\n[traffic.a]\nmodel = \"tcp\"\nsize = \"1514B\"\n",
        expect![[r#"
            error: nothing limits traffic `a`: its link has no rate
             --> a.toml:4:9
              |
            4 | model = "tcp"
              |         ^^^^^
              |
              = help: write a `rate` in the link's table
        "#]],
    );
}

/// Acknowledgements return in the link's other direction, unless the source sets their delay.
#[test]
fn the_way_back_of_acknowledgements() {
    use falaj_traffic::source::Model;
    let back = |rest: &str| {
        let text = format!(
            "[link.a]\nrate = \"1mbit\"\n[link.a.up]\ndelay = \"3ms\"\n[link.a.down]\ndelay = \"9ms\"\n\
             [traffic.x]\nmodel = \"tcp\"\nsize = \"1514B\"\n{rest}"
        );
        let (scenario, _) =
            falaj_scenario::parse(&text, "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let Model::Tcp(tcp) = &scenario.traffic[0].model else {
            panic!("{:?}", scenario.traffic[0])
        };
        (tcp.back.0 / 1_000_000, tcp.base.0 / 1_000_000)
    };
    assert_eq!(
        [back(""), back("direction = \"down\""), back("return = \"0s\"")],
        [(9, 12), (3, 12), (0, 3)]
    );
}

/// Every source of traffic in the how-to page is valid on a link that carries it.
#[test]
fn the_sources_of_the_book() {
    let page = include_str!("../../../../docs/how-to/traffic.md");
    let files = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    // Examples with a capture are skipped, because the page does not contain the file.
    let whole: Vec<&str> = files
        .filter(|text| text.starts_with("[traffic.") && !text.contains("capture = "))
        .collect();
    assert_eq!(whole.len(), 7);
    for text in whole {
        let flow = if text.contains("flow = \"voice\"") {
            "[link.a.flow.voice]\nmatch = \"any\"\n"
        } else {
            ""
        };
        let (scenario, _) =
            falaj_scenario::parse(&format!("{LINK}{flow}{text}"), "a.toml").unwrap();
        let source = &scenario.traffic[0];
        assert!(
            source.mean_rate().0 > 0
                || matches!(source.model, falaj_traffic::source::Model::Tcp(_))
        );
    }
}

/// In a tree of flows that one discipline serves, an error is reported at its place.
#[test]
fn a_class_in_the_midst_of_a_tree() {
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "htb" }
[link.up.flow.a]
match = "udp"
rate = "10mbit"
scheduler = { kind = "htb" }
[link.up.flow.a.flow.b]
match = "any"
rate = "10mbit"
prio = 3
scheduler = { kind = "htb" }
[link.up.flow.a.flow.b.flow.c]
match = "any"
rate = "10mbit"
[link.up.flow.d]
match = "any"
rate = "10mbit"
"#,
        expect![[r#"
            error: flow `b`: a class that is divided has no priority: its parts have
              --> a.toml:11:8
               |
            11 | prio = 3
               |        ^
               |
               = help: give `prio` to its parts
        "#]],
    );
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "mclock" }
[link.up.flow.a]
match = "any"
reservation = "10mbit"
scheduler = { kind = "mclock" }
[link.up.flow.a.flow.b]
match = "udp"
reservation = "6mbit"
[link.up.flow.a.flow.c]
match = "any"
reservation = "5mbit"
"#,
        expect![[r#"
            error: flow `a`: its parts have reservations of 11mbit together, and it has one of 10mbit
             --> a.toml:6:15
              |
            6 | reservation = "10mbit"
              |               ^^^^^^^^
              |
              = help: at least 11mbit, or leave it out, which means 11mbit
        "#]],
    );
    errors(
        r#"[link.up]
rate = "100mbit"
scheduler = { kind = "hfsc" }
[link.up.flow.a]
match = "any"
rate = "10mbit"
scheduler = { kind = "hfsc" }
[link.up.flow.a.flow.b]
match = "any"
"#,
        expect![[r#"
            error: flow `a`: a class that is divided has no real-time curve: its parts have
             --> a.toml:6:8
              |
            6 | rate = "10mbit"
              |        ^^^^^^^^
              |
              = help: give it a `share`, and its parts a `rate`
        "#]],
    );
}

#[test]
fn flows_below_flows_without_end() {
    let mut text = "[link.up]\nrate = \"100mbit\"\n".to_owned();
    let mut header = "link.up".to_owned();
    for _ in 0..9 {
        header += ".flow.a";
        text += &format!("[{header}]\nmatch = \"any\"\n");
    }
    errors(
        &text,
        expect![[r#"
        error: flow `a` is divided 8 levels below the link
          --> a.toml:17:1
           |
        17 | [link.up.flow.a.flow.a.flow.a.flow.a.flow.a.flow.a.flow.a.flow.a]
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
           |
           = help: at most 8 levels of flows; leave some out that divide nothing
    "#]],
    );
}

#[test]
fn dctcp_without_marks() {
    let source = |rest: &str| {
        format!(
            "[link.a]\nrate = \"8mbit\"\n[traffic.x]\nmodel = \"tcp\"\nsize = \"1514B\"\ncongestion = \"dctcp\"\n{rest}"
        )
    };
    let (_, none) = falaj_scenario::parse(&source("ecn = \"ect1\"\n"), "a.toml").unwrap();
    assert!(none.problems().is_empty(), "{none}");
    warnings(
        &source(""),
        expect![[r#"
            warning: `congestion`: packets of this source are not marked, and without marks DCTCP behaves like Reno
             --> a.toml:6:14
              |
            6 | congestion = "dctcp"
              |              ^^^^^^^
              |
              = help: write `ecn = "ect1"`, or `"ect0"` for a queue that marks all alike
        "#]],
    );
}

/// Only the first of similar warnings is shown in full, with the lines of the others.
#[test]
fn many_warnings_that_are_alike() {
    let flow =
        |n: usize| format!("[link.a.flow.f{n}]\nmatch = \"udp dport {n}\"\nqueue = \"{n}p\"\n");
    let flows = |many: usize| (1..=many).map(flow).collect::<String>();
    let drr = "delay = \"400ms\"\nscheduler = { kind = \"drr\" }\n";
    warnings_of_link(
        &format!("{drr}{}", flows(5)),
        expect![[r#"
        warning: some packets match no flow of link `a`
         --> a.toml:1:1
          |
        1 | [link.a]
          | ^^^^^^^^ they are dropped
          |
          = help: a last flow with `match = "any"` takes them

        warning: flow `f1`: its queue is less than a tenth of its rate times the link's delay
         --> a.toml:7:9
          |
        7 | queue = "1p"
          |         ^^^^ `queue` holds 1p; 20mbit x 400ms is 1 MB
          |
          = help: one TCP connection needs about `queue = "661p"` to use that rate
          = help: if it is short on purpose, a flow says so by the delay it needs: `requires = { delay = "…" }`

        and 4 more alike, in lines 10, 13, 16, 19
    "#]],
    );
    let (_, two) = falaj_scenario::parse(&format!("{LINK}{drr}{}", flows(2)), "a.toml")
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(two.to_string().matches("warning: flow `f").count(), 2, "{two}");
}
