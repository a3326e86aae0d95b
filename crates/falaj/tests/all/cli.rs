//! Commands that need no network interface, such as `sim`, `plan`, `check` and `fmt`, and their
//! messages for wrong input.

use crate::common::{Ran, TENANTS, directory, falaj, file, flow, number, program, signal};
use expect_test::expect;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

// --------------------------------------------------------------------------------------------- sim

#[test]
fn a_seed_decides_everything() {
    let tenants = file("seed.toml", TENANTS);
    let run = |seed| falaj(&["sim", tenants, "--duration", "200ms", "--seed", seed, "--json"]);
    let (once, again, other) = (run("7"), run("7"), run("8"));
    assert_eq!((once.status, once.err.as_str()), (Some(0), ""));
    assert_eq!(once.out, again.out);
    assert_eq!(once.json()["seed"], 7);
    let poisson = |ran: &crate::common::Ran| flow(&ran.json()["flows"], "b").clone();
    assert_ne!(poisson(&once), poisson(&other));
    // Each replication has its own seed: 7, then 8. So the two differ.
    let two = falaj(&[
        "sim",
        tenants,
        "--duration",
        "200ms",
        "--seed",
        "7",
        "--replications",
        "2",
        "--json",
    ]);
    assert!(number(&flow(&two.json()["flows"], "b")["delay_mean_half_width_ns"]) > 0.0);
}

#[test]
fn what_comes_in_goes_out_or_is_dropped() {
    let tenants = file("conserved.toml", TENANTS);
    let ran = falaj(&["sim", tenants, "--duration", "500ms", "--warm-up", "none", "--json"]);
    let json = ran.json();
    assert_eq!((&json["replications"], &json["duration_ns"]), (&8.into(), &500_000_000.into()));
    for name in ["a", "b"] {
        let f = flow(&json["flows"], name);
        let [offered, delivered, dropped] =
            ["offered", "delivered", "dropped"].map(|key| number(&f[key]));
        let left = offered - delivered - dropped;
        assert!(
            (0.0..=8.0 * 20.0).contains(&left),
            "queues hold 20 in each of 8 replications: {f}"
        );
        let [mean, p50, p99, max] =
            ["delay_mean_ns", "delay_p50_ns", "delay_p99_ns", "delay_max_ns"]
                .map(|key| number(&f[key]));
        assert!(p50 <= p99 && p99 <= max && mean <= max, "{f}");
        assert!(number(&f["max_backlog_packets"]) <= 20.0, "{f}");
        // Bits delivered in 8 x 0.5 s.
        let bits = delivered * 8.0 * if name == "a" { 500.0 } else { 1500.0 };
        assert!((number(&f["delivered_rate"]) * 4.0 - bits).abs() < 1.0, "{f}");
    }
    let (a, b) = (flow(&json["flows"], "a"), flow(&json["flows"], "b"));
    assert_eq!((number(&a["offered_rate"]), number(&a["dropped"])), (12e6, 0.0));
    // Half of the link, less the time at the end of each 500 us phase into which no packet of 1500
    // B fits.
    assert!((number(&b["delivered_rate"]) / 48e6 - 1.0).abs() < 0.01, "{b}");
    // With eight replications, the mean has a confidence interval (Student's t).
    assert!(number(&b["delay_mean_half_width_ns"]) > 0.0, "{b}");

    let one =
        falaj(&["sim", tenants, "--duration", "500ms", "--replications", "1", "--json"]).json();
    assert!(
        flow(&one["flows"], "b")["delay_mean_half_width_ns"].is_null(),
        "one value has no interval"
    );
}

/// TCP connections: their payload, round trips and transfers are reported, in words and as JSON.
#[test]
fn connections_and_their_transfers_are_told() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tcp.toml");
    let args = |more: &[&'static str]| {
        [&["sim", example, "--duration", "20s", "--replications", "2"], more].concat()
    };
    let ran = falaj(&args(&["--json"]));
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["connections"].as_array().unwrap().len(), 2, "a call is not a connection");
    let [download, pages] = [&json["connections"][0], &json["connections"][1]];
    assert_eq!(
        (&download["traffic"], &download["congestion"]),
        (&"download".into(), &"cubic".into())
    );
    // Together they get the link's 10 Mbit/s, less the call's 0.1 Mbit/s and the headers.
    let goodput = number(&download["goodput"]) + number(&pages["goodput"]);
    assert!((8.5e6..9.6e6).contains(&goodput), "{goodput}");
    assert!(number(&download["goodput_half_width"]) > 0.0);
    let least = number(&download["round_trip"]["min_ns"]);
    assert!(
        (41.2e6..60e6).contains(&least) && least < number(&download["round_trip"]["p50_ns"]),
        "{download}"
    );
    assert!(
        download["completion"].is_null() && number(&download["retransmitted"]) > 0.0,
        "{download}"
    );
    let done = &pages["completion"];
    assert!(number(&done["complete"]) >= 10.0 && number(&done["not_complete"]) <= 2.0, "{pages}");
    // 69 segments take at least three round trips, the last of which counts one way only.
    assert!(
        number(&done["min_ns"]) > 100e6 && number(&done["mean_ns"]) < number(&done["max_ns"]),
        "{pages}"
    );

    let told = falaj(&args(&[])).out;
    for said in [
        "connections",
        "download (cubic)",
        "round trip min",
        "transfers",
        "pages (cubic)",
        "not complete",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
}

/// `traffic` refuses TCP sources and names the command that simulates them. `plan` gives the reason
/// why they have no envelope, and `compare` simulates them.
#[test]
fn connections_are_simulated_only() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tcp.toml");
    let ran = falaj(&["traffic", example]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err
            .contains("traffic `download` cannot be sent as real datagrams: `tcp` is simulated only, by `falaj sim`")
    );
    let plan = falaj(&["plan", example, "--json"]).json();
    let none = &plan["directions"][0]["flows"][0]["envelope"]["none"];
    assert_eq!(none, "none: traffic download is TCP, which adapts to the link and has no envelope");
    let ran = falaj(&[
        "compare",
        example,
        "--what-if",
        "link.access.scheduler={ kind = \"fq_codel\" }",
        "--duration",
        "5s",
    ]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    assert!(
        ran.out.contains("they have the same random numbers, but not the same packets"),
        "{}",
        ran.out
    );
}

