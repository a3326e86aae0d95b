//! Commands that need no network: `sim`, `plan`, and what is said about input that is wrong.

mod common;

use common::{TENANTS, falaj, file, flow, number, program, signal};
use expect_test::expect;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

// -------------------------------------------------------------------------------------------------------------- sim

#[test]
fn a_seed_decides_everything() {
    let tenants = file("seed.toml", TENANTS);
    let run = |seed| falaj(&["sim", tenants, "--duration", "200ms", "--seed", seed, "--json"]);
    let (once, again, other) = (run("7"), run("7"), run("8"));
    assert_eq!((once.status, once.err.as_str()), (Some(0), ""));
    assert_eq!(once.out, again.out);
    assert_eq!(once.json()["seed"], 7);
    let poisson = |ran: &common::Ran| flow(&ran.json()["flows"], "b").clone();
    assert_ne!(poisson(&once), poisson(&other));
    // Replications count on from the seed: two from 7 are not one from 7 twice.
    let two = falaj(&["sim", tenants, "--duration", "200ms", "--seed", "7", "--replications", "2", "--json"]);
    assert!(number(&flow(&two.json()["flows"], "b")["delay_mean_half_width_ns"]) > 0.0);
}

#[test]
fn what_comes_in_goes_out_or_is_dropped() {
    let tenants = file("conserved.toml", TENANTS);
    let ran = falaj(&["sim", tenants, "--duration", "500ms", "--json"]);
    let json = ran.json();
    assert_eq!((&json["replications"], &json["duration_ns"]), (&8.into(), &500_000_000.into()));
    for name in ["a", "b"] {
        let f = flow(&json["flows"], name);
        let [offered, delivered, dropped] = ["offered", "delivered", "dropped"].map(|key| number(&f[key]));
        let left = offered - delivered - dropped;
        assert!((0.0..=8.0 * 20.0).contains(&left), "queues hold 20 in each of 8 replications: {f}");
        let [mean, p50, p99, max] =
            ["delay_mean_ns", "delay_p50_ns", "delay_p99_ns", "delay_max_ns"].map(|key| number(&f[key]));
        assert!(p50 <= p99 && p99 <= max && mean <= max, "{f}");
        assert!(number(&f["max_backlog_packets"]) <= 20.0, "{f}");
        // Bits sent in 8 x 0.5 s.
        let bits = delivered * 8.0 * if name == "a" { 500.0 } else { 1500.0 };
        assert!((number(&f["delivered_rate"]) * 4.0 - bits).abs() < 1.0, "{f}");
    }
    let (a, b) = (flow(&json["flows"], "a"), flow(&json["flows"], "b"));
    assert_eq!((number(&a["offered_rate"]), number(&a["dropped"])), (12e6, 0.0));
    // Half the link, less the tails that 1500 B leave of 500 us.
    assert!((number(&b["delivered_rate"]) / 48e6 - 1.0).abs() < 0.01, "{b}");
    // Eight replications: a Student interval around a mean that is not exactly known.
    assert!(number(&b["delay_mean_half_width_ns"]) > 0.0, "{b}");

    let one = falaj(&["sim", tenants, "--duration", "500ms", "--replications", "1", "--json"]).json();
    assert!(flow(&one["flows"], "b")["delay_mean_half_width_ns"].is_null(), "one value has no interval");
}

#[test]
fn the_table_has_its_columns() {
    let ran = falaj(&["sim", file("table.toml", TENANTS), "--duration", "100ms"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "simulated: 8 x 100ms, seed 1; means with 95 % intervals");
    let header: Vec<&str> = lines[1].split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!(header, ["flow", "offered", "delivered", "dropped", "delay mean", "p50", "p99", "max", "backlog max"]);
    assert!(lines[3].trim().starts_with('a') && lines[4].trim().starts_with('b'), "{}", ran.out);
    assert!(lines[4].contains('±'), "{}", ran.out);
}

#[test]
fn ctrl_c_tells_what_is_known_so_far() {
    let tenants = file("interrupted.toml", TENANTS);
    // Would take minutes.
    let mut child = program(&["sim", tenants, "--duration", "100ms", "--replications", "10000", "--json"])
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_secs(1));
    let pressed = Instant::now();
    signal("INT", child.id());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let known = number(&json["replications"]);
    assert!(0.0 < known && known < 10_000.0, "{json}");
    assert_eq!(err, format!("interrupted: {known} of 10000 replications\n"));
    assert_eq!(number(&flow(&json["flows"], "a")["offered"]), known * 300.0);
}

