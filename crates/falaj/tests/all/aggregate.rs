//! Tests `falaj plan aggregate` and `falaj reproduce aggregation` from the command line.

use crate::common::{Ran, falaj, number};

fn plan(args: &str) -> Ran {
    let words: Vec<&str> = ["plan", "aggregate"].into_iter().chain(args.split(' ')).collect();
    falaj(&words)
}

#[test]
fn a_delay_has_two_sizes() {
    let args = "--rate 800k --per-batch 77.9us --delay 300us --max-size 500";
    let ran = plan(&format!("{args} --json"));
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!((&json["feasible"], &json["stable"]["from"]), (&true.into(), &125.into()));
    let size = &json["sizes"][0];
    assert!(
        (number(&size["from"]["size"]) - 160.0).abs() <= 1.0
            && (number(&size["to"]["size"]) - 325.0).abs() <= 10.0
    );
    assert_eq!((&size["open"], &size["to"]["how"]), (&false.into(), &"exact".into()));
    assert!((number(&json["least"]["delay_ns"]) / 255e3 - 1.0).abs() < 0.02, "{json}");
    let text = plan(args);
    assert_eq!(text.status, Some(0));
    assert!(
        text.out.contains("stable from 125 packets on")
            && text.out.contains("a mean delay of 300 us is kept"),
        "{text:?}"
    );

    let never = plan("--rate 800k --per-batch 77.9us --delay 200us --max-size 500");
    assert_eq!(never.status, Some(1));
    assert!(
        never
            .out
            .contains("INFEASIBLE: a mean delay of 200 us is required; the least possible is 25"),
        "{never:?}"
    );
}

#[test]
fn a_delay_has_a_size_and_a_timeout() {
    let args = "--rate 200k --per-batch 5us --per-packet 500ns --service deterministic --delay 200us --any-timeout";
    let ran = plan(&format!("{args} --json"));
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    let best = &json["best"];
    assert!(
        number(&best["delay_ns"]) <= 200e3
            && number(&best["timeout_ns"]) > number(&best["fill_ns"]),
        "{json}"
    );
    // `batches_per_s` counts both directions, so the ratio is half the packets of a batch.
    assert!((20.0..80.0).contains(&(200e3 / number(&best["batches_per_s"]))), "{json}");
    assert!(number(&json["least"]["delay_ns"]) < number(&best["delay_ns"]), "{json}");
    let never = plan("--rate 20k --per-batch 15us --delay 20us --any-timeout");
    assert_eq!(never.status, Some(1), "{never:?}");
    assert!(never.out.contains("INFEASIBLE: a mean delay of 20.0 us is required"), "{never:?}");
}

#[test]
fn a_size_has_three_answers() {
    let json = plan("--rate 1M --per-batch 128us --size 160 --back 0 --json").json();
    assert!((number(&json["load"]) - 0.8).abs() < 1e-9);
    let wait = |how: &str| number(&json[how]["wait_ns"]);
    // One stream alone is a renewal process: the exact and the printed model agree.
    assert!((wait("exact") / wait("printed") - 1.0).abs() < 1e-4, "{json}");
    assert!(
        (wait("simulated") - wait("exact")).abs()
            < 2.0 * number(&json["simulated"]["wait_half_width_ns"]),
        "{json}"
    );
    let other = plan(
        "--rate 500k --per-batch 5us --per-packet 500ns --service erlang:4 --timeout 200us --size 62 --json",
    );
    assert!(other.json()["exact"].is_null() && other.json()["printed"].is_null());
}