/// `falaj plan` bounds delays over several links: for a scenario and, equally, for its export in
/// the format of other tools. A wrong file in this format is refused, and so is the export of a
/// scenario that the format cannot express.
#[test]
fn bounds_go_over_several_links() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/chain.toml");
    let ran = falaj(&["plan", example, "--saihu", "chain.json", "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let plan = ran.json();
    let ran = falaj(&["plan", "saihu", "chain.json", "--json"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert_eq!(ran.err, "");
    let read = ran.json();
    for (ours, theirs) in
        plan["end_to_end"].as_array().unwrap().iter().zip(read["flows"].as_array().unwrap())
    {
        assert_eq!(ours["traffic"], theirs["flow"]);
        let both = number(&theirs["delay_ns"]) + number(&ours["propagation_ns"]);
        assert!((number(&ours["delay_ns"]) - both).abs() <= 1.0, "{ours} {theirs}");
    }
    let file = file(
        "wrong.json",
        "{ \"network\": { \"name\": \"x\" }, \"flows\": [], \"servers\": [{ \"name\": \"a\" }] }",
    );
    let ran = falaj(&["plan", "saihu", file]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("wrong.json: servers[0]: there is no `service_curve`, which is needed"),
        "{}",
        ran.err
    );
    // A scenario that the format cannot express is not written.
    let poisson = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tcp.toml");
    let ran = falaj(&["plan", poisson, "--saihu", "tcp.json"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("nothing is known of download: traffic download is TCP"),
        "{}",
        ran.err
    );
}

/// `plan` reads an example network as a scenario. With `--method` it shows one method alone: in
/// tables and in JSON, for a scenario and for another tool's network.
#[test]
fn an_example_of_the_literature_is_planned_by_one_method() {
    let made = falaj(&["plan", "example", "sink-tree", "--links", "5", "--load", "60"]);
    assert_eq!((made.status, made.err.as_str()), (Some(0), ""));
    let tree = file("tree.toml", &made.out);
    let all = falaj(&["plan", tree, "--json", "--saihu", "tree.json"]).json();
    for (method, key, heading) in [
        ("sum", "sum_ns", "sum of"),
        ("as-one", "as_one_ns", "as one"),
        ("linear", "linear_ns", "linear program"),
    ] {
        let alone = falaj(&["plan", tree, "--json", "--method", method]).json();
        let all = all["end_to_end"].as_array().unwrap();
        assert_eq!(all.len(), 5);
        for (one, all) in alone["end_to_end"].as_array().unwrap().iter().zip(all) {
            assert_eq!((&one[key], &one["delay_ns"]), (&all[key], &all[key]), "{method}: {one}");
            let shown = ["sum_ns", "as_one_ns", "linear_ns"].iter().filter(|k| one[k].is_u64());
            assert_eq!(shown.count(), 1, "{one}");
        }
        for network in [
            falaj(&["plan", tree, "--method", method]),
            falaj(&["plan", "saihu", "tree.json", "--method", method]),
        ] {
            assert_eq!(network.status, Some(0), "{}", network.err);
            let headings = ["sum of", "as one", "linear program"];
            let table = network.out.lines().find(|l| headings.iter().any(|h| l.contains(h)));
            let shown = headings.iter().filter(|h| table.unwrap().contains(**h));
            assert_eq!(shown.collect::<Vec<_>>(), [&heading], "{}", network.out);
        }
    }
    let uplink = file("one.toml", TENANTS);
    let ran = falaj(&["plan", uplink, "--method", "linear"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("--method: no traffic passes several links"), "{}", ran.err);
    let ran = falaj(&["plan", "example", "mesh", "--links", "4"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("3, 5, … 13 links"), "{}", ran.err);
}

/// Shards write the same results as a single run, and the table has a line for each combination of
/// values and each flow.
#[test]
fn a_sweep_in_shards_is_the_sweep() {
    let tenants = file("sweep.toml", TENANTS);
    let over =
        ["--over", "uplink.rate=100mbit,200mbit", "--over", "run.seed=3,4", "--duration", "20ms"];
    let plan = |more: &[&str]| {
        falaj(&[&["sweep", "plan", tenants, "--replications", "2"], more, &over].concat())
    };
    let ran = plan(&["-o", "sweep.jsonl"]);
    assert_eq!(
        (ran.status, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "", "falaj: 4 combinations, 8 tasks\n")
    );
    for shard in 1..=3 {
        let (part, to) = (format!("{shard}/3"), format!("part-{shard}.jsonl"));
        let ran = falaj(&["sweep", "run", "sweep.jsonl", "--shard", &part, "-o", &to]);
        assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    }
    let ran = falaj(&["sweep", "merge", "part-1.jsonl", "part-2.jsonl"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("2 of 8 tasks are missing (2, 5): merge the other shards too"),
        "{}",
        ran.err
    );
    let parts = ["part-3.jsonl", "part-1.jsonl", "part-2.jsonl", "part-3.jsonl"];
    let merge =
        [&["sweep", "merge"][..], &parts, &["-o", "all.jsonl", "--csv", "all.csv"]].concat();
    assert_eq!(falaj(&merge).status, Some(0));
    let read = |name: &str| {
        std::fs::read_to_string(crate::common::directory().join(name)).expect("a file")
    };
    assert_eq!(read("all.jsonl"), falaj(&["sweep", "run", "sweep.jsonl"]).out);
    let table: Vec<String> = read("all.csv").lines().map(str::to_owned).collect();
    assert!(
        table[0].starts_with("uplink.rate,run.seed,link,way,flow,offered,offered_half_width,"),
        "{}",
        table[0]
    );
    assert!(table.len() == 9 && table[5].starts_with("200mbit,3,uplink,up,a,"), "{table:#?}");
    let shown = falaj(&["sweep", "merge", "all.jsonl"]).out;
    assert!(shown.contains("mean delay") && shown.contains("200mbit"), "{shown}");

    assert_eq!(plan(&["--seed", "9", "-o", "other.jsonl"]).status, Some(0));
    let ran = falaj(&["sweep", "merge", "part-1.jsonl", "other.jsonl"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("other.jsonl: these shards do not belong together: seeds"),
        "{}",
        ran.err
    );
    let ran = falaj(&["sweep", "plan", tenants, "--over", "uplink.rate=10"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.starts_with("with uplink.rate=10:\nerror"), "{}", ran.err);
}

/// Simulates the same arrivals (same seed) without and with an AQM policy, which keeps the queue
/// short. A packet that can be marked is not dropped.
#[test]
fn a_policy_keeps_a_queue_short_and_is_told_of() {
    let text = |queue: &str, ecn: &str| {
        format!(
            "[link.a]\nrate = \"10mbit\"\n[link.a.flow.x]\nmatch = \"any\"\nqueue = {queue}\n\
             [traffic.x]\nmodel = \"poisson\"\nrate = \"10.4mbit\"\nsize = \"1000B\"\necn = \
             \"{ecn}\"\n"
        )
    };
    let codel = "{ limit = \"1000p\", policy = \"codel\", ecn = \"yes\" }";
    let sim = |name: &str, queue: &str, ecn: &str| {
        let ran = falaj(&["sim", file(name, &text(queue, ecn)), "--replications", "2", "--json"]);
        let flow = flow(&ran.json()["flows"], "x").clone();
        ["dropped_by_policy", "marked", "delay_p99_ns"].map(|key| number(&flow[key]))
    };
    let tail = sim("tail.toml", "\"1000p\"", "no");
    let dropping = sim("codel.toml", codel, "no");
    let marking = sim("marks.toml", codel, "ect0");
    assert_eq!((tail[0], tail[1]), (0.0, 0.0));
    assert!(
        dropping[0] > 10.0 && dropping[1] == 0.0 && dropping[2] < tail[2],
        "{dropping:?}, {tail:?}"
    );
    assert!(marking[0] == 0.0 && marking[1] > 10.0, "{marking:?}");
    let ran = falaj(&["sim", file("codel.toml", &text(codel, "no")), "--replications", "1"]);
    assert!(ran.out.contains("by the policy of the queue, of the packets of x: "), "{}", ran.out);
    let plan = falaj(&["plan", file("codel.toml", &text(codel, "no"))]);
    assert!(plan.out.contains("  and that its policy does not drop: codel of x\n"), "{}", plan.out);
    for kind in ["fq_codel", "dualpi2"] {
        let own = text("\"1000p\"", "ect1").replace(
            "\n[link.a.flow.x]",
            &format!("\nscheduler = {{ kind = \"{kind}\" }}\n[link.a.flow.x]"),
        );
        let name = format!("{kind}.toml");
        let path = file(&name, &own);
        let ran = falaj(&["sim", path, "--replications", "1", "--json"]);
        assert!(number(&flow(&ran.json()["flows"], "x")["delivered"]) > 10_000.0, "{}", ran.out);
        assert!(falaj(&["plan", path]).out.contains("a queue for each flow gives guarantees"));
    }
}

#[test]
fn the_table_has_its_columns() {
    let ran = falaj(&["sim", file("table.toml", TENANTS), "--duration", "100ms"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines[0],
        "simulated: 8 x 100ms, seed 1, less 7ms of warm-up each; means with 95 % intervals; delays of the queue, last bit in to last bit out"
    );
    assert!(ran.out.contains("\nmaxima are the largest values seen, not estimates"), "{}", ran.out);
    let header: Vec<&str> =
        lines[1].split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!(
        header,
        [
            "flow",
            "offered",
            "delivered",
            "dropped",
            "delay mean",
            "p50",
            "p99",
            "max",
            "backlog max"
        ]
    );
    assert!(lines[3].trim().starts_with('a') && lines[4].trim().starts_with('b'), "{}", ran.out);
    assert!(lines[4].contains('±'), "{}", ran.out);
}

#[test]
fn replications_come_until_an_interval_is_narrow() {
    let tenants = file("until.toml", TENANTS);
    let sim = |more: &[&str]| falaj(&[&["sim", tenants, "--duration", "100ms"], more].concat());
    let ran = sim(&["--until", "b.delay.mean ±0.1%", "--until", "delay.p50 +-50%", "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    let b = flow(&json["flows"], "b");
    assert!(number(&json["replications"]) >= 10.0, "{json}");
    assert!(number(&b["delay_mean_half_width_ns"]) / number(&b["delay_mean_ns"]) <= 0.001, "{b}");
    assert_eq!(
        (&json["until"][0]["asked"], &json["until"][0]["reached"]),
        (&"b.delay.mean ±0.1%".into(), &true.into())
    );
    assert_eq!(json["warm_up"]["how"], "mser-5");
    let short = sim(&["--until", "a.delay.p99.9 ±50%"]);
    assert_eq!(short.status, Some(3), "{short:?}");
    assert!(
        short.out.contains("fewer than five packets beyond the quantile) after "),
        "{}",
        short.out
    );
    let few = sim(&["--until", "loss ±0.001%", "--replications", "11"]);
    assert_eq!(few.status, Some(3), "{few:?}");
    assert!(
        few.out.contains("\nloss ±0.001%: not reached, ±")
            && few.out.contains("; the maximum is 11\n"),
        "{}",
        few.out
    );
    // `a` offers 3 packets per ms. A warm-up of 40 ms leaves 60 of the 100 ms: 180 packets in each
    // of 8 replications.
    let cut = sim(&["--warm-up", "40ms", "--json"]).json();
    assert_eq!(number(&flow(&cut["flows"], "a")["offered"]), 8.0 * 180.0);
    assert_eq!(cut["warm_up"]["cut_ns"], 40_000_000);
    for (args, why) in [
        (
            ["--until", "c.loss ±1%"],
            "--until `c.loss ±1%`: there is no flow `c`; there are `a`, `b`",
        ),
        (["--until", "loss"], "there is no `±`; write `delay.mean ±1%`"),
        (["--warm-up", "100ms"], "--warm-up 100ms is not shorter than the run of 100ms"),
        (["--warm-up", "later"], "or write `auto` or `none`"),
    ] {
        let ran = sim(&args);
        assert!(ran.status == Some(2) && ran.err.contains(why), "{args:?}: {ran:?}");
    }
}

/// The worst case of all envelopes in one queue: the greedy sources send exactly what the plan's
/// bound assumes, and the simulated delay is within the bound and close to it.
#[test]
fn greedy_sources_meet_the_bound_of_their_envelopes() {
    let text = "[link.a]\nrate = \"20mbit\"\n[link.a.flow.x]\nmatch = \"any\"\nqueue = \"500p\"\n\
        [traffic.bucket]\nmodel = \"greedy\"\nsize = \"1000B\"\nallowed = { rate = \"4mbit\", burst = \"20kB\" }\noffset = \"10ms\"\n\
        [traffic.frames]\nmodel = \"greedy\"\nsize = \"1000B\"\nallowed = { rate = \"4mbit\", frame = \"10ms\" }\noffset = \"10ms\"\n\
        [traffic.spaced]\nmodel = \"greedy\"\nsize = \"1000B\"\noffset = \"10ms\"\n\
        allowed = { x-min = \"1us\", x-ave = \"2ms\", over = \"20ms\" }\n\
        [traffic.shaped]\nmodel = \"poisson\"\nrate = \"3mbit\"\nsize = \"imix\"\nshaped = { rate = \"4mbit\", burst = \"4kB\" }\n\
        [run]\nduration = \"1s\"\n";
    let scenario = file("greedy.toml", text);
    let plan = falaj(&["plan", scenario, "--json"]).json();
    let bound = number(&plan["directions"][0]["flows"][0]["by_sources"]["delay_ns"]);
    // Bursts of 20 kB, 2 x 5 kB, 10 kB and 4 kB at 20 Mbit/s take 17.6 ms; the burst of the shaped
    // flow may come at any time. The bound has no extra term for the length of a packet.
    assert!((17.5e6..17.7e6).contains(&bound), "{plan}");
    let sim = falaj(&["sim", scenario, "--json"]).json();
    let longest = number(&flow(&sim["flows"], "x")["delay_max_ns"]);
    assert!(longest <= bound && longest > 0.85 * bound, "{longest} of {bound}");
    assert_eq!(number(&flow(&sim["flows"], "x")["dropped"]), 0.0);
}

/// The attack on bounds writes the worst arrivals that it finds as scenarios, and a simulation of
/// them delays the packets equally long.
#[test]
fn the_worst_of_attacked_bounds_is_simulated_again() {
    let attack = "bench bounds --alg drr,virtual-links,priority --links 4 --effort 150 --json";
    let mut args: Vec<&str> = attack.split(' ').collect();
    args.extend(["--witness", "attacked"]);
    let attacked = falaj(&args);
    assert_eq!(attacked.status, Some(0), "{attacked:?}");
    for row in attacked.json().as_array().expect("a row for each discipline") {
        for (case, ending) in [("plain", ""), ("envelopes", "-envelopes")] {
            let worst = &row[case];
            assert!((0.3..=1.0).contains(&number(&worst["ratio"])), "{row}");
            let kind = row["discipline"].as_str().expect("a name");
            let sim = falaj(&["sim", &format!("attacked/{kind}{ending}.toml"), "--json"]).json();
            let name = format!("f{}", worst["flow"]);
            let longest = number(&flow(&sim["flows"], &name)["delay_max_ns"]);
            assert_eq!(longest, number(&worst["delay_ns"]), "{kind}{ending}: {sim}");
        }
    }
}

#[test]
fn scenarios_are_compared_in_pairs() {
    let tenants = file("pairs.toml", TENANTS);
    let compare =
        |more: &[&str]| falaj(&[&["compare", tenants, "--duration", "300ms"], more].concat());
    let json = compare(&["--what-if", "b.queue=10p", "--json"]).json();
    let b = flow(&json["flows"], "b");
    let of = |key: &str, part: &str| number(&b[key]["others"][0][part]);
    // Half of the queue means half of the delay; the difference has an interval, and is far from
    // zero.
    assert!(
        of("delay_mean_ns", "difference") < -1e6 && of("delay_mean_ns", "half_width") < 1e5,
        "{b}"
    );
    assert!(
        (of("delay_mean_ns", "mean")
            - number(&b["delay_mean_ns"]["first"])
            - of("delay_mean_ns", "difference"))
        .abs()
            < 1.0
    );
    assert_eq!(number(&flow(&json["flows"], "a")["rate"]["others"][0]["difference"]), 0.0);
    let same = compare(&[tenants]);
    assert_eq!(same.status, Some(0), "{same:?}");
    assert_eq!(same.out.matches("   the same ").count(), 10, "{}", same.out);
    // With three scenarios, the second and the third are compared with the first, and each has its
    // line in each flow's panel.
    let short = file("pairs-short.toml", &TENANTS.replace("20p", "10p"));
    let three = compare(&[tenants, short, "--svg", "pairs.svg"]);
    assert_eq!(three.status, Some(0), "{three:?}");
    let all = "#1: pairs.toml; #2: pairs.toml; #3: pairs-short.toml";
    assert!(three.out.contains(all) && three.out.contains("#3 - #1"), "{}", three.out);
    assert!(three.out.matches(" the same ").count() >= 10, "{}", three.out);
    let svg = std::fs::read_to_string(directory().join("pairs.svg")).expect("it is drawn");
    for (words, times) in [("pairs-short.toml", 1), ("with a longer delay", 2)] {
        assert_eq!(svg.matches(words).count(), times, "{words}");
    }
    let json = compare(&[short, short, "--json"]).json();
    let others = flow(&json["flows"], "b")["delay_mean_ns"]["others"].clone();
    assert_eq!((&json["others"][1], &others[0]), (&Value::from(short), &others[1]), "{json}");
    let ran = compare(&[short, "--svg", "pairs"]);
    assert!(ran.status == Some(2) && ran.err.contains("it is one picture"), "{ran:?}");
    let ran = compare(&["--svg", "pairs.svg"]);
    assert!(ran.status == Some(2) && ran.err.contains("--svg draws several"), "{ran:?}");
    let louder = file("louder.toml", &TENANTS.replace("150mbit", "160mbit"));
    let ran = compare(&[louder]);
    assert!(ran.status == Some(2) && ran.err.contains("do not send alike"), "{ran:?}");
    let ran = compare(&[louder, "--what-if", "b.queue=10p"]);
    assert!(ran.status == Some(2) && ran.err.contains("cannot be used together with"), "{ran:?}");
}

#[test]
fn ctrl_c_tells_what_is_known_so_far() {
    let tenants = file("interrupted.toml", TENANTS);
    // The command would take minutes.
    let mut child = program(&[
        "sim",
        tenants,
        "--duration",
        "100ms",
        "--replications",
        "10000",
        "--warm-up",
        "none",
        "--json",
    ])
    .spawn()
    .expect("the program starts");
    std::thread::sleep(Duration::from_secs(1));
    let pressed = Instant::now();
    signal("INT", child.id());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{err}");
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let known = number(&json["replications"]);
    assert!(0.0 < known && known < 10_000.0, "{json}");
    assert_eq!(json["complete"], false);
    assert_eq!(err, format!("interrupted: {known} of 10000 replications\n"));
    assert_eq!(number(&flow(&json["flows"], "a")["offered"]), known * 300.0);
}

#[test]
fn ctrl_c_in_a_long_replication_tells_how_far_it_came() {
    // A replication would take minutes; the interrupt does not wait for it.
    let tenants = file("long.toml", TENANTS);
    let child =
        program(&["sim", tenants, "--duration", "10h", "--replications", "1"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal("INT", child.id());
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(output.status.code(), Some(130));
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(err.starts_with("interrupted: ") && err.contains(" of 36000s simulated"), "{err}");
    assert!(out.contains("delay mean"), "{out}");
}

#[test]
fn ctrl_c_ends_what_reproduces_and_measures() {
    // The first results of these commands would take a minute.
    let bench = ["bench", "sim", "--only", "fifo", "--millions", "1000", "--repeat", "1", "--json"];
    let reproduce = ["reproduce", "fortuna", "--beyond"];
    for args in [&bench[..], &reproduce[..]] {
        let child = program(args).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let pressed = Instant::now();
        signal("INT", child.id());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
        assert_eq!(ran.status, Some(130), "{ran:?}");
        assert_eq!(ran.err, "falaj: interrupted before there was any result\n");
        assert_eq!(ran.out, "");
    }
}

// -------------------------------------------------------------------------------------------- plan

#[test]
fn guarantees_are_the_papers_by_hand() {
    let ran = falaj(&["plan", file("guarantees.toml", TENANTS), "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["admitted"], true);
    // The paper's symbols. The largest packet, 1514 B at 100 Mbit/s, takes L = 121.12 us, a phase
    // W = 500 us, a cycle S = 1 ms. A phase holds k = floor(W/L) = 4 packets. A full queue of
    // b = 20 packets takes m = ceil(b/k) = 5 phases, with r = b - (m-1)k = 4 packets in the last
    // one. There are N = 2 virtual links.
    let (l, w, s) = (121_120, 500_000, 1_000_000);
    check(&json, "a", [l + 4 * s + (s - w) + 2 * 4 * l, l + 5 * s + (s - w), 2 * l, 37_888_000]);
    check(&json, "b", [5_590_080, 5_621_120, 242_240, 37_888_000]);

    // Here L is not a whole number of nanoseconds: at 30 Mbit/s, L = 403733.3 ns, rounded up. S =
    // 1.5 ms. For a, the last term of (1'') is S; W = 1 ms, k = 2, m = 10, r = 2. For b: W = 500
    // us, k = 1, b = 3, m = 3, r = 1.
    let text = TENANTS.replace("100mbit", "30mbit").replacen("500us", "1ms", 1);
    let (head, tail) = text.split_at(text.rfind("20p").unwrap());
    let json =
        falaj(&["plan", file("uneven.toml", &format!("{head}3p{}", &tail[3..])), "--json"]).json();
    // Where a byte does not take a whole number of nanoseconds, a cycle may be 1 ns longer for each
    // virtual link.
    let (l, phases, s) = (403_734, 1_500_000, 1_500_002);
    let own = s; // N r L = 1614936 is longer than a cycle
    let (before, rate) = (s - 1_000_000, 30 * (1_000_000 - l) * 1_000_000 / phases);
    check(&json, "a", [l + 9 * s + before + own, l + 10 * s + before, 2 * l, rate]);
    // N r L = 807,466.7 ns.
    let own = 807_467;
    // b sends at least 1876 B in two phases: more than the 1875 B that a phase W carries. This
    // gives a higher rate than W - L in each phase.
    let (before, rate) = (s - 500_000, 1_876 * 8_000_000_000 / (2 * s));
    check(&json, "b", [l + 2 * s + before + own, l + 3 * s + before, 2 * l, rate]);
}

/// Checks the values of the paper's formulas in both directions: (1''), (3) and (4) in nanoseconds,
/// and (2) in bits per second.
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

/// Checks averages computed by hand: packets of 1000 B take 1 ms at 8 Mbit/s, and at a load of 0.5
/// they wait `0.5 / 2 / (1 - 0.5)` of that (M/D/1). If a source is not Poisson, the plan shows no
/// average, and says why.
#[test]
fn a_plan_shows_averages_of_poisson_sources_alone() {
    let text = |model: &str| {
        format!(
            "[link.x]\nrate = \"8mbit\"\n[traffic.t]\nmodel = \"{model}\"\nrate = \"4mbit\"\n\
             size = \"1000B\"\n"
        )
    };
    let poisson = file("averages.toml", &text("poisson"));
    let ran = falaj(&["plan", poisson]);
    assert!(
        ran.out.lines().nth(1).is_some_and(|head| head.trim_end().ends_with(" expected")),
        "{}",
        ran.out
    );
    let line = "    expected   mean 1.50 ms, p50 1.00 ms, p99 4.34 ms  M/D/1, W0/(1-rho): ";
    assert!(ran.out.contains(line), "{}", ran.out);
    let json = falaj(&["plan", poisson, "--json"]).json();
    let expected = &json["directions"][0]["flows"][0]["expected"];
    assert!((number(&expected["mean_ns"]) - 1.5e6).abs() < 1.0, "{expected}");
    assert!(expected["loss"].is_null() && expected["flows"] == 1, "{expected}");
    let ran = falaj(&["plan", file("no-averages.toml", &text("cbr"))]);
    assert!(
        ran.out.contains("    expected   not known: traffic t is not Poisson\n"),
        "{}",
        ran.out
    );
}

#[test]
fn a_plan_reads_well() {
    let ran = falaj(&["plan", file("reads.toml", TENANTS)]);
    assert_eq!(ran.status, Some(0));
    for words in [
        "link uplink up: 100 Mbit/s",
        "37.9 Mbit/s   (2) C (W-L)/S    5.59 ms   (1'')",
        "utilisation: 162.00 % offered of 100 Mbit/s",
        "b: offers more than it is guaranteed",
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
        // A longer phase shortens the delay only until a whole queue fits into one phase; a phase
        // of exactly that length meets this requirement.
        (TENANTS, r#"delay = "3.6ms""#, "phase"),
        (TENANTS, r#"rate = "60mbit", delay = "4ms""#, "phase"),
        (&drr, r#"rate = "80mbit""#, "quantum"),
        (&drr, r#"rate = "50001kbit", delay = "3ms""#, "quantum"),
    ];
    for (i, (text, need, param)) in cases.into_iter().enumerate() {
        let name = format!("need-{i}.toml");
        let with = text.replace(rules, &format!("{rules}\nrequires = {{ {need} }}"));
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
fn an_envelope_bounds_delay_and_backlog() {
    // The service curve has the rate R = 37.888 Mbit/s after the latency T = 2(S-W+L) = 1242240 ns.
    // The bucket's 8 Mbit/s are a byte each 1000 ns. The exact service comes in turns: after L +
    // 2(S-W) = 1121120 ns, a phase carries 6250 B, a byte each 80 ns.
    let sends = |text: &str, queue: &str| {
        let to = format!("kind = \"A\"\nenvelope = {text}");
        TENANTS.replacen("kind = \"A\"", &to, 1).replacen("20p", queue, 1)
    };
    let bucket = r#"{ rate = "8mbit", burst = "3000B" }"#;
    let plan = |name: &str, text: &str| {
        let ran = falaj(&["plan", file(name, text), "--json"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        flow(&ran.json()["directions"][0]["flows"], "a").clone()
    };
    let a = plan("envelope.toml", &sends(bucket, "20p"));
    // The first phase carries the whole burst b. The backlog is b + r T = 3000 + 1242.24 B.
    assert_eq!(a["assured"]["delay_ns"], 1_121_120 + 240_000);
    assert_eq!((&a["backlog"]["bytes"], &a["backlog"]["enough"]), (&4_242.into(), &"4242B".into()));
    assert_eq!(a["backlog"]["fits"], "fits the queue of 20p if no packet is below 203 B");
    assert!(
        a["assured"]["limit"]
            .as_str()
            .unwrap()
            .starts_with("the scheduler: its latency is 1.12 ms"),
        "{a}"
    );
    assert_eq!(
        a["delay"]["delay_ns"], 5_590_080,
        "what a full queue is guaranteed stays beside it"
    );
    assert_eq!(
        (&a["service"]["rate"], &a["service"]["latency_ns"]),
        (&37_888_000.into(), &1_242_240.into())
    );
    assert_eq!(number(&a["service"]["points"][1]["at_ns"]), 1_242_240.0);
    assert_eq!(number(&a["envelope"]["points"][0]["bytes_after"]), 3000.0);
    assert!(a["by_sources"].is_null() && a["envelope"]["declared"] == true, "{a}");

    let a = plan("envelope-short.toml", &sends(bucket, "4kB"));
    assert_eq!(
        (&a["backlog"]["lossless"], &a["backlog"]["enough"]),
        (&false.into(), &"4242B".into())
    );
    // With two buckets, both constraints hold: the last byte of the second bucket's burst, 1000 B,
    // waits longest.
    let two = format!(r#"[{bucket}, {{ rate = "80mbit", burst = "1000B" }}]"#);
    let a = plan("envelope-two.toml", &sends(&two, "20p"));
    assert_eq!(a["assured"]["delay_ns"], 1_121_120 + 80_000, "{a}");
    // The flow sends more than its service: only the queue bounds its delay.
    let a = plan("envelope-fast.toml", &sends(r#"{ rate = "40mbit", burst = "3kB" }"#, "20p"));
    assert_eq!(
        (&a["assured"]["delay_ns"], &a["backlog"]),
        (&5_590_080.into(), &serde_json::Value::Null)
    );
    assert!(
        a["assured"]["limit"].as_str().unwrap().starts_with("the rate: it may send more"),
        "{a}"
    );
}

#[test]
fn traffic_tells_what_to_expect_and_assures_nothing() {
    let json = falaj(&["plan", file("derived.toml", TENANTS), "--json"]).json();
    let flows = &json["directions"][0]["flows"];
    let (a, b) = (flow(flows, "a"), flow(flows, "b"));
    // The burst is 500 B, plus the 0.0015 B that 12 Mbit/s send in the nanosecond that rounding may
    // add: 500.0015 B at 100 Mbit/s, the link's rate.
    assert_eq!(a["by_sources"]["delay_ns"], 1_121_120 + 40_001);
    assert_eq!(a["assured"]["delay_ns"], 5_590_080);
    // 500.0015 B plus 1.5 B/us for the time T: 2363.4 B.
    assert_eq!((&a["backlog"]["bytes"], &a["backlog"]["packets"]), (&2_363.into(), &4.into()));
    assert_eq!(a["backlog"]["lossless"], true);
    assert_eq!(b["envelope"]["none"], "none: traffic b is Poisson, whose bursts have no limit");
    // The simulated values are within both bounds.
    let sim = falaj(&["sim", "derived.toml", "--duration", "500ms", "--json"]).json();
    let seen = flow(&sim["flows"], "a");
    assert!(
        number(&seen["delay_max_ns"]) <= 1_161_121.0 && number(&seen["max_backlog_packets"]) <= 4.0,
        "{seen}"
    );
    // A requirement is judged by the assured bound, and the message proposes an envelope that would
    // suffice.
    let ran = falaj(&["plan", "derived.toml", "--requires", "a.delay=2ms"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let declare = r#"declare `envelope = { rate = "12mbit", burst = "501B" }`"#;
    assert!(
        ran.out.contains("REFUSED a: needs a delay of at most 2ms, is guaranteed 5.59 ms"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains(declare), "{}", ran.out);
    let with = r#"a.envelope={ rate = "12mbit", burst = "501B" }"#;
    assert_eq!(
        falaj(&["plan", "derived.toml", "--requires", "a.delay=2ms", "--what-if", with]).status,
        Some(0)
    );
}

#[test]
fn a_need_may_come_from_the_command_line() {
    let tenants = file("asked-need.toml", TENANTS);
    let ran = falaj(&["plan", tenants, "--requires", "b.delay=3ms", "--requires", "a.rate=37mbit"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.out.contains(
        "REFUSED b: needs a delay of at most 3ms, is guaranteed 5.59 ms; `queue = \"9p\"` would"
    ));
    assert!(!ran.out.contains("REFUSED a"), "{}", ran.out);
    // A queue of nine packets meets the requirement, a queue of ten does not.
    let queue = |n: &str| {
        falaj(&["plan", tenants, "--requires", "b.delay=3ms", "--what-if", &format!("b.queue={n}")])
            .status
    };
    assert_eq!((queue("9p"), queue("10p")), (Some(0), Some(1)));
    for (need, words) in [
        (
            "b.delay=3",
            "error: with --requires b.delay=3: `delay`: `3` is a number without a unit\n  write, in quotes, `3ms` or `3s`",
        ),
        (
            "b.delay=3m",
            "error: with --requires b.delay=3m: `delay`: `3m` could be minutes or milliseconds\n",
        ),
        (
            "b.dealy=3ms",
            "error: with --requires b.dealy=3ms: the requirement of flow `b` has no key `dealy`\n  did you mean `delay`?",
        ),
        ("c.delay=3ms", "falaj: --requires c.delay=3ms: no table of the scenario has such a key"),
        ("delay=3ms", "falaj: --requires delay=3ms: no table of the scenario has such a key"),
    ] {
        let ran = falaj(&["plan", tenants, "--requires", need]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{need}");
        assert!(ran.err.starts_with(words) && !ran.err.contains("-->"), "{need}: {}", ran.err);
    }
}

#[test]
fn what_if_compares_with_the_file_as_it_is() {
    let tenants = file("whatif.toml", TENANTS);
    let args = ["plan", tenants, "--what-if", "b.phase=1ms", "--what-if", "uplink.rate=1gbit"];
    let ran = falaj(&args);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    for words in ["before -> after", "37.9 Mbit/s -> 659 Mbit/s", "link uplink up: 1.00 Gbit/s"] {
        assert!(ran.out.contains(words), "no `{words}` in\n{}", ran.out);
    }
    // The result equals that of a file with this value, and is shown beside that of the original
    // file.
    let text = TENANTS.replace("100mbit", "1gbit");
    let (head, tail) = text.split_at(text.rfind("500us").unwrap());
    let there =
        falaj(&["plan", file("whatif-there.toml", &format!("{head}1ms{}", &tail[5..])), "--json"])
            .json();
    let (json, was) = (
        falaj(&[&args[..], &["--json"]].concat()).json(),
        falaj(&["plan", tenants, "--json"]).json(),
    );
    for name in ["a", "b"] {
        let mut now = flow(&json["directions"][0]["flows"], name).clone();
        let before = now.as_object_mut().unwrap().remove("before").unwrap();
        assert_eq!(&now, flow(&there["directions"][0]["flows"], name));
        assert_eq!(&before, flow(&was["directions"][0]["flows"], name));
    }
    for key in [
        "link.uplink.flow.a.phase",
        "uplink.flow.a.phase",
        "uplink.a.phase",
        "flow.a.phase",
        "a.phase",
        "link.uplink.\"flow\".a.phase",
    ] {
        let ran = falaj(&["plan", tenants, "--what-if", &format!("{key}=1ms")]);
        assert!(
            ran.status == Some(0) && ran.out.contains("37.9 Mbit/s -> 58.6 Mbit/s"),
            "{key}: {ran:?}"
        );
    }
    let divided = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/voice-within-tenant.toml");
    let ran = falaj(&[
        "plan",
        divided,
        "--what-if",
        "a/calls.quantum=6kB",
        "--requires",
        "a/calls.delay=6ms",
    ]);
    assert!(ran.status == Some(0) && ran.out.contains("22.0 Mbit/s -> 35.1 Mbit/s"), "{ran:?}");
    for (set, words) in [
        (
            "a.phase=100us",
            "error: with --what-if a.phase=100us: flow `a`: a phase of 100us is shorter than one packet",
        ),
        (
            "uplink.rate=100",
            "error: with --what-if uplink.rate=100: `rate`: `100` is a number without a unit\n",
        ),
        (
            "uplink.dealy=1ms",
            "error: with --what-if uplink.dealy=1ms: link `uplink` has no key `dealy`\n  did you mean `delay`?",
        ),
        ("run.seed=x", "error: with --what-if run.seed=x: `seed`: a text is not allowed here\n"),
        (
            "a.phaes=1ms",
            "falaj: --what-if a.phaes=1ms: that could be `link.uplink.flow.a.phaes` or `traffic.a.phaes`",
        ),
        ("phase", "falaj: --what-if phase: there is no `=`"),
        ("a.phase=", "falaj: --what-if a.phase=: there is no value"),
        ("a..b=1", "falaj: --what-if a..b=1: `a..b` is not a key"),
    ] {
        let ran = falaj(&["plan", tenants, "--what-if", set]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{set}");
        assert!(ran.err.starts_with(words) && !ran.err.contains("-->"), "{set}: {}", ran.err);
    }
}

#[cfg(feature = "plots")]
#[test]
fn curves_are_drawn() {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).expect(name)
    };
    let tenants = file("drawn.toml", TENANTS);
    let ran = falaj(&["plan", tenants, "--svg", "drawn.svg"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(0), "wrote drawn.svg: uplink-up-a, uplink-up-b\n")
    );
    let svg = read("drawn.svg");
    for words in [
        "a, uplink up",
        "delay ≤ 1.16 ms",
        "backlog ≤ 2363 B",
        "sent at most",
        "Data (kB)",
        "prefers-color-scheme: dark",
    ] {
        assert!(svg.contains(words), "no `{words}`");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    let ran = falaj(&["plan", tenants, "--json", "--svg", "drawn-each"]);
    assert_eq!(ran.err, "wrote drawn-each/uplink-up-a.svg\nwrote drawn-each/uplink-up-b.svg\n");
    assert!(read("drawn-each/uplink-up-b.svg").contains("only the queue bounds its delay"));
    assert!(ran.json()["admitted"] == true);
    // FIFO guarantees no rate to one of several flows, and nothing is known about the traffic of b.
    let fifo = TENANTS.lines().filter(|l| {
        !l.starts_with("kind") && !l.starts_with("phase") && !l.starts_with("scheduler")
    });
    let fifo = fifo.collect::<Vec<_>>().join("\n");
    let ran = falaj(&["plan", file("drawn-fifo.toml", &fifo), "--svg", "drawn-fifo.svg"]);
    assert_eq!(ran.err, "wrote drawn-fifo.svg: uplink-up-all-flows\n");
    let ran = falaj(&["plan", tenants, "--svg", "no/such/dir/a.svg"]);
    assert!(ran.status == Some(2) && ran.err.contains("cannot write no/such/dir/a.svg"), "{ran:?}");
}

#[test]
fn no_other_flow_pays_for_a_proposal() {
    // Together the requirements exceed the link's rate; each alone could be met by taking capacity
    // from the other flow.
    let text = TENANTS
        .replace(r#"kind = "A""#, "kind = \"A\"\nrequires = { rate = \"60mbit\" }")
        .replace(r#"kind = "B""#, "kind = \"B\"\nrequires = { rate = \"37mbit\" }");
    let ran = falaj(&["plan", file("both.toml", &text)]);
    assert_eq!(ran.status, Some(1));
    assert!(
        ran.out.contains(
            "REFUSED a: needs 60mbit, is guaranteed 37.9 Mbit/s; no value of this flow's phase alone"
        ),
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

// ------------------------------------------------------------------------------------------ errors

#[test]
fn no_file() {
    for command in ["plan", "sim", "compare", "traffic"] {
        let ran = falaj(&[command, "no-such.toml"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{command}");
        assert_eq!(
            ran.err,
            "falaj: cannot read the scenario no-such.toml: No such file or directory (os error 2)\n"
        );
    }
    assert_eq!(falaj(&["run", "no-such.toml", "--", "true"]).status, Some(2));
}

/// Captures written by other programs: of IP packets without Ethernet headers, and of several
/// interfaces.
#[test]
fn captures_of_other_programs() {
    let tenants = file("other.toml", "[link.l]\nrate = \"8mbit\"\nlayer = \"ip\"\n");
    let mut raw = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\x14\0\0\0\x65\0\0\0".to_vec();
    for second in 1_u8..4 {
        raw.extend([second, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0xe8, 3, 0, 0, 0x45]);
        raw.extend([0; 19]);
    }
    // A section, three Ethernet interfaces, and a packet of each.
    let mut many: Vec<u8> = [0x0a0d_0d0a_u32, 28, 0x1a2b_3c4d, 1 << 16, u32::MAX, u32::MAX, 28]
        .map(u32::to_be_bytes)
        .concat();
    for _ in 0..3 {
        many.extend([1_u32, 20, 1 << 16, 0, 20].map(u32::to_be_bytes).concat());
    }
    for interface in 0..3 {
        let packet = [6_u32, 48, interface, 0, 1000, 14, 1014, 0, 0, 0, 0, 48];
        many.extend(packet.map(u32::to_be_bytes).concat());
    }
    let directory = crate::common::directory();
    std::fs::write(directory.join("ip.pcap"), &raw).expect("written");
    std::fs::write(directory.join("many.pcapng"), &many).expect("written");
    let sim = |words: &[&str]| falaj(&[&["sim", tenants][..], words].concat());
    let ran = sim(&["--replay", "ip.pcap", "--json"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    // The packet has 1000 bytes, sent at 8 Mbit/s; the capture holds its first 20 bytes.
    assert!(ran.out.contains("\"delay_p50_ns\": 1000"), "{}", ran.out);
    let ran = sim(&["--replay", "many.pcapng"]);
    assert!(ran.err.contains("1 packets are of a third or later interface"), "{}", ran.err);
    assert!(ran.out.contains("replayed: 3 packets"), "{}", ran.out);
    let ran = sim(&["--replay", "many.pcapng", "--interface", "up=0,down=2"]);
    assert!(
        ran.err.contains("1 packets are left out: `--interface` does not name their interfaces")
    );
    assert!(ran.out.contains("replayed: 2 packets"), "{}", ran.out);
    assert!(ran.out.contains("down"), "{}", ran.out);
    // The file is cut off within its last packet.
    std::fs::write(directory.join("cut.pcap"), &raw[..raw.len() - 5]).expect("written");
    let ran = sim(&["--replay", "cut.pcap"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("breaks off: the file was cut off"), "{}", ran.err);
    for words in ["up=0,up=0", "side=1", "0"] {
        let ran = sim(&["--replay", "many.pcapng", "--interface", words]);
        assert_eq!(ran.status, Some(2), "{words}: {}", ran.err);
    }
}

#[test]
fn captures_that_are_none() {
    let tenants = file("replay.toml", TENANTS);
    for (name, bytes, words) in [
        ("empty.pcap", &b""[..], "this is neither pcap nor pcapng"),
        ("text.pcap", b"no capture at all, but a line of text", "this is neither pcap nor pcapng"),
        (
            "raw.pcap",
            b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\xe6\0\0\0",
            "its packets are of link type IEEE802_15_4_NOFCS",
        ),
        (
            "foreign.pcap",
            b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0",
            "foreign.pcap contains no scenario: name one",
        ),
    ] {
        std::fs::write(crate::common::directory().join(name), bytes).expect("written");
        let ran = falaj(&["sim", "--replay", name]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{name}");
        assert!(ran.err.contains(words), "{name}: {}", ran.err);
    }
    assert_eq!(falaj(&["sim", tenants, "--replay", "foreign.pcap"]).status, Some(0));
    let ran = falaj(&["sim", "--replay", "no-such.pcap"]);
    assert_eq!(
        ran.err,
        "falaj: cannot read the capture no-such.pcap: No such file or directory (os error 2)\n"
    );
    assert!(
        falaj(&["sim", tenants, "--replay", "foreign.pcap", "--seed", "1"])
            .err
            .contains("cannot be used together with")
    );
}

#[test]
fn an_unknown_key() {
    let ran =
        falaj(&["sim", file("key.toml", &TENANTS.replacen("kind = \"A\"", "knid = \"A\"", 1))]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    expect![[r#"
        error: flow `a` has no key `knid`
          --> key.toml:10:1
           |
        10 | knid = "A"
           | ^^^^ did you mean `kind`?
           |
           = help: allowed: `adapter`, `batches`, `envelope`, `expire`, `flow`, `kind`, `lend`, `mask`, `match`, `max-flows`, `phase`, `queue`, `requires`, `scheduler`
    "#]]
    .assert_eq(&ran.err);
}

#[test]
fn a_bare_number() {
    for command in ["plan", "sim", "compare", "traffic"] {
        let ran = falaj(&[
            command,
            file(&format!("bare-{command}.toml"), &TENANTS.replacen("\"100mbit\"", "100", 1)),
        ]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{command}");
        assert!(
            ran.err.starts_with("error: `rate`: `100` is a number without a unit\n"),
            "{}",
            ran.err
        );
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
        (&["sim", tenants, "--replications", "0"], "write `1` to `10000`"),
        (&["compare", tenants, "--duration", "0s"], "it must be above zero"),
        (&["traffic", tenants, "--duration", "0s"], "it must be above zero"),
        (&["run", "--rate", "10", "--", "true"], "write `10mbit` or `10kbit`"),
        (&["run", "--delay", "1m", "--", "true"], "write `1min` or `1ms`"),
        (&["run", "--queue", "10", "--", "true"], "write `10p` for packets"),
        (&["run", "--limit", "50", "--", "true"], "write `50p` for packets"),
        (
            &["run", "--limit", "0", "--", "true"],
            "a queue of zero holds nothing; write `1p` or more",
        ),
        (&["run", "--loss", "0.01", "--", "true"], "write `0.01%` for 0.01 percent"),
        (&["run", "--down-jitter", "5", "--", "true"], "write `5ms` or `5s`"),
        (&["run", "--preset", "lt", "--", "true"], "the most similar is `lte`"),
        (
            &["run", tenants, "--up-dup", "1%", "--", "true"],
            "`[FILE]` cannot be used together with `--up-dup`",
        ),
        (
            &["run", tenants, "--rate", "1mbit", "--", "true"],
            "`[FILE]` cannot be used together with `--rate`",
        ),
        (&["run"], "<COMMAND>"),
        (&["simulate"], "sim"),
        (&[], "Usage: falaj [OPTIONS] <COMMAND>"),
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
fn a_reader_that_closes_its_pipe_early() {
    let tenants = file("pipe.toml", TENANTS);
    for args in [
        &["plan", tenants][..],
        &["plan", tenants, "--json"],
        &["sim", tenants, "--duration", "10ms"],
    ] {
        let mut command = program(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran: crate::common::Ran = command.stdout(writer).output().unwrap().into();
        assert_eq!((ran.status, ran.err.as_str()), (Some(128 + 13), ""), "{args:?}");
    }
}

// ------------------------------------------------------------------------------------------ check,
// explain, schema

#[test]
fn a_check_tells_everything_at_once() {
    let good = file("check-good.toml", TENANTS);
    let bad = file("check-bad.toml", "[link.a]\nrate = 100\ndealy = \"1ms\"\n");
    let unlikely = file(
        "check-unlikely.toml",
        "[link.a]\nrate = \"1gbit\"\n[link.a.flow.x]\nmatch = \"udp\"\n",
    );
    let ran = falaj(&["check", good, unlikely]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.out, "check-good.toml: no errors\ncheck-unlikely.toml: no errors, 1 warning\n");
    assert!(ran.err.starts_with("warning: some packets match no flow of link `a`"), "{}", ran.err);

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
                "allowed: `backlog`, `burst`, `cells`, `corrupt`, `delay`, `down`, `duplicate`, `expire`, `flow`, `jitter`, `layer`, `loss`, `mask`, `max-flows`, `mtu`, `overhead`, `paced-by`, `peak`, `preset`, `profile`, `rate`, `reorder`, `scheduler`, `slot`, `trace`, `up`, `uplink`"
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
    assert_eq!(
        (json.status, json.json()),
        (Some(0), serde_json::json!({ "good": true, "problems": [] }))
    );
}

#[test]
fn the_examples_are_laid_out_as_fmt_does_it() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(examples).expect("there are examples") {
        files.push(entry.unwrap().path().to_str().unwrap().to_owned());
    }
    files.retain(|file| file.ends_with(".toml"));
    files.push(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tenants.toml").to_owned());
    assert!(files.len() > 1);
    let args: Vec<&str> =
        ["fmt", "--check"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let ran = falaj(&args);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
}

#[test]
fn a_file_is_laid_out_anew_or_left_alone() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let odd = "# why\n[link.a]\nrate='10mbit' # slow\n";
    let path = directory.join(file("odd.toml", odd));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let ran = falaj(&["fmt", "--check", "odd.toml"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    expect![[r#"
        --- odd.toml
        +++ odd.toml, formatted
        @@ -1,3 +1,3 @@
         # why
         [link.a]
        -rate='10mbit' # slow
        +rate = "10mbit"  # slow
    "#]]
    .assert_eq(&ran.out);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), odd, "nothing is written");
    let json = falaj(&["fmt", "--check", "odd.toml", "--json"]);
    assert_eq!((json.status, &json.json()["files"][0]["changed"]), (Some(1), &true.into()));

    let link = directory.join("odd-link.toml");
    let _ = std::fs::remove_file(&link);
    symlink("odd.toml", &link).unwrap();
    let ran = falaj(&["fmt", "odd-link.toml"]);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (Some(0), "odd-link.toml\n", ""));
    assert!(link.is_symlink(), "the link stays");
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "# why\n[link.a]\nrate = \"10mbit\"  # slow\n"
    );
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let again = falaj(&["fmt", "odd.toml", "odd-link.toml"]);
    assert_eq!((again.status, again.out.as_str()), (Some(0), ""));

    let former = file("former.toml", "[link.a]\nrate = \"1mbit\"\naccount=\"ip\"\n");
    assert_eq!(falaj(&["check", former]).status, Some(2));
    assert_eq!(falaj(&["fmt", "--upgrade", former]).status, Some(0));
    let upgraded = std::fs::read_to_string(directory.join(former)).unwrap();
    assert_eq!(upgraded, "[link.a]\nrate = \"1mbit\"\nlayer = \"ip\"\n");

    let broken = "[link.a]\nrate =\n";
    let ran = falaj(&["fmt", file("broken.toml", broken), "no-such.toml", file("odd.toml", odd)]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), "odd.toml\n"), "the others are done");
    assert!(ran.err.contains("--> broken.toml:2:7\n"), "{}", ran.err);
    assert!(ran.err.contains("cannot read no-such.toml"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(directory.join("broken.toml")).unwrap(), broken);
    let left = std::fs::read_dir(directory).unwrap();
    assert!(
        !left.into_iter().any(|entry| entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with(".falaj-"))
    );
}

#[test]
fn standard_input_is_laid_out() {
    let fmt = |args: &[&str], text: &str| -> crate::common::Ran {
        use std::io::Write;
        let mut command = program(args);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        // A command that refuses its arguments does not read its input.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait_with_output().unwrap().into()
    };
    let ran = fmt(&["fmt", "-"], "a=1");
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (Some(0), "a = 1\n", ""));
    let ran = fmt(&["fmt", "-"], "a=");
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("--> standard input:1:3"), "{}", ran.err);
    assert_eq!(fmt(&["fmt", "--check", "-"], "a = 1\n").status, Some(0));
    assert_eq!(fmt(&["fmt", "--check", "-"], "a=1").status, Some(1));
    for args in [&["fmt", "-", "x.toml"][..], &["fmt", "-", "--json"]] {
        assert_eq!(fmt(args, "a = 1").status, Some(2), "{args:?}");
    }
}

#[test]
fn keys_are_explained() {
    let ran = falaj(&["explain", "flow.phase"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    for words in [
        "flow.phase: maximum time that the flow may use the link",
        "ns, us, ms",
        "Fortuna and Chydzinski 2013",
        "phase = \"500us\"",
    ] {
        assert!(ran.out.contains(words), "no `{words}` in\n{}", ran.out);
    }
    let ran = falaj(&["explain", "dealy"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert_eq!(
        ran.err,
        "falaj: there is no key, discipline or word `dealy`; did you mean `delay`?\n`falaj explain` lists all\n"
    );
    let ran = falaj(&["explain"]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.out.contains("  scheduler.tail ") && ran.out.contains("  drr "), "{}", ran.out);
    assert!(falaj(&["explain", "--reference"]).out.starts_with("# The scenario file\n"));
    assert!(falaj(&["explain", "--reference=disciplines"]).out.starts_with("# Disciplines\n"));
}

#[test]
fn four_questions_lead_to_a_discipline() {
    let ran = falaj(&["choose", "--for", "share", "--care", "even"]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.err.contains("  source     ") && ran.err.contains("  or "), "{}", ran.err);
    let path = directory().join("chosen.toml");
    std::fs::write(&path, &ran.out).expect("it can be written");
    let checked = falaj(&["check", &path.to_string_lossy()]);
    assert!(checked.status == Some(0) && checked.out.contains("no errors"), "{checked:?}");
    // A different answer selects a different discipline.
    let kind = |care: &str| {
        let ran = falaj(&["choose", "--for", "share", "--care", care, "--json"]);
        ran.json()["choice"]["kind"].as_str().expect("a text").to_owned()
    };
    assert_ne!(kind("cost"), kind("even"));
    // Ordinary words such as `voice` select a purpose.
    let chosen = |purpose: &str| falaj(&["choose", "--for", purpose]).out;
    assert!(chosen("voice") == chosen("delay") && chosen("web") == chosen("connections"));
    // Without a terminal, no questions are asked.
    let ran = falaj(&["choose"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("`--for` is missing; it is one of `share`, "), "{}", ran.err);
    // Networking terms, in one or several arguments.
    for words in [&["explain", "packet loss"][..], &["explain", "packet", "loss"]] {
        assert!(falaj(words).out.starts_with("packet loss: "), "{words:?}");
    }
}

#[test]
fn the_schema_is_json() {
    let ran = falaj(&["schema"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.json()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

// ------------------------------------------------------------------------------------- echo,
// warnings, pages

#[test]
fn what_was_asked_for_is_said() {
    let tenants = file("asked.toml", TENANTS);
    let short = ["sim", tenants, "--duration", "1ms", "--replications", "1"];
    assert_eq!(falaj(&short).err, "", "nobody looks");
    let ran = falaj(&[&short[..], &["-v", "--json"]].concat());
    assert_eq!(
        ran.err,
        "configured: 100mbit of l2 each way, 0s each way, virtual-links, queues a 20p = 2.42 ms, b 20p = 2.42 ms\n"
    );
    ran.json();
    assert!(
        falaj(&[&short[..], &["-v", "-q"]].concat()).err.contains("cannot be used together with")
    );
}

#[test]
fn quiet_silences_notes_and_no_errors() {
    let unlikely =
        file("quiet.toml", "[link.a]\nrate = \"1gbit\"\n[link.a.flow.x]\nmatch = \"udp\"\n");
    for command in ["check", "plan"] {
        assert!(
            falaj(&[command, unlikely])
                .err
                .starts_with("warning: some packets match no flow of link `a`"),
            "{command}"
        );
        for args in [["-q", command, unlikely], [command, unlikely, "--quiet"]] {
            let ran = falaj(&args);
            assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{args:?}");
            assert_eq!(ran.out, falaj(&[command, unlikely]).out, "results are the same");
        }
    }
    let wrong = file("quiet-wrong.toml", "[link.a]\nrate = 1\n");
    assert!(falaj(&["-q", "plan", wrong]).err.starts_with("error: `rate`"));
    assert!(falaj(&["-q", "plan", "no-such.toml"]).err.starts_with("falaj: cannot read"));
}

#[test]
fn exit_statuses_are_told() {
    let ran = falaj(&["--help"]);
    assert_eq!(ran.status, Some(0));
    for status in ["0  ", "1  ", "2  ", "3  ", "130", "141"] {
        assert!(ran.out.contains(&format!("\n  {status}  ")), "{status}: {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "no colours but on a terminal");
}

#[test]
fn a_benchmark_is_json_alone() {
    let ran =
        falaj(&["bench", "sim", "--only", "fifo", "--millions", "1", "--repeat", "1", "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let found = ran.json();
    assert_eq!(found["cases"].as_array().map(Vec::len), Some(3), "{found}");
    assert!(number(&found["cases"][0]["most_mpps"]) > 0.0 && found["cores"].is_null(), "{found}");
}

#[test]
fn fairness_is_measured_with_a_witness() {
    let flows = "10:1500,1:1500:10";
    let ran = falaj(&[
        "bench",
        "wfi",
        "--alg",
        "wf2q+,qfq,drr",
        "--flowsets",
        flows,
        "--qmin",
        "15n",
        "--json",
    ]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let rows = ran.json();
    let of = |kind: &str| {
        rows.as_array().unwrap().iter().find(|row| row["discipline"] == kind).unwrap().clone()
    };
    for kind in ["wf2q+", "qfq"] {
        let row = of(kind);
        assert!(number(&row["b_wfi"]) <= number(&row["bound"]), "{row}");
        assert!(number(&row["from"]) < number(&row["to"]), "{row}");
    }
    let (fair, drr) = (number(&of("wf2q+")["b_wfi"]), of("drr"));
    assert!(number(&drr["b_wfi"]) > 4.0 * fair && drr["bound"].is_null(), "{drr}");

    // The worst case found is written as a list of packets, which gives the same result when it is
    // replayed.
    let few = ["--alg", "wf2q", "--flowsets", "4:1500,1:1500:3"];
    let found = falaj(&[&["bench", "wfi", "--search", "--effort", "200"], &few[..]].concat());
    assert_eq!((found.status, found.err.as_str()), (Some(0), ""));
    let json =
        falaj(&[&["bench", "wfi", "--search", "--effort", "200", "--json"], &few[..]].concat())
            .json();
    let lag = number(&json[0]["b_wfi"]);
    assert_eq!(json[0]["tried"], 200);
    let replay = |name: &'static str, text: &str| {
        falaj(&[&["bench", "wfi", "--json", "--replay", file(name, text)], &few[..]].concat())
    };
    let again = replay("worst", &found.out);
    assert_eq!((again.status, number(&again.json()[0]["b_wfi"])), (Some(0), lag), "{}", again.err);
    for (wrong, said) in [
        ("1 4 1500\n", "flow 4 of 4"),
        ("1 0 1501\n", "1501 B of at most 1500"),
        ("1 0\n", "falaj: "),
    ] {
        let ran = replay("not-the-worst", wrong);
        assert!(ran.status == Some(2) && ran.err.contains(said), "{ran:?}");
    }
    let ran = falaj(&["bench", "wfi", "--alg", "wf2"]);
    assert!(ran.status == Some(2) && ran.err.contains("no discipline is called `wf2`"), "{ran:?}");
}

#[test]
fn a_paper_reproduced_warns_of_nothing_and_its_files_do() {
    let ran = falaj(&["reproduce", "fortuna", "--scenario", "1"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let waits = ran.out.replace(", tail = \"skip\"", "");
    let ran = falaj(&["check", file("paper.toml", &waits)]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.err.contains("flow `v1`: 6.7 % of its phase is unused"), "{}", ran.err);
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
    assert!(
        ran.err.starts_with("falaj: cannot write the pages to not-a-directory: "),
        "{}",
        ran.err
    );
}

fn reference(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page)
}

/// Measures between two real processes; values that depend on the load of the machine are not
/// checked.
#[test]
fn packets_cross_in_batches() {
    let ran = falaj(&[
        "-q",
        "aggregate",
        "bench",
        "--each",
        "50ms",
        "--repeat",
        "1",
        "--rates",
        "20e3",
        "--json",
    ]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let json = ran.json();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    let [rings, quiet, filled, _] = [0, 1, 2, 3].map(|i| &rows[i]);
    assert!(
        number(&rings["wakeups"]) >= 0.999
            && number(&quiet["wakeups"]) <= number(&rings["wakeups"]),
        "{json}"
    );
    assert!(
        (number(&filled["packets"]) - 62.0).abs() < 1.0,
        "more came than a batch holds: {json}"
    );
    for row in &rows[4..] {
        assert!(number(&row["delay"]) > 0.0 && number(&row["delay_mean"]) > 0.0, "{row}");
    }
    assert!(number(&rows[6]["formula"]) > 100e3 && rows[7]["formula"].is_null(), "{json}");
    // A batch leaves after 200 us, and a packet waits from its own arrival on: 100 us on average,
    // and more on a busy machine.
    assert!(number(&rows[6]["waited"]) > 80e3, "{json}");
}

/// Checks that all results of the tuner and of the other policies are present. Only on an idle
/// machine can a test judge which policy is better.
#[test]
fn batches_follow_the_load() {
    let args = ["--delay", "5ms", "--rates", "5e3", "--each", "40ms", "--step", "1", "--json"];
    let ran = falaj(&[&["-q", "aggregate", "tune"], &args[..]].concat());
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let json = ran.json();
    let rate = &json["rates"][0];
    assert_eq!(
        (rate["tried"].as_array().unwrap().len(), json["steps"].as_array().unwrap().len()),
        (35, 0)
    );
    // An interval may have been too short on a machine that runs other processes too.
    let told = |row: &&serde_json::Value| {
        row["delay"].as_f64().is_some_and(|d| d > 0.0) && row["cpu"].as_f64().is_some()
    };
    assert!(rate["tried"].as_array().unwrap().iter().filter(told).count() > 17, "{json}");
    assert!(told(&&rate["tuned"]) && number(&rate["tuned"]["packets"]) >= 1.0, "{json}");
}

#[test]
fn batches_that_cannot_be_are_refused() {
    for (args, said) in [
        (
            &["bench", "--bytes", "60B"][..],
            "a batch that holds a packet of 64 B has 66 B to 64 KiB",
        ),
        (&["bench", "--size", "10B"], "a packet here has 22 B to 9 kB"),
        (&["bench", "--packets", "1"], "write `2` to `65536`"),
        (&["bench", "--cost", "1us"], "two times with a comma between"),
        (&["bench", "--rates", "-5"], "packets a second are a number"),
        (&["guest", "62"], "would stay for ever"),
        (&["tune", "--delay", "0s"], "--delay must be above zero"),
        (
            &["tune", "--delay", "1ms", "--percentile", "50"],
            "a percentile must be at least 90 and below 100",
        ),
        (
            &["tune", "--delay", "1ms", "--rates", "0"],
            "--rates: write at least one rate above zero",
        ),
        (&["consumer"], "this command is for falaj's own use"),
    ] {
        let ran = falaj(&[&["aggregate"], args].concat());
        assert!(ran.status == Some(2) && ran.err.contains(said), "{args:?}: {ran:?}");
    }
    let ran = falaj(&["run", "--aggregate", "0,200us", "--", "true"]);
    assert!(
        ran.status == Some(2) && ran.err.contains("a batch holds one packet at least"),
        "{ran:?}"
    );
    let ran = falaj(&["run", "--aggregate", "adaptive", "--", "true"]);
    assert!(
        ran.status == Some(2) && ran.err.contains("adaptive,delay=200us or adaptive,delay=1ms,p99"),
        "{ran:?}"
    );
}

/// Checks that the page is up to date; `UPDATE_EXPECT=1 cargo test -p falaj` writes it.
#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    let ran = falaj(&["man", "--reference"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let path = reference("cli.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &ran.out).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == ran.out,
        "docs/reference/cli.md is out of date: run this test with UPDATE_EXPECT=1"
    );
}

/// Collects the names of the fields of an object and of all objects in it.
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
    let needy =
        TENANTS.replacen("queue = \"20p\"", "queue = \"20p\"\nrequires = { delay = \"1us\" }", 1);
    let refused = file("needy.toml", &needy);
    let wrong = file("wrong.toml", "[link.a]\nrate = 5");
    let laid_out = file("laid-out.toml", TENANTS);
    let runs: [(&str, &[&str], &[&str]); 5] = [
        ("check", &["check", wrong, "--json"], &["problems", "column"]),
        ("plan", &["plan", refused, "--json"], &["others", "refused"]),
        ("plan", &["plan", refused, "--what-if", "a.queue=4p", "--json"], &["before", "enough"]),
        ("fmt", &["fmt", laid_out, "--check", "--json"], &["changed"]),
        ("sim", &["sim", refused, "--duration", "1ms", "--json"], &["flows", "delay_p99_ns"]),
    ];
    for (command, args, some) in runs {
        let section = page
            .split("\n## ")
            .find(|s| s.starts_with(&format!("`{command} --json`")))
            .expect("a section");
        // A path such as `…flows[].rate` documents the fields `flows` and `rate`.
        let quoted = section.split('`').skip(1).step_by(2);
        let told: BTreeSet<&str> = quoted
            .flat_map(|words| words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
            .collect();
        let json = falaj(args).json();
        let mut found = BTreeSet::new();
        fields(&json, &mut found);
        for field in found.iter().chain(some) {
            assert!(
                found.contains(field) && told.contains(field),
                "`{field}` of {command} in {told:?}"
            );
        }
    }
}

/// Checks the expected and the simulated throughput of stations that always have packets: all send
/// equally many packets, and the slow station uses most of the air time.
#[test]
fn stations_get_what_is_expected() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/stations.toml");
    let plan = falaj(&["plan", scenario, "--json"]).json();
    let expected = &plan["directions"][0]["saturated"];
    let run = falaj(&[
        "sim",
        scenario,
        "--duration",
        "20s",
        "--replications",
        "2",
        "--warm-up",
        "none",
        "--json",
    ])
    .json();
    for (n, station) in expected["stations"].as_array().expect("a list").iter().enumerate() {
        let flow = &run["flows"][n];
        assert_eq!(flow["flow"], station["flow"]);
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let (got, gets) = (number(&flow["delivered_rate"]), number(&station["gets"]));
        assert!((got / gets - 1.0).abs() < 0.08, "{got} of {gets}: {flow}");
        let (had, air) = (number(&flow["air"]["used_ns"]) / 40e9, number(&station["air"]));
        assert!((had / air - 1.0).abs() < 0.08, "{had} of {air}: {flow}");
    }
    let told =
        falaj(&["sim", scenario, "--duration", "5s", "--replications", "1", "--warm-up", "none"])
            .out;
    assert!(told.contains("far had the air for 6") && told.contains("collisions for"), "{told}");
}

// ------------------------------------------------------------------------------------ the tutorial

/// Returns the code blocks of this language, in order.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("\n```{language}\n");
    page.split(opening.as_str())
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap_or(rest))
        .collect()
}

/// Asserts that every line shown on a page is printed, in this order; `…` stands for omitted text.
fn assert_shown(shown: &str, printed: &str) {
    let mut lines = printed.lines().map(str::trim_end);
    for line in shown.lines().map(str::trim_end).filter(|line| *line != "…") {
        assert!(
            lines.any(|l| l == line),
            "not printed, or not there:\n{line}\nof\n{shown}\nbut\n{printed}"
        );
    }
}

fn falaj_at(directory: &Path, args: &[&str]) -> Ran {
    program(args).current_dir(directory).output().expect("the program starts").into()
}

/// Checks pages other than the tutorial: they show the actual output for the repository's
/// scenarios.
#[test]
fn the_pages_show_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in ["how-to/plan.md", "how-to/divide.md"] {
        let text = std::fs::read_to_string(root.join("docs").join(page)).unwrap();
        let sessions = blocks(&text, "console");
        assert!(sessions.len() > 1, "{page}");
        for session in sessions {
            let (command, shown) = session.split_once('\n').expect("a command and what it shows");
            let words: Vec<&str> =
                command.strip_prefix("$ falaj ").expect("a command of falaj").split(' ').collect();
            // Without the option `--svg`: the picture has a test of its own.
            let words = words.split(|word| *word == "--svg").next().unwrap_or_default();
            assert_shown(shown, &falaj_at(&root, words).out);
        }
    }
}

/// Checks that the picture is up to date; `UPDATE_EXPECT=1 cargo test -p falaj` draws it.
#[test]
#[cfg(feature = "plots")]
fn the_picture_of_the_curves_is_up_to_date() {
    let figures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    let drawn = Path::new(env!("CARGO_TARGET_TMPDIR")).join("curves.svg");
    let ran = falaj_at(
        &figures,
        &["plan", "curves.toml", "--svg", drawn.to_str().expect("a path that is text")],
    );
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let drawn = std::fs::read_to_string(drawn).unwrap();
    let path = figures.join("curves.svg");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == drawn,
        "docs/figures/curves.svg is out of date: run this test with UPDATE_EXPECT=1"
    );
}

/// Plans a link that loses packets and varies their delays, and simulates it. Plans a link that
/// counts ATM cells, and a link with a token bucket.
#[test]
fn what_a_link_does_to_packets_is_said() {
    let radio =
        "[link.radio]\nrate = \"10mbit\"\ndelay = \"20ms\"\nloss = \"5%\"\njitter = \"4ms\"\n";
    let traffic = "[traffic.calls]\nmodel = \"cbr\"\nrate = \"1mbit\"\nsize = \"500B\"\n[run]\nduration = \"8s\"\n";
    let name = file("radio.toml", &format!("{radio}{traffic}"));
    let plan = falaj(&["plan", name]);
    for line in [
        "  the link loses packets: bounds hold for packets that arrive; lost packets use the \
         link's time too\n",
        "  in addition to `delay <=`, a packet's propagation takes 16.0 ms to 24.0 ms\n",
    ] {
        assert!(plan.out.contains(line), "{}", plan.out);
    }
    let sim = falaj(&["sim", name, "--warm-up", "none", "--json"]);
    let sim: serde_json::Value = serde_json::from_str(&sim.out).unwrap();
    let of = |key: &str| sim["flows"][0][key].as_u64().unwrap();
    assert_eq!((of("offered"), of("dropped")), (of("delivered") + of("lost"), 0));
    assert!((600..1000).contains(&of("lost")), "5 % of 16000: {sim}");
    let said = falaj(&["sim", name]).out;
    assert!(
        said.contains("on the link, of the packets of all: ") && said.contains(" were lost"),
        "{said}"
    );

    // 500 B take 11 cells, 583 B.
    let cells =
        falaj(&["plan", file("cells.toml", &format!("{radio}cells = \"atm\"\n{traffic}"))]).out;
    assert!(cells.contains("packets to 1696 B") && cells.contains("1.17 Mbit/s"), "{cells}");

    let bucket = file("bucket.toml", &format!("{radio}burst = \"15kB\"\n{traffic}"));
    let plan = falaj(&["plan", bucket]).out;
    assert!(
        plan.contains("the link is a token bucket, and bounds are known for links that serialise"),
        "{plan}"
    );
    let presets = falaj(&["presets"]).out;
    assert!(presets.contains("lte: mobile") && presets.contains("  source: "), "{presets}");
}

/// Simulates rules that choose one of two links at random, and checks the rules' packet counts.
#[test]
fn rules_are_simulated() {
    let example = include_str!("../../../../examples/reorder.toml");
    let sim = falaj(&["sim", file("reorder.toml", example), "--warm-up", "none", "--json"]).json();
    let packets = |n: usize| sim["rules"][n]["packets"].as_u64().unwrap();
    // 1 Mbit/s in packets of 500 B for 10 s.
    assert_eq!((packets(0) + packets(1), &sim["unmatched"]), (2500, &0.into()), "{sim}");
    assert!((650..850).contains(&packets(0)), "30 % of 2500: {sim}");
    assert_eq!(flow(&sim["flows"], "long.all")["offered"], packets(0));
    assert_eq!(flow(&sim["flows"], "short.all")["delivered"], packets(1));
    let said = falaj(&["sim", "reorder.toml", "--warm-up", "none"]).out;
    assert!(said.contains(" some ") && said.contains(&packets(0).to_string()), "{said}");
}

/// After three links, the jitter of calls is within the bound planned for the last link. With the
/// regulator `rate-jitter`, which only restores gaps, the jitter is larger.
#[test]
fn jitter_over_a_chain_is_planned_and_simulated() {
    let example = include_str!("../../../../examples/jitter.toml");
    let plan = falaj(&["plan", file("jitter.toml", example), "--json"]).json();
    let last =
        plan["directions"].as_array().unwrap().iter().find(|way| way["link"] == "far").unwrap();
    let bound = flow(&last["flows"], "calls")["jitter"]["delay_ns"].as_u64().unwrap();
    // Three packets of 1514 B at 4 Mbit/s: the call's own packet, a packet of `video` ahead of it,
    // and a packet in transmission; and 2 ns for rounding.
    assert_eq!(bound, 9_084_000 + 2);
    assert!(flow(&last["flows"], "video")["jitter"].is_null());
    let jitter = |name: &str| {
        let sim = falaj(&[
            "sim",
            name,
            "--duration",
            "20s",
            "--replications",
            "1",
            "--warm-up",
            "none",
            "--json",
        ])
        .json();
        let way = &sim["ways"][0];
        // 50 packets per second.
        assert!(
            way["traffic"] == "calls" && (990..=1000).contains(&way["delivered"].as_u64().unwrap()),
            "{sim}"
        );
        way["jitter_ns"].as_u64().unwrap()
    };
    assert!(jitter("jitter.toml") <= bound);
    assert!(jitter(file("gaps.toml", &example.replace("delay-jitter", "rate-jitter"))) > bound);
    assert!(falaj(&["sim", "jitter.toml", "--duration", "1s"]).out.contains(" from end to end "));
}

/// Runs the tutorial's commands as printed. Live runs are left out, because their output differs
/// each time.
#[test]
fn the_tutorial_shows_what_is_printed() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial.md"))
            .unwrap();
    let toml = blocks(&page, "toml");
    let [first, need, traffic] = toml.as_slice() else {
        panic!("three pieces of a scenario: {toml:?}")
    };
    let sessions = blocks(&page, "console");
    let mut at = sessions.iter();
    // Finds the next session with this command, checks that the command prints the output that the
    // session shows, and returns the command's exit status.
    let mut shows = |command: &str| {
        let prompt = format!("$ falaj {command}\n");
        let session =
            at.find(|s| s.starts_with(&prompt)).unwrap_or_else(|| panic!("no `{command}`"));
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

#[test]
fn a_tree_of_classes_is_imported_and_simulated() {
    let script = "tc qdisc add dev eth0 root handle 1: htb default 99\n\
        tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit\n\
        tc class add dev eth0 parent 1:1 classid 1:a htb rate 6mbit ceil 10mbit\n\
        tc class add dev eth0 parent 1:1 classid 1:99 htb rate 4mbit ceil 10mbit\n\
        tc class add dev eth0 parent 1:a classid 1:a1 htb rate 4mbit ceil 6mbit\n\
        tc class add dev eth0 parent 1:a classid 1:a2 htb rate 2mbit ceil 6mbit\n\
        tc class add dev eth0 parent 1:a1 classid 1:a11 htb rate 3mbit ceil 6mbit\n\
        tc class add dev eth0 parent 1:a1 classid 1:a12 htb rate 1mbit ceil 6mbit\n\
        tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 5000 0xfff8 flowid 1:a\n\
        tc filter add dev eth0 parent 1:a prio 1 u32 match ip dport 5000 0xffff flowid 1:a11\n\
        tc filter add dev eth0 parent 1:a prio 2 u32 match ip dport 5001 0xffff flowid 1:a12\n\
        tc filter add dev eth0 parent 1:a prio 3 matchall flowid 1:a2\n";
    let imported = falaj(&["import", "tc", file("tree.sh", script)]);
    assert_eq!(imported.status, Some(0), "{imported:?}");
    assert!(
        imported.out.contains("[link.eth0.up.flow.1-a.flow.1-a1.flow.1-a12]"),
        "{}",
        imported.out
    );
    let source = |name: &str, flow: &str| {
        format!(
            "[traffic.{name}]\nflow = \"{flow}\"\nmodel = \"cbr\"\nrate = \"20mbit\"\nsize = \"1000B\"\n"
        )
    };
    let rates = |sources: &[(&str, &str)]| {
        let sources: String = sources.iter().map(|(name, flow)| source(name, flow)).collect();
        let whole =
            format!("{}\n{sources}[run]\nduration = \"5s\"\nreplications = 1\n", imported.out);
        let ran = falaj(&["sim", file("tree.toml", &whole), "--json"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let of = |f: &Value| {
            (f["flow"].as_str().unwrap().to_owned(), number(&f["delivered_rate"]) / 1e6)
        };
        ran.json()["flows"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let close = |rates: Vec<(String, f64)>, expected: &[(&str, f64)]| {
        assert_eq!(rates.len(), expected.len(), "{rates:?}");
        for ((name, rate), (known, expected)) in rates.iter().zip(expected) {
            assert!(
                name == known && (rate / expected - 1.0).abs() < 0.03,
                "{rates:?}: {expected} for {known}"
            );
        }
    };
    let [a11, a12, a2, rest] = ["1-a/1-a1/1-a11", "1-a/1-a1/1-a12", "1-a/1-a2", "1-99"];
    let all = [("w", a11), ("x", a12), ("y", a2), ("z", rest)];
    close(rates(&all), &[(a11, 3.0), (a12, 1.0), (a2, 2.0), (rest, 4.0)]);
    // The capacity that an idle class leaves goes to its sibling. If all other classes within 1:a
    // are idle, 1:a12 gets all of 1:a's 6 Mbit/s, which is its ceiling too.
    close(rates(&[all[0], all[2], all[3]]), &[(a11, 4.0), (a2, 2.0), (rest, 4.0)]);
    close(rates(&[all[1], all[3]]), &[(a12, 6.0), (rest, 4.0)]);
}
