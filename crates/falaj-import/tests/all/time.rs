//! Scripts in which time passes become scenarios with scheduled changes.

use expect_test::{Expect, expect};
use falaj_import::{Host, ipfw, tc};
use falaj_scenario::{Scenario, parse};
use falaj_sched::units::time::Span;
use proptest::prelude::*;

fn becomes(script: &str, expected: Expect) {
    match tc(script, "tc.sh", &Host::default()) {
        Ok(imported) => {
            let notes = imported.notes.problems().iter();
            let notes: String =
                notes.map(|p| format!("# note: {}: {}\n", p.line, p.title)).collect();
            expected.assert_eq(&(notes + &imported.scenario));
        }
        Err(errors) => expected.assert_eq(&errors.to_string()),
    }
}

#[test]
fn commands_after_a_pause_are_a_change() {
    becomes(
        "sleep 3\n\
         tc qdisc add dev eth0 root netem rate 1mbit delay 400ms\n\
         sleep 1m 40\n\
         tc qdisc del dev eth0 root\n\
         tc qdisc add dev eth0 root netem delay 100ms loss 2%\n\
         sleep 0.5\n\
         tc qdisc del dev eth0 root\n\
         usleep 1500\n\
         tc qdisc add dev eth0 root netem rate 1mbit delay 400ms\n\
         sleep 2; tc qdisc show dev eth0; sleep 1h\n\
         tc qdisc del dev eth0 root",
        expect![[r##"
            # note: 11: all links end here: this becomes the `duration` of the run
            # packets that eth0 sends go up
            [link.eth0]
            rate = "unlimited"

            # tc qdisc add dev eth0 root netem rate 1mbit delay 400ms
            [link.eth0.up]
            scheduler = { kind = "fifo", queue = "1000p" }
            rate = "1mbit"
            delay = "400ms"

            # tc qdisc add dev eth0 root netem delay 100ms loss 2%
            [[change]]
            at = "100s"
            set = { "link.eth0.up.delay" = "100ms", "link.eth0.up.loss" = { probability = "2%" }, "link.eth0.up.scheduler" = "", "link.eth0.up.rate" = "" }

            [[change]]
            at = "100500ms"
            set = { "link.eth0.up.delay" = "", "link.eth0.up.loss" = "" }

            # tc qdisc add dev eth0 root netem rate 1mbit delay 400ms
            [[change]]
            at = "100501500us"
            set = { "link.eth0.up.scheduler" = { kind = "fifo", queue = "1000p" }, "link.eth0.up.rate" = "1mbit", "link.eth0.up.delay" = "400ms" }

            [run]
            duration = "3702501500us"
        "##]],
    );
}

/// At least three equal periods are written once, with an end unless the script has none.
#[test]
fn changes_that_repeat_are_written_once() {
    let round = "tc qdisc replace dev eth0 root netem delay 10ms\nsleep 5\n\
                 tc qdisc replace dev eth0 root netem delay 90ms\nsleep 2\n";
    becomes(
        &round.repeat(4),
        expect![[r##"
        # packets that eth0 sends go up
        [link.eth0]
        rate = "unlimited"

        # tc qdisc replace dev eth0 root netem delay 10ms
        [link.eth0.up]
        delay = "10ms"

        # tc qdisc replace dev eth0 root netem delay 90ms
        [[change]]
        at = "5s"
        set = { "link.eth0.up.delay" = "90ms" }
        every = "7s"
        until = "26s"

        # tc qdisc replace dev eth0 root netem delay 10ms
        [[change]]
        at = "7s"
        set = { "link.eth0.up.delay" = "10ms" }
        every = "7s"
        until = "26s"

        [run]
        duration = "28s"
    "##]],
    );
    becomes(
        &(round.repeat(4) + "sleep infinity"),
        expect![[r##"
        # packets that eth0 sends go up
        [link.eth0]
        rate = "unlimited"

        # tc qdisc replace dev eth0 root netem delay 10ms
        [link.eth0.up]
        delay = "10ms"

        # tc qdisc replace dev eth0 root netem delay 90ms
        [[change]]
        at = "5s"
        set = { "link.eth0.up.delay" = "90ms" }
        every = "7s"

        # tc qdisc replace dev eth0 root netem delay 10ms
        [[change]]
        at = "7s"
        set = { "link.eth0.up.delay" = "10ms" }
        every = "7s"
    "##]],
    );
    let uneven = format!("{round}{round}sleep 1\n{round}{round}");
    let found = scenarios(&uneven);
    let times: Vec<Span> = found.into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, [0, 5, 7, 12, 15, 20, 22, 27].map(Span::from_secs));
}

#[test]
fn classes_keep_their_place() {
    becomes(
        "tc qdisc add dev eth0.5 root handle 1: htb default 20\n\
         tc class add dev eth0.5 parent 1: classid 1:1 htb rate 10mbit\n\
         tc class add dev eth0.5 parent 1:1 classid 1:10 htb rate 3mbit ceil 10mbit\n\
         tc class add dev eth0.5 parent 1:1 classid 1:20 htb rate 7mbit ceil 10mbit\n\
         tc filter add dev eth0.5 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:10\n\
         sleep 10\n\
         tc class change dev eth0.5 parent 1:1 classid 1:10 htb rate 7mbit ceil 10mbit\n\
         tc class change dev eth0.5 parent 1:1 classid 1:20 htb rate 3mbit ceil 10mbit\n\
         sleep infinity\n\
         tc qdisc del dev eth0.5 root",
        expect![[r##"
            # note: 9: the script waits here until it is ended: commands after this are left out
            # packets that eth0.5 sends go up
            [link."eth0.5"]
            rate = "unlimited"

            # tc qdisc add dev eth0.5 root handle 1: htb default 20
            [link."eth0.5".up]
            rate = "10mbit"
            scheduler = { kind = "htb" }

            [link."eth0.5".up.flow.1-10]
            match = "ip dport 80"
            rate = "3mbit"
            ceil = "10mbit"
            queue = "1000p"

            [link."eth0.5".up.flow.1-20]
            match = "any"
            rate = "7mbit"
            ceil = "10mbit"
            queue = "1000p"

            [[change]]
            at = "10s"
            set = { "link.\"eth0.5\".up.flow.1-10.rate" = "7mbit", "link.\"eth0.5\".up.flow.1-20.rate" = "3mbit" }
        "##]],
    );
    becomes(
        "tc qdisc add dev eth0 root handle 1: htb default 20\n\
         tc class add dev eth0 parent 1: classid 1:20 htb rate 10mbit\n\
         sleep 10\n\
         tc class add dev eth0 parent 1: classid 1:30 htb rate 10mbit\n\
         tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:30",
        expect![[r#"
            warning: the rate of eth0 is unknown, and taken as 1000gbit: classes without a limit of their own never wait
             --> tc.sh:1:1
              |
            1 | tc qdisc add dev eth0 root handle 1: htb default 20
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: `--rate RATE` sets it

            error: other links, classes or filters begin 10s after the first link
             --> tc.sh:5:1
              |
            5 | tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:30
              | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = help: a scheduled change sets keys, and neither adds nor removes tables: import the commands before and after the `sleep` separately"#]],
    );
}

#[test]
fn a_pause_has_a_time() {
    for (pause, refused) in
        [("sleep", "`sleep` needs a time"), ("sleep 3 x", "`x`"), ("sleep 3w", "`w` is not a unit")]
    {
        let script = format!("tc qdisc add dev eth0 root netem delay 1ms\n{pause}");
        let errors = tc(&script, "tc.sh", &Host::default()).expect_err(pause).to_string();
        assert!(errors.contains(refused), "{pause}: {errors}");
    }
    let script = "tc qdisc add dev eth0 root netem delay 1ms\nsleep 0\ntc qdisc del dev eth0 root";
    let errors = tc(script, "tc.sh", &Host::default()).expect_err("no time passes").to_string();
    assert!(errors.contains("this removes what the lines before added"), "{errors}");
}

#[test]
fn pipes_change_too() {
    let script = "ipfw pipe 1 config bw 1Mbit/s delay 20\n\
                  ipfw add 100 pipe 1 ip from any to any\n\
                  sleep 5\n\
                  ipfw pipe 1 config bw 300Kbit/s delay 20 plr 0.1";
    let imported = ipfw(script, "ipfw.sh", None).expect("it has changes");
    let change = imported.scenario.split("[[change]]").nth(1).expect("a change");
    expect![[r#"

        at = "5s"
        set = { "link.pipe1.rate" = "300kbit", "link.pipe1.loss" = "10%" }
    "#]]
    .assert_eq(change);
}

/// The scenarios of a script, each with the time from which it holds.
fn scenarios(script: &str) -> Vec<(Span, Scenario)> {
    let imported =
        tc(script, "tc.sh", &Host::default()).unwrap_or_else(|e| panic!("{script}\n{e}"));
    let (scenario, _) = parse(&imported.scenario, "tc.toml").expect("it was parsed");
    let changes: Vec<_> =
        scenario.changes.iter().map(|c| (c.at, Scenario::clone(&c.scenario))).collect();
    std::iter::once((Span(0), scenario)).chain(changes).collect()
}

/// A command that sets `netem` or `tbf`, or that removes the discipline.
fn state() -> impl Strategy<Value = String> {
    let netem = (1u32..4, 0u32..3, 0u32..3, 0u32..3).prop_map(|(delay, jitter, loss, rate)| {
        let optional = |n: u32, text: String| if n > 0 { text } else { String::new() };
        format!(
            "tc qdisc replace dev eth0 root netem delay {delay}0ms{}{}{}\n",
            optional(jitter, format!(" {jitter}ms")),
            optional(loss, format!(" loss {loss}%")),
            optional(rate, format!(" rate {rate}mbit")),
        )
    });
    let tbf = (1u32..4, 1u32..4).prop_map(|(rate, limit)| {
        format!("tc qdisc replace dev eth0 root tbf rate {rate}mbit burst 5kb limit {limit}0kb\n")
    });
    prop_oneof![netem, tbf, Just("tc qdisc del dev eth0 root\n".to_owned())]
}

proptest! {
    /// At each time, the scenario is that of the last commands before this time alone.
    #[test]
    fn a_change_leads_to_the_scenario_of_the_commands(
        states in prop::collection::vec(state(), 1..6),
    ) {
        let first = "tc qdisc add dev eth0 root netem delay 7ms\n";
        // The last state has a link.
        let last = "tc qdisc replace dev eth0 root netem delay 8ms\n";
        let states: Vec<&str> =
            std::iter::once(first).chain(states.iter().map(String::as_str)).chain([last]).collect();
        let found = scenarios(&states.join("sleep 1\n"));
        for (second, state) in states.iter().enumerate() {
            let at = Span::from_secs(second as u64);
            let (_, is) = found.iter().rfind(|(from, _)| *from <= at).expect("one from the start");
            if state.starts_with("tc qdisc del") {
                continue;
            }
            let alone = &scenarios(&state.replace("replace", "add"))[0].1;
            prop_assert_eq!(format!("{:?}", is.links), format!("{:?}", alone.links), "{}", state);
        }
    }
}