#[test]
fn unequal_guests_have_answers_of_their_own() {
    let cost = "--per-batch 10us --per-packet 500ns";
    let guests = "--guest 400k,size=62 --guest 100k,back=20k,size=20,per-batch=12us \
                  --guest 50k,size=10,back=0";
    let ran = plan(&format!("{cost} {guests} --json"));
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    let streams = json["streams"].as_array().expect("streams");
    let names: Vec<_> = streams.iter().map(|s| s["stream"].as_str().expect("a name")).collect();
    let expected = ["to guest 1", "to guest 2", "to guest 3", "from guest 1", "from guest 2"];
    assert_eq!(names, expected);
    // Service times: 10 + 62/2 us, 12 + 20/2 us, 10 + 10/2 us. Mean fill times: half of 61, 19 and
    // 9 gaps between packets.
    for (n, (service, fill)) in
        [(41e3, 76.25e3), (22e3, 95e3), (15e3, 90e3)].into_iter().enumerate()
    {
        assert!((number(&streams[n]["service_ns"]) - service).abs() < 1.0, "{json}");
        assert!((number(&streams[n]["fill_ns"]) - fill).abs() < 1.0, "{json}");
    }
    assert!(json["size"].is_null() && json["exact"].is_null() && json["printed"].is_null());
    let load = (800.0 / 62.0 * 41.0 + 120.0 / 20.0 * 22.0 + 50.0 / 10.0 * 15.0) / 1e3;
    assert!((number(&json["load"]) - load).abs() < 1e-9, "{json}");
    let text = plan(&format!("{cost} {guests}"));
    assert!(text.out.contains("from guest 2") && text.out.contains("no model:"), "{text:?}");

    // The delay is kept for each guest: the guest with the lowest rate has the largest delay.
    let cost = "--per-batch 20us --service deterministic --delay 1ms --max-size 200";
    let dimension = |guests: &str| plan(&format!("{cost} {guests} --json")).json();
    let fast = dimension("--guest 200k --guest 200k");
    let mixed = dimension("--guest 200k --guest 40k,back=0");
    let largest = |json: &serde_json::Value| number(&json["sizes"][0]["to"]["size"]);
    assert!(largest(&fast) >= 200.0 && (50.0..90.0).contains(&largest(&mixed)), "{mixed}");
    // With `--shared`, as in the paper, a single batch carries the packets to all machines.
    let shared = plan(&format!("{cost} --shared --guest 200k --guest 40k,size=20 --json")).json();
    assert!(largest(&shared) >= 200.0, "{shared}");
}

#[test]
fn huge_numbers_are_answered_or_refused_soon() {
    let good = "--rate 800k --per-batch 77.9us";
    for (args, told) in [
        ("--size 1e9", "--size is 1000000000; a batch holds at most 100000 packets"),
        ("--vms 1e6", "--vms is 1000000; at most 10000 machines are simulated"),
        ("--max-size 1e30", "not a whole number"),
        ("--size 1.5", "not a whole number"),
        ("--size 1e5 --vms 1e4", "batches of 100000: load"),
        ("--delay 2s --max-size 1e5 --vms 1e4", "stable from 125 packets on"),
    ] {
        let began = std::time::Instant::now();
        let ran = plan(&format!("{good} {args}"));
        assert!(ran.err.contains(told) || ran.out.contains(told), "{args}: {ran:?}");
        // It takes seconds on an idle machine; the limit allows for a busy machine.
        assert!(began.elapsed().as_secs() < 60, "{args}: {:?}", began.elapsed());
    }
}