#[test]
fn ctrl_c_in_a_long_replication_tells_how_far_it_came() {
    // A replication of minutes; it is not waited for.
    let tenants = file("long.toml", TENANTS);
    let child = program(&["sim", tenants, "--duration", "10h", "--replications", "1"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal("INT", child.id());
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(output.status.success());
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(err.starts_with("interrupted: ") && err.contains(" of 36000s simulated"), "{err}");
    assert!(out.contains("delay mean"), "{out}");
}

// ------------------------------------------------------------------------------------------------------------- plan

#[test]
fn promises_are_the_papers_by_hand() {
    let ran = falaj(&["plan", file("promises.toml", TENANTS), "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["admitted"], true);
    // L = 1514 B at 100 Mbit/s = 121.12 us; W = 500 us; S = 1 ms; k = floor(W/L) = 4; b = 20;
    // m = ceil(b/k) = 5; r = b - (m-1)k = 4; N = 2.
    let (l, w, s) = (121_120, 500_000, 1_000_000);
    check(&json, "a", [l + 4 * s + (s - w) + 2 * 4 * l, l + 5 * s + (s - w), 2 * l, 37_888_000]);
    check(&json, "b", [5_590_080, 5_621_120, 242_240, 37_888_000]);

    // L is no whole number of nanoseconds, and (1'') ends in S: 30 Mbit/s, L = 403733.3 ns rounded up;
    // a: W = 1 ms, k = 2, m = 10, r = 2; b: W = 500 us, k = 1, b = 3, m = 3, r = 1; S = 1.5 ms.
    let text = TENANTS.replace("100mbit", "30mbit").replacen("500us", "1ms", 1);
    let (head, tail) = text.split_at(text.rfind("20p").unwrap());
    let json = falaj(&["plan", file("uneven.toml", &format!("{head}3p{}", &tail[3..])), "--json"]).json();
    // Where a byte is no whole number of nanoseconds, a cycle may last one longer for each link.
    let (l, phases, s) = (403_734, 1_500_000, 1_500_002);
    let own = s; // N r L = 1614936 is longer than a cycle
    let (before, rate) = (s - 1_000_000, 30 * (1_000_000 - l) * 1_000_000 / phases);
    check(&json, "a", [l + 9 * s + before + own, l + 10 * s + before, 2 * l, rate]);
    let own = 2 * l;
    let (before, rate) = (s - 500_000, 30 * (500_000 - l) * 1_000_000 / phases);
    check(&json, "b", [l + 2 * s + before + own, l + 3 * s + before, 2 * l, rate]);
}

/// (1''), (3), (4) in nanoseconds and (2) in bits per second, both ways.
fn check(plan: &serde_json::Value, name: &str, [one, three, four, two]: [u64; 4]) {
    for way in [0, 1] {
        let f = flow(&plan["directions"][way]["flows"], name);
        assert_eq!(f["delay"]["delay_ns"], one, "(1'') of {f}");
        assert!(f["delay"]["formula"].as_str().unwrap().starts_with("(1'')"), "{f}");
        assert_eq!(f["others"][0]["delay_ns"], three, "(3) of {f}");
        assert!(f["others"][0]["formula"].as_str().unwrap().starts_with("(3)"), "{f}");
        assert_eq!(f["others"][1]["delay_ns"], four, "(4) of {f}");
        assert!(f["others"][1]["formula"].as_str().unwrap().starts_with("(4)"), "{f}");
        assert_eq!(f["rate"], two, "(2) of {f}");
    }
}

#[test]
fn the_examples_are_admitted() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).expect("there are examples") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let ran = falaj(&["plan", path.to_str().unwrap()]);
            assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn a_plan_reads_well() {
    let ran = falaj(&["plan", file("reads.toml", TENANTS)]);
    assert_eq!(ran.status, Some(0));
    for words in [
        "link uplink up: 100 Mbit/s",
        "37.9 Mbit/s   (2) C (W-L)/S    5.59 ms   (1'')",
        "utilisation: 162.00 % offered of 100 Mbit/s",
        "b: offers more than it is promised",
    ] {
        assert!(ran.out.contains(words), "no `{words}` in\n{}", ran.out);
    }
}

#[test]
fn a_proposal_keeps_its_word() {
    let rules = r#"match = "udp dport 5001""#;
    let drr = TENANTS
        .replace(r#"{ kind = "virtual-links", serve = "packet-wise" }"#, r#"{ kind = "drr" }"#)
        .replace("kind = \"A\"\n", "")
        .replace("kind = \"B\"\n", "")
        .replace("phase = \"500us\"", "quantum = \"1514B\"");
    let cases = [
        (TENANTS, r#"rate = "50mbit""#, "phase"),
        (TENANTS, r#"delay = "5ms""#, "phase"),
        // Longer phases help only until a whole queue fits in: just there, it is enough.
        (TENANTS, r#"delay = "3.6ms""#, "phase"),
        (TENANTS, r#"rate = "60mbit", delay = "4ms""#, "phase"),
        (&drr, r#"rate = "80mbit""#, "quantum"),
        (&drr, r#"rate = "50001kbit", delay = "3ms""#, "quantum"),
    ];
    for (i, (text, need, param)) in cases.into_iter().enumerate() {
        let name = format!("need-{i}.toml");
        let with = text.replace(rules, &format!("{rules}\nneed = {{ {need} }}"));
        let ran = falaj(&["plan", file(&name, &with)]);
        assert_eq!(ran.status, Some(1), "{need}: {ran:?}");
        assert!(ran.out.contains("REFUSED a: needs"), "{}", ran.out);

        let json = falaj(&["plan", &name, "--json"]);
        assert_eq!((json.status, &json.json()["admitted"]), (Some(1), &false.into()));
        let refused = json.json()["directions"][0]["refused"][0].clone();
        assert_eq!(refused["flow"], "a");
        let help = refused["help"].as_str().unwrap();
        let proposal = help.split('`').nth(1).unwrap_or_else(|| panic!("{need}: {help}"));
        assert!(proposal.starts_with(&format!("{param} = ")), "{need}: {help}");
        let old = with.lines().find(|line| line.starts_with(param)).unwrap();
        let better = with.replacen(old, proposal, 1);
        let again = falaj(&["plan", file(&name, &better)]);
        assert_eq!(again.status, Some(0), "{need}: {help}\n{}", again.out);
        assert!(!again.out.contains("REFUSED"), "{}", again.out);
    }
}

#[test]
fn nobody_else_pays_for_a_proposal() {
    // Together more than the link has; each alone could get it by taking it from the other.
    let text = TENANTS
        .replace(r#"kind = "A""#, "kind = \"A\"\nneed = { rate = \"60mbit\" }")
        .replace(r#"kind = "B""#, "kind = \"B\"\nneed = { rate = \"37mbit\" }");
    let ran = falaj(&["plan", file("both.toml", &text)]);
    assert_eq!(ran.status, Some(1));
    assert!(
        ran.out.contains("REFUSED a: needs 60mbit, is promised 37.9 Mbit/s; no phase of this flow alone"),
        "{ran:?}"
    );
    assert!(!ran.out.contains("REFUSED b"), "{}", ran.out);
}

#[test]
fn a_phase_below_a_packet_is_refused() {
    let ran = falaj(&["plan", file("short.toml", &TENANTS.replacen("500us", "100us", 1))]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    expect![[r#"
        error: flow `a`: a phase of 100us is shorter than one packet of 1514 B, which takes 121.12us at 100mbit
          --> short.toml:11:9
           |
        11 | phase = "100us"
           |         ^^^^^^^
           |
           = help: at least `121.12us`; or a smaller `mtu`
    "#]]
    .assert_eq(&ran.err);
    let fits = TENANTS.replacen("500us", "121.12us", 1);
    assert_eq!(falaj(&["plan", file("short.toml", &fits)]).status, Some(0));
    let smaller = TENANTS.replacen("500us", "100us", 1).replace("1500B", "1200B");
    let smaller = smaller.replace("[link.uplink]", "[link.uplink]\nmtu = \"1200B\"");
    assert_eq!(falaj(&["plan", file("short.toml", &smaller)]).status, Some(0));
}

// ----------------------------------------------------------------------------------------------------------- errors

#[test]
fn no_file() {
    for command in ["plan", "sim", "compare", "traffic"] {
        let ran = falaj(&[command, "no-such.toml"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{command}");
        assert_eq!(ran.err, "falaj: cannot read the scenario no-such.toml: No such file or directory (os error 2)\n");
    }
    assert_eq!(falaj(&["run", "no-such.toml", "--", "true"]).status, Some(2));
}

#[test]
fn an_unknown_key() {
    let ran = falaj(&["sim", file("key.toml", &TENANTS.replacen("kind = \"A\"", "knid = \"A\"", 1))]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    expect![[r#"
        error: flow `a` has no key `knid`
          --> key.toml:10:1
           |
        10 | knid = "A"
           | ^^^^ did you mean `kind`?
           |
           = help: allowed: `kind`, `lend`, `match`, `need`, `phase`, `queue`
    "#]]
    .assert_eq(&ran.err);
}

#[test]
fn a_bare_number() {
    for command in ["plan", "sim", "compare", "traffic"] {
        let ran = falaj(&[command, file(&format!("bare-{command}.toml"), &TENANTS.replacen("\"100mbit\"", "100", 1))]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{command}");
        assert!(ran.err.starts_with("error: `rate`: `100` is a number without a unit\n"), "{}", ran.err);
        assert!(ran.err.contains(&format!("--> bare-{command}.toml:5:8\n")), "{}", ran.err);
        assert!(ran.err.contains("write, in quotes, `100mbit` or `100kbit`"), "{}", ran.err);
    }
}

#[test]
fn bad_options() {
    let tenants = file("options.toml", TENANTS);
    for (args, words) in [
        (&["sim", tenants, "--duration", "0s"][..], "it must be above zero"),
        (&["sim", tenants, "--duration", "5"], "write `5ms` or `5s`"),
        (&["sim", tenants, "--replications", "0"], "1..=10000"),
        (&["compare", tenants, "--duration", "0s"], "it must be above zero"),
        (&["traffic", tenants, "--duration", "0s"], "it must be above zero"),
        (&["run", "--rate", "10", "--", "true"], "write `10mbit` or `10kbit`"),
        (&["run", "--delay", "1m", "--", "true"], "write `1min` or `1ms`"),
        (&["run", "--queue", "10", "--", "true"], "write `10p` for packets"),
        (&["run", tenants, "--rate", "1mbit", "--", "true"], "cannot be used with '--rate <RATE>'"),
        (&["run"], "<COMMAND>"),
        (&["simulate"], "sim"),
        (&[], "Usage: falaj <COMMAND>"),
    ] {
        let ran = falaj(args);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    let idle = &TENANTS[..TENANTS.find("[traffic.a]").unwrap()];
    let ran = falaj(&["sim", file("idle.toml", idle)]);
    assert_eq!(ran.status, Some(2));
    assert_eq!(ran.err, "falaj: idle.toml has no [traffic.NAME]: there is nothing to simulate\n");
}

#[test]
fn a_reader_who_has_seen_enough() {
    let tenants = file("pipe.toml", TENANTS);
    for args in [&["plan", tenants][..], &["plan", tenants, "--json"], &["sim", tenants, "--duration", "10ms"]] {
        let mut command = program(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran: common::Ran = command.stdout(writer).output().unwrap().into();
        assert_eq!((ran.status, ran.err.as_str()), (Some(128 + 13), ""), "{args:?}");
    }
}

// ------------------------------------------------------------------------------------------ check, explain, schema

#[test]
fn a_check_tells_everything_at_once() {
    let good = file("check-good.toml", TENANTS);
    let bad = file("check-bad.toml", "[link.a]\nrate = 100\ndealy = \"1ms\"\n");
    let unlikely = file("check-unlikely.toml", "[link.a]\nrate = \"1gbit\"\n[link.a.flow.x]\nmatch = \"udp\"\n");
    let ran = falaj(&["check", good, unlikely]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.out, "check-good.toml: no errors\ncheck-unlikely.toml: no errors, 1 warning\n");
    assert!(ran.err.starts_with("warning: no flow of link `a` takes"), "{}", ran.err);

    let ran = falaj(&["check", bad, "no-such.toml", good]);
    assert_eq!(ran.status, Some(2));
    assert_eq!(ran.out, "check-bad.toml: 2 errors\ncheck-good.toml: no errors\n");
    assert!(ran.err.contains("cannot read the scenario no-such.toml"), "{}", ran.err);

    let ran = falaj(&["check", bad, good, "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(2), ""));
    expect![[r#"
        {
          "good": false,
          "problems": [
            {
              "column": 8,
              "file": "check-bad.toml",
              "help": [
                "write, in quotes, `100mbit` or `100kbit`; units of rate: bit, kbit, mbit, gbit, tbit; B/s, kB/s, MB/s, GB/s"
              ],
              "label": "",
              "line": 2,
              "severity": "error",
              "title": "`rate`: `100` is a number without a unit"
            },
            {
              "column": 1,
              "file": "check-bad.toml",
              "help": [
                "allowed: `account`, `delay`, `down`, `flow`, `mtu`, `rate`, `scheduler`, `up`"
              ],
              "label": "did you mean `delay`?",
              "line": 3,
              "severity": "error",
              "title": "link `a` has no key `dealy`"
            }
          ]
        }
    "#]].assert_eq(&ran.out);
    let json = falaj(&["check", good, "--json"]);
    assert_eq!((json.status, json.json()), (Some(0), serde_json::json!({ "good": true, "problems": [] })));
}

#[test]
fn keys_are_explained() {
    let ran = falaj(&["explain", "flow.phase"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    for words in ["flow.phase: time on the link", "ns, us, ms", "Fortuna and Chydzinski 2013", "phase = \"500us\""] {
        assert!(ran.out.contains(words), "no `{words}` in\n{}", ran.out);
    }
    let ran = falaj(&["explain", "dealy"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert_eq!(
        ran.err,
        "falaj: there is no key and no discipline `dealy`; did you mean `delay`?\n`falaj explain` lists all\n"
    );
    let ran = falaj(&["explain"]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.out.contains("  scheduler.tail ") && ran.out.contains("  drr "), "{}", ran.out);
    assert!(falaj(&["explain", "--reference"]).out.starts_with("# The scenario file\n"));
    assert!(falaj(&["explain", "--reference=disciplines"]).out.starts_with("# Disciplines\n"));
}

#[test]
fn the_schema_is_json() {
    let ran = falaj(&["schema"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.json()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

// ------------------------------------------------------------------------------------- echo, warnings, pages

#[test]
fn what_was_asked_for_is_said() {
    let tenants = file("asked.toml", TENANTS);
    let short = ["sim", tenants, "--duration", "1ms", "--replications", "1"];
    assert_eq!(falaj(&short).err, "", "nobody looks");
    let ran = falaj(&[&short[..], &["-v", "--json"]].concat());
    assert_eq!(
        ran.err,
        "asked: 100mbit of l2 each way, 0ns each way, virtual-links, queues a 20p = 2.42 ms, b 20p = 2.42 ms\n"
    );
    ran.json();
    assert_eq!(falaj(&[&short[..], &["--quiet"]].concat()).err, "");
    assert!(falaj(&[&short[..], &["-v", "-q"]].concat()).err.contains("cannot be used with"));
}

#[test]
fn a_paper_reproduced_warns_of_nothing_and_its_files_do() {
    let ran = falaj(&["reproduce", "fortuna", "--scenario", "1"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let waits = ran.out.replace(", tail = \"skip\"", "");
    let ran = falaj(&["check", file("paper.toml", &waits)]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("flow `v1`: 6.7 % of its phase passes unused"), "{}", ran.err);
}

#[test]
fn pages_come_from_the_command_line() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = falaj(&["completions", shell]);
        assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{shell}");
        assert!(ran.out.contains("compare"), "{shell}");
    }
    assert_eq!(falaj(&["completions", "dos"]).status, Some(2));
    let ran = falaj(&["man"]);
    assert!(ran.status == Some(0) && ran.out.contains(".TH falaj 1"), "{ran:?}");
    assert_eq!(falaj(&["man", "pages/man1"]).status, Some(0));
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages/man1/falaj-compare.1");
    assert!(std::fs::read_to_string(page).expect("a page").contains("Exit status"));
    let _ = file("not-a-directory", "");
    let ran = falaj(&["man", "not-a-directory"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.starts_with("falaj: cannot write the pages to not-a-directory: "), "{}", ran.err);
}

fn reference(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page)
}

/// `UPDATE_EXPECT=1 cargo test -p falaj` writes the page.
#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    let ran = falaj(&["man", "--reference"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let path = reference("cli.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &ran.out).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == ran.out, "docs/reference/cli.md is out of date: run this test with UPDATE_EXPECT=1");
}

/// The fields of an object and of all below it.
fn fields<'a>(json: &'a serde_json::Value, found: &mut BTreeSet<&'a str>) {
    if let Some(list) = json.as_array() {
        list.iter().for_each(|below| fields(below, found));
    }
    for (name, below) in json.as_object().into_iter().flatten() {
        found.insert(name);
        fields(below, found);
    }
}

#[test]
fn every_field_of_json_is_in_the_reference() {
    let page = std::fs::read_to_string(reference("json.md")).unwrap();
    let needy = TENANTS.replacen("queue = \"20p\"", "queue = \"20p\"\nneed = { delay = \"1us\" }", 1);
    let refused = file("needy.toml", &needy);
    let wrong = file("wrong.toml", "[link.a]\nrate = 5");
    let runs: [(&str, &[&str], &[&str]); 3] = [
        ("check", &["check", wrong, "--json"], &["problems", "column"]),
        ("plan", &["plan", refused, "--json"], &["others", "refused"]),
        ("sim", &["sim", refused, "--duration", "1ms", "--json"], &["flows", "delay_p99_ns"]),
    ];
    for (command, args, some) in runs {
        let section = page.split("\n## ").find(|s| s.starts_with(&format!("`{command} --json`"))).expect("a section");
        // `…flows[].rate` tells of both.
        let quoted = section.split('`').skip(1).step_by(2);
        let told: BTreeSet<&str> =
            quoted.flat_map(|words| words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect();
        let json = falaj(args).json();
        let mut found = BTreeSet::new();
        fields(&json, &mut found);
        for field in found.iter().chain(some) {
            assert!(found.contains(field) && told.contains(field), "`{field}` of {command} in {told:?}");
        }
    }
}

// --------------------------------------------------------------------------------------------------- the tutorial

/// The blocks of this language, in order.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("\n```{language}\n");
    page.split(opening.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap_or(rest)).collect()
}

/// Every line shown is printed, in this order; `…` stands for what was left out.
fn assert_shown(shown: &str, printed: &str) {
    let mut lines = printed.lines().map(str::trim_end);
    for line in shown.lines().map(str::trim_end).filter(|line| *line != "…") {
        assert!(lines.any(|l| l == line), "not printed, or not there:\n{line}\nof\n{shown}\nbut\n{printed}");
    }
}

/// Done as it says. Live runs are left out, they never print the same twice.
#[test]
fn the_tutorial_shows_what_is_printed() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial.md")).unwrap();
    let toml = blocks(&page, "toml");
    let [first, need, traffic] = toml.as_slice() else { panic!("three pieces of a scenario: {toml:?}") };
    let sessions = blocks(&page, "console");
    let mut at = sessions.iter();
    // The next session with this command: what it shows, and what is printed.
    let mut shows = |command: &str| {
        let prompt = format!("$ falaj {command}\n");
        let session = at.find(|s| s.starts_with(&prompt)).unwrap_or_else(|| panic!("no `{command}`"));
        let shown = session[prompt.len()..].split("\n$ ").next().unwrap_or_default();
        let ran = falaj(&command.split(' ').collect::<Vec<_>>());
        assert_shown(shown, &ran.out);
        ran.status
    };

    let mut scenario = format!("{first}\n");
    file("office.toml", &scenario);
    assert_eq!(shows("check office.toml"), Some(0));
    assert_eq!(shows("explain flow.kind"), Some(0));
    assert_eq!(shows("plan office.toml"), Some(0));

    scenario = scenario.replacen("queue = \"6p\"\n", &format!("queue = \"6p\"\n{need}\n"), 1);
    file("office.toml", &scenario);
    assert_eq!(shows("plan office.toml"), Some(1), "refused");

    scenario = scenario.replacen("1.25ms", "2.4224ms", 1);
    file("office.toml", &scenario);
    assert_eq!(shows("plan office.toml"), Some(0), "what would fit does");

    scenario.push_str(&format!("\n{traffic}\n"));
    file("office.toml", &scenario);
    assert_eq!(shows("sim office.toml"), Some(0));

    let messages = blocks(&page, "text");
    let mistakes = [
        ("rate = \"20mbit\"", "rate = 20"),
        ("phase = \"2.4224ms\"", "phse = \"2.4224ms\""),
        ("phase = \"2.4224ms\"", "phase = \"500us\""),
        ("delay = \"5ms\"", "delay = \"5m\""),
        ("match = \"udp dport 5004\"", "match = \"any\""),
    ];
    assert_eq!(messages.len(), mistakes.len());
    for (message, (right, wrong)) in messages.iter().zip(mistakes) {
        assert!(page.contains(&format!("`{wrong}`")), "the tutorial makes the mistake {wrong}");
        file("office.toml", &scenario.replacen(right, wrong, 1));
        assert_shown(message, &falaj(&["check", "office.toml"]).err);
    }
}
