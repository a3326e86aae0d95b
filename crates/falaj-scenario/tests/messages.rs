//! What people read when a file is wrong, word for word.

use expect_test::{Expect, expect};

/// The errors of a file, which has some.
fn errors(text: &str, expected: Expect) {
    let problems = falaj_scenario::parse(text, "a.toml").map(|(_, warnings)| warnings).expect_err("no error was found");
    expected.assert_eq(&format!("{problems}\n"));
}

/// The warnings of a file, which has no errors.
fn warnings(text: &str, expected: Expect) {
    let (_, warnings) = falaj_scenario::parse(text, "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
    expected.assert_eq(&format!("{warnings}\n"));
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
              = help: allowed: `account`, `delay`, `down`, `flow`, `mtu`, `rate`, `scheduler`, `up`
        "#]],
    );
}

#[test]
fn a_key_of_another_discipline() {
    errors(
        r#"[link.a]
rate = "100mbit"
scheduler = { kind = "drr", tail = "skip" }
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
              = help: `tail` is for `scheduler = { kind = "virtual-links" }`
              = help: allowed: `kind`

            error: flow `x` has no key `phase`
             --> a.toml:6:1
              |
            6 | phase = "1ms"
              | ^^^^^
              |
              = help: `phase` is for flows of the scheduler `virtual-links`
              = help: allowed: `match`, `need`, `quantum`, `queue`
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
need = { rate = "10mb", delay = "30u" }
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
             --> a.toml:7:17
              |
            7 | need = { rate = "10mb", delay = "30u" }
              |                 ^^^^^^
              |
              = help: write `10mbit` for bits, or `10MB/s` for bytes

            error: `delay`: `30u`: `u` is not a unit of time
             --> a.toml:7:33
              |
            7 | need = { rate = "10mb", delay = "30u" }
              |                                 ^^^^^ did you mean `us`?
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
            error: this is no TOML: unclosed table
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
              = help: `rate`: bits a second that the link carries, or `unlimited`; write a rate in quotes, as in `"100mbit"`

            error: link `b` lacks `rate`
             --> a.toml:3:7
              |
            3 | [link.b.up]
              |       ^
              |
              = help: `rate`: bits a second that the link carries, or `unlimited`; write a rate in quotes, as in `"100mbit"`
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
              = help: allowed: `fifo`, `drr`, `virtual-links`
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
    errors(
        r#"[link.a]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
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
             --> a.toml:3:22
              |
            3 | scheduler = { kind = "virtual-links" }
              |                      ^^^^^^^^^^^^^^^
              |
              = help: give the link a `rate`, or choose `fifo`
        "#]],
    );
}

#[test]
fn what_a_discipline_needs_of_a_flow() {
    errors(
        r#"[link.a]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
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
              = help: `phase`: time on the link in each cycle, at most; at least one largest packet; write a time in quotes, as in `"40ms"`

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
    errors(
        r#"[link.a]
rate = "100mbit"
scheduler = { kind = "virtual-links" }
"#,
        expect![[r#"
            error: link `a` has no flows, and `virtual-links` cannot do without
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
    errors(
        r#"[link.a]
rate = "100mbit"
[link.a.flow.x]
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
              = help: terms: any, udp, tcp, icmp, icmp6, ip, ip6, proto N, src ADDRESS[/N], dst ADDRESS[/N], sport N[-M], dport N[-M]

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
              = help: write a term on both sides, or leave it away

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
need = "1ms"
[run]
seed = "1"
replications = 1.5
"#,
        expect![[r#"
            error: `traffic`: a whole number does not go here
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

            error: `rate`: true or false does not go here
             --> a.toml:5:8
              |
            5 | rate = true
              |        ^^^^
              |
              = help: write a rate in quotes, as in `"100mbit"`

            error: `kind`: a whole number does not go here
             --> a.toml:6:22
              |
            6 | scheduler = { kind = 1 }
              |                      ^
              |
              = help: write one of these in quotes: `fifo`, `drr`, `virtual-links`

            error: `up`: a text does not go here
             --> a.toml:7:6
              |
            7 | up = "fast"
              |      ^^^^^^
              |
              = help: write a table of `rate`, `delay`, `mtu`, `account`, `scheduler`, `flow`

            error: `match`: a table does not go here
             --> a.toml:9:9
              |
            9 | match = { udp = 5 }
              |         ^^^^^^^^^^^
              |
              = help: write a rule in quotes, or a list of them, as in `"udp dport 5004"`

            error: `need`: a text does not go here
              --> a.toml:10:8
               |
            10 | need = "1ms"
               |        ^^^^^
               |
               = help: write a table of `rate`, `delay`

            error: `seed`: a text does not go here
              --> a.toml:12:8
               |
            12 | seed = "1"
               |        ^^^
               |
               = help: write a whole number from 0 to 9223372036854775807, without quotes

            error: `replications`: a number with decimals does not go here
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
               = help: write a whole number from 0 to 9223372036854775807

            error: `replications`: `10001` is out of range
              --> a.toml:11:16
               |
            11 | replications = 10001
               |                ^^^^^
               |
               = help: write a whole number from 1 to 10000
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
size = "73B"
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
               = help: allowed: `poisson`, `cbr`, `on-off`

            error: `rate`: `unlimited` is for links
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

            error: `on` is for `model = "on-off"`, and this is `cbr`
              --> a.toml:22:1
               |
            22 | on = "1s"
               | ^^
               |
               = help: leave `on` away, or change the model

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

            error: `size`: 73B has no room for the 32 bytes by which packets are known again
              --> a.toml:26:8
               |
            26 | size = "73B"
               |        ^^^^^
               |
               = help: at least `74B`, since link `uplink` accounts `l2`

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
               = help: allowed: `account`, `delay`, `flow`, `mtu`, `rate`, `scheduler`
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
              = help: `rate`: bits a second that the link carries, or `unlimited`; write a rate in quotes, as in `"100mbit"`

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
              = help: allowed: `link`, `run`, `traffic`
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
              = help: allowed: `account`, `delay`, `down`, `flow`, `mtu`, `rate`, `scheduler`, `up`

            error: link `a` has no key `shceduler`
             --> a.toml:3:1
              |
            3 | shceduler = { kind = "drr" }
              | ^^^^^^^^^ did you mean `scheduler`?
              |
              = help: allowed: `account`, `delay`, `down`, `flow`, `mtu`, `rate`, `scheduler`, `up`

            error: link `a` has no key `flows`
             --> a.toml:4:9
              |
            4 | [link.a.flows.x]
              |         ^^^^^ did you mean `flow`?
              |
              = help: allowed: `account`, `delay`, `down`, `flow`, `mtu`, `rate`, `scheduler`, `up`

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
              = help: allowed: `direction`, `flow`, `link`, `model`, `off`, `on`, `rate`, `size`, `start`, `stop`
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
              = help: `kind`: A keeps its phase when idle, B gives it up; write one of these in quotes: `A`, `B`

            error: flow `x` lacks `phase`
             --> a.toml:4:1
              |
            4 | [link.a.flow.x]
              | ^^^^^^^^^^^^^^^
              |
              = help: `phase`: time on the link in each cycle, at most; at least one largest packet; write a time in quotes, as in `"40ms"`

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
            warning: no flow of link `a` takes the packets that match no rule
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
              = help: flow `x` before it takes every packet; put that one last
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
fn flows_that_nobody_uses() {
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
    // The default; the sum of several; one that a flow has.
    warnings(
        r#"[link.a]
rate = "1gbit"
delay = "40ms"
"#,
        expect![[r#"
            warning: the scheduler `fifo`: its queue is less than a tenth of what is on its way on the link
             --> a.toml:1:1
              |
            1 | [link.a]
              | ^^^^^^^^ `queue` is not set here: it is 20p; 1gbit x 40ms is 5000000B
              |
              = help: one TCP connection needs about `scheduler = { kind = "fifo", queue = "3303p" }` to use that rate
              = help: if it is short on purpose, a flow says so by the delay it needs: `need = { delay = "…" }`
        "#]],
    );
    warnings(
        r#"[link.a]
rate = "1gbit"
delay = "40ms"
scheduler = { kind = "fifo", queue = "64kB" }
"#,
        expect![[r#"
            warning: the scheduler `fifo`: its queue is less than a tenth of what is on its way on the link
             --> a.toml:4:38
              |
            4 | scheduler = { kind = "fifo", queue = "64kB" }
              |                                      ^^^^^^ `queue` holds 64000B; 1gbit x 40ms is 5000000B
              |
              = help: one TCP connection needs about `scheduler = { kind = "fifo", queue = "3303p" }` to use that rate
              = help: if it is short on purpose, a flow says so by the delay it needs: `need = { delay = "…" }`
        "#]],
    );
    warnings(
        r#"[link.a]
rate = "100mbit"
delay = "40ms"
scheduler = { kind = "drr" }
[link.a.flow.x]
match = "udp"
queue = "4p"
[link.a.flow.short]
match = "icmp"
queue = "4p"
need = { delay = "5ms" }
[link.a.flow.y]
match = "any"
queue = "300p"
"#,
        expect![[r#"
            warning: flow `x`: its queue is less than a tenth of what is on its way on the link
             --> a.toml:7:9
              |
            7 | queue = "4p"
              |         ^^^^ `queue` holds 4p; 33.333333mbit x 40ms is 166666B
              |
              = help: one TCP connection needs about `queue = "111p"` to use that rate
              = help: if it is short on purpose, a flow says so by the delay it needs: `need = { delay = "…" }`
        "#]],
    );
}

#[test]
fn a_phase_with_a_long_tail() {
    let text = r#"[link.a]
rate = "1gbit"
account = "payload"
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
        warning: flow `x`: 6.7 % of its phase passes unused behind its largest packets
         --> a.toml:9:9
          |
        9 | phase = "30us"
          |         ^^^^^^ 2us are too short for 500 B
          |
          = help: write `28us` or `32us`, in which they fit without a rest
          = help: or give the rest away: `tail = "skip"` in the scheduler
    "#]],
    );
    for other in ["skip", "carry"] {
        let text = text.replace("\"virtual-links\"", &format!("\"virtual-links\", tail = \"{other}\""));
        let (_, warnings) = falaj_scenario::parse(&text, "a.toml").unwrap();
        assert!(warnings.is_empty(), "{warnings}");
    }
}