#[test]
fn nonsense_says_which_bound_it_breaks() {
    let good = "--rate 800k --per-batch 77.9us";
    for (args, status, told) in [
        (format!("{good} --size 0"), 2, "--size is 0; a batch holds 1 packet or more"),
        (format!("{good} --vms 0"), 2, "--vms is 0; it must be 1 or more"),
        (
            format!("{good} --timeout 1us"),
            2,
            "--timeout is 1.00 us, shorter than a batch of one packet takes to cross (77.9 us)",
        ),
        (
            format!("{good} --service pareto"),
            2,
            "unknown distribution; it is one of exponential, deterministic, erlang:N",
        ),
        (format!("{good} --service erlang:0"), 2, "1 to 1000 steps"),
        ("--per-batch 1us --guest 1k,size=0".into(), 2, "the size of a --guest is 0"),
        ("--per-batch 1us --guest 1k,size".into(), 2, "`size` has no value"),
        ("--per-batch 1us --guest 1k,mtu=3".into(), 2, "there is no `mtu`: the keys are back"),
        ("--per-batch 1us --guest 1k,size=2 --delay 1ms".into(), 2, "each --guest has its size"),
        (format!("{good} --guest 1k"), 2, "--guest"),
        (format!("{good} --delay 1ms --percentile 100"), 2, "above 0 and below 100"),
        ("--rate -5 --per-batch 1us".into(), 2, "finite and not negative"),
        ("--rate 5 --per-batch -1us".into(), 2, "`-1us` is negative"),
        ("--rate 0 --per-batch 1us".into(), 2, "above zero"),
        ("--rate many --per-batch 1us".into(), 2, "not a number of packets a second"),
        (format!("{good} --size 100"), 1, "the load is 1.2464, and must be below 1"),
        ("--rate 2M --per-batch 1us --per-packet 1us".into(), 1, "the load is 4.00"),
    ] {
        let ran = plan(&args);
        assert_eq!(ran.status, Some(status), "{args}: {ran:?}");
        assert!(ran.err.contains(told) || ran.out.contains(told), "{args}: {ran:?}");
    }
}

#[test]
fn machines_fit_until_they_do_not() {
    let json = plan(
        "--rate 100k --per-batch 5us --per-packet 500ns --delay 1ms --max-size 300 \
              --fit-vms --json",
    )
    .json();
    assert_eq!(json["feasible"], true);
    // The copying of packets, 2 x 100k x 500 ns per second and machine, has a load of 1 with ten
    // machines.
    assert!((2.0..10.0).contains(&number(&json["vms"])), "{json}");
}

/// Checks the points measured between two processes. A busy machine may make times longer, never
/// shorter than `least` (us).
fn measured(figure: &serde_json::Value, least: f64) {
    let names = figure["curves"].as_array().expect("curves").iter();
    let of = |name: &str| {
        names.clone().find(|curve| curve["name"] == name).map(|curve| curve["points"].clone())
    };
    assert!(
        ["as printed (us)", "exact (us)", "simulated (us)"].map(of).iter().all(Option::is_some),
        "{figure}"
    );
    let points = of("measured live (us)").expect("a curve");
    let points = points.as_array().expect("points");
    assert!(
        points.len() == 3 && points.iter().all(|point| number(&point["y"]) > least),
        "{figure}"
    );
}

#[test]
fn figure_three_is_measured_live() {
    let ran = falaj(&["reproduce", "aggregation", "--figure", "3", "--live", "--quick", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let json = ran.json();
    assert_eq!(json["summary"]["unexplained"], 0);
    // The way there and the way back take at least 112 us each.
    measured(&json["figures"][0], 2.0 * 112.0);
    for (args, told) in [
        (&["--figure", "2", "--live"][..], "--live is for Figures 3 and 4"),
        (&["--figure", "4", "--quick"], "for aggregation with --live"),
    ] {
        let no = falaj(&[&["reproduce", "aggregation"][..], args].concat());
        assert!(no.status == Some(2) && no.err.contains(told), "{no:?}");
    }
}

#[test]
fn figure_four_is_reproduced() {
    let ran = falaj(&["reproduce", "aggregation", "--figure", "4", "--live", "--quick", "--json"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let json = ran.json();
    assert_eq!(json["summary"]["unexplained"], 0);
    measured(&json["figures"][0], 78.0);
    let no = falaj(&["reproduce", "aggregation", "--figure", "5"]);
    assert_eq!(no.status, Some(2));
    assert!(no.err.contains("there is no figure 5: 1 to 4"), "{no:?}");
}
