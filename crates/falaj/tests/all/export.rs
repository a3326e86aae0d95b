//! Reads the files that `falaj sim` writes, and compares them with its printed results.

use crate::common::{TENANTS, directory, falaj, file, number};
use serde_json::Value;
use std::io::Read;

/// Simulates the tenants briefly with these further arguments, and returns the results as JSON.
fn simulated(name: &str, args: &[&str]) -> Value {
    let scenario = file(name, TENANTS);
    let short = [
        "sim",
        scenario,
        "--duration",
        "60ms",
        "--replications",
        "2",
        "--warm-up",
        "none",
        "--json",
    ];
    let ran = falaj(&[&short[..], args].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.json()
}

fn sum(json: &Value, what: &str) -> u64 {
    json["flows"].as_array().expect("flows").iter().map(|flow| number(&flow[what]) as u64).sum()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(directory().join(name)).expect(name)
}

#[test]
fn each_packet_is_a_line() {
    let json = simulated("packets.toml", &["--packets", "packets.csv"]);
    let text = text("packets.csv");
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let header = lines.headers().expect("a header").clone();
    let at =
        |name: &str| header.iter().position(|field| field == name).expect("a column of this name");
    let (mut offered, mut dropped) = (0, 0);
    for line in lines.records() {
        let line = line.expect("a line");
        let number = |name: &str| line[at(name)].parse::<u64>().expect(name);
        offered += 1;
        match &line[at("fate")] {
            "sent" => {
                assert_eq!(number("end_ns") - number("arrival_ns"), number("delay_ns"));
                assert!(
                    number("arrival_ns") <= number("start_ns")
                        && number("start_ns") < number("end_ns")
                );
            }
            "queue-full" => {
                dropped += 1;
                assert_eq!((&line[at("end_ns")], &line[at("delay_ns")]), ("", ""));
            }
            other => panic!("nothing is {other} here"),
        }
    }
    assert_eq!((offered, dropped), (sum(&json, "offered"), sum(&json, "dropped")));
    assert!(dropped > 0, "tenant b asks for more than it has");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_says_what_csv_says() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    for (option, name) in [("--packets", "packets"), ("--flows", "flows")] {
        let (csv, parquet) = (format!("alike-{name}.csv"), format!("alike-{name}.parquet"));
        simulated(&format!("alike-{name}.toml"), &[option, &csv, option, &parquet]);
        let file = std::fs::File::open(directory().join(&parquet)).expect("it was written");
        let reader = SerializedFileReader::new(file).expect("it is Parquet");
        let mut rows = reader.get_row_iter(None).expect("it has rows");
        let text = text(&csv);
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        for line in lines.records() {
            let (line, row) =
                (line.expect("a line"), rows.next().expect("as many rows").expect("a row"));
            for ((_, field), text) in row.get_column_iter().zip(&line) {
                use parquet::record::Field;
                let told = match field {
                    Field::Null => String::new(),
                    Field::Str(text) => text.clone(),
                    Field::Long(n) => n.to_string(),
                    Field::Double(x) => x.to_string(),
                    other => panic!("{other} is nothing that was written"),
                };
                assert_eq!(told, text);
            }
        }
        assert!(rows.next().is_none());
    }
}

#[test]
fn each_flow_is_a_line() {
    let json = simulated("flows.toml", &["--flows", "flows.csv"]);
    let text = text("flows.csv");
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let offered =
        lines.headers().expect("a header").iter().position(|f| f == "offered").expect("offered");
    let all: Vec<u64> =
        lines.records().map(|l| l.expect("a line")[offered].parse().expect("a count")).collect();
    assert_eq!((all.len(), all.iter().sum::<u64>()), (4, sum(&json, "offered")));
}

#[test]
fn a_capture_of_a_simulation_is_decided_alike() {
    simulated("taken.toml", &["--packets", "taken.pcapng"]);
    let replayed = falaj(&["sim", "--replay", "taken.pcapng"]);
    assert_eq!(replayed.status, Some(0), "{replayed:?}");
    assert!(
        replayed.out.contains("every decision is the same as in the live link, to the nanosecond"),
        "{}",
        replayed.out
    );
}

/// A simulation writes a capture and a table of its packets. A replay of the capture writes a table
/// with the same lines.
#[test]
fn each_packet_of_a_replay_is_a_line() {
    let both = ["--packets", "alike.pcapng", "--packets", "simulated.csv"];
    simulated("alike.toml", &both);
    let replayed = falaj(&["sim", "--replay", "alike.pcapng", "--packets", "replayed.csv"]);
    assert_eq!(replayed.status, Some(0), "{replayed:?}");
    let lines = |name: &str, kept: fn(&str) -> bool| {
        let text = text(name);
        let (_, rest) = text.split_once('\n').expect("a header");
        let mut lines: Vec<String> = rest
            .lines()
            .filter_map(|line| line.split_once(','))
            .filter(|(number, _)| kept(number))
            .map(|(_, line)| line.to_owned())
            .collect();
        lines.sort();
        lines
    };
    let simulated = lines("simulated.csv", |replication| replication == "0");
    assert!(simulated.len() > 50, "{simulated:?}");
    assert_eq!(simulated, lines("replayed.csv", |_| true));
    let refused = falaj(&["sim", "--replay", "alike.pcapng", "--packets", "again.pcapng"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.contains("`*.csv` or `*.parquet`"), "{}", refused.err);
}

/// Writes a capture of Ethernet frames with IPv4 packets of 1,000 B, at these times in
/// microseconds.
fn capture(name: &str, at: &[u32]) {
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0, 3, 0xe8]].concat();
    frame.resize(1_014, 0);
    let length = (frame.len() as u32).to_le_bytes();
    let header = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0";
    let packet = |at: &u32| [&[0; 4][..], &at.to_le_bytes(), &length, &length, &frame].concat();
    let packets: Vec<u8> = at.iter().flat_map(packet).collect();
    std::fs::write(directory().join(name), [&header[..], &packets].concat()).expect("written");
}

/// Replays a capture, and returns number, link and end of transmission from each line of the
/// replay's table.
fn ends(scenario: &str, capture: &str, table: &str) -> Vec<String> {
    let ran = falaj(&["sim", scenario, "--replay", capture, "--packets", table]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let of = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        format!("{} {} {}", cells[0], cells[1], cells[7])
    };
    text(table).lines().skip(1).map(of).collect()
}

/// A change of the rate corrects the end of the packet that is on the wire. A packet has a line for
/// each link of its path, with the packet's number in the capture.
#[test]
fn a_packet_on_the_wire_ends_at_the_new_rate() {
    let link = "rate = \"8mbit\"\nlayer = \"ip\"\n";
    let change = "[[change]]\nat = \"500us\"\nset = { \"x.rate\" = \"16mbit\" }\n";
    let one = format!("[link.x]\n{link}{change}");
    capture("two.pcap", &[0, 0]);
    // The first 500 B of the first packet take 500 us, its other 500 B take 250 us, and the second
    // packet takes 500 us.
    let table = ends(file("corrected.toml", &one), "two.pcap", "corrected.csv");
    assert_eq!(table, ["0 x 750000", "1 x 1250000"]);
    let path = format!(
        "[link.x]\n{link}[link.y]\n{link}[[rule]]\nmatch = \"length 1000\"\nto = [\"x\", \"y\"]\n{change}"
    );
    capture("three.pcap", &[0, 3_000, 6_000]);
    let table = ends(file("path.toml", &path), "three.pcap", "path.csv");
    let expected =
        ["0 x 750000", "0 y 1750000", "1 x 3500000", "1 y 4500000", "2 x 6500000", "2 y 7500000"];
    assert_eq!(table, expected);
}

#[test]
fn a_trace_has_one_packet_on_the_link_at_a_time() {
    simulated("trace.toml", &["--trace", "trace.json"]);
    let trace: Value = serde_json::from_str(&text("trace.json")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let held: Vec<(f64, f64)> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| (number(&event["ts"]), number(&event["dur"])))
        .collect();
    assert!(held.len() > 100, "{}", held.len());
    assert!(held.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0 + 1e-6));
    // Every queue is empty at the end.
    for queue in ["queue of a", "queue of b"] {
        let counts: Vec<f64> = events
            .iter()
            .filter(|e| e["name"] == queue)
            .map(|e| number(&e["args"]["bytes"]))
            .collect();
        assert_eq!(counts.last(), Some(&0.0), "{queue}");
        assert!(
            counts.iter().all(|bytes| *bytes >= 0.0) && counts.iter().any(|bytes| *bytes > 0.0),
            "{queue}"
        );
    }
}

#[test]
fn flent_gets_series_of_one_length() {
    simulated("flent.toml", &["--flent", "a.flent.gz"]);
    let packed = std::fs::File::open(directory().join("a.flent.gz")).expect("it was written");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("gzip");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let x = file["x_values"].as_array().expect("instants").len();
    let results = file["results"].as_object().expect("results");
    assert!(
        results.values().all(|series| series.as_array().is_some_and(|series| series.len() == x))
    );
    let rates = results["TCP upload sum"].as_array().expect("rates");
    let mean = rates.iter().map(number).sum::<f64>() / x as f64;
    // One tenant sends 12 Mbit/s, and the other gets 48 Mbit/s from its half of the link.
    assert!((mean - 60.0).abs() < 2.0, "{mean}");
    assert_eq!(file["metadata"]["TEST_PARAMETERS"]["upload_streams"], "2");
}

#[cfg(feature = "plots")]
#[test]
fn pictures_are_drawn_of_all_that_is_asked_for() {
    simulated("plotted.toml", &["--plot", "plotted"]);
    for name in [
        "throughput",
        "backlog",
        "fairness",
        "delay-cdf",
        "delay-ccdf",
        "drops",
        "cumulative",
        "timeline",
    ] {
        let svg = text(&format!("plotted/{name}.svg"));
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        // The picture has colours for a dark page. A second curve has its own stroke; three
        // pictures have no second curve.
        assert!(svg.contains("prefers-color-scheme: dark"), "{name}");
        let single = ["drops", "timeline", "fairness"].contains(&name);
        assert_eq!(svg.contains("stroke-dasharray"), !single, "{name}");
    }
    let svg = text("plotted/cumulative.svg");
    assert!(svg.contains("served at least") && svg.contains("sent at most"));
}

#[test]
fn names_that_say_nothing_are_refused() {
    let scenario = file("refused.toml", TENANTS);
    for (option, name, told) in [
        (
            "--packets",
            "x.txt",
            "--packets x.txt: the name's ending must be that of a format: `*.csv` or `*.parquet` or `*.pcapng`",
        ),
        (
            "--flows",
            "x.pcapng",
            "--flows x.pcapng: the name's ending must be that of a format: `*.csv` or `*.parquet`",
        ),
        ("--flent", "x.gz", "--flent x.gz: Flent opens only `*.flent.gz`"),
        ("--trace", "/dev/null/x.json", "cannot write /dev/null/x.json"),
    ] {
        let ran = falaj(&["sim", scenario, "--duration", "1ms", option, name]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.err.contains(told), "{ran:?}");
    }
}

/// Three constant-rate flows pass two links with a queue of one packet, in which the newest packet
/// replaces the queued one. The recorded arrival of a packet at the first link is the instant at
/// which its source sent it, even if the packet is dropped later.
#[test]
fn what_is_dropped_from_a_queue_keeps_its_arrival() {
    let link = |name: &str| {
        format!(
            "[link.{name}]\nrate = \"5mbit\"\n\
             scheduler = {{ kind = \"fq_codel\", limit = 1, queues = 1 }}\n\
             [link.{name}.flow.all]\nmatch = \"any\"\n"
        )
    };
    let source = |n: u64| {
        format!(
            "[traffic.t{n}]\nheaders = \"udp dport {}\"\nmodel = \"cbr\"\nrate = \"8mbit\"\n\
             size = \"1000B\"\nstart = \"{}us\"\n",
            5000 + n,
            300 * n
        )
    };
    let text = link("l") + &link("m") + "[[rule]]\nto = [\"l\", \"m\"]\n" + &source(0) + &source(1);
    let run = "[run]\nduration = \"50ms\"\nreplications = 1\n";
    let scenario = file("dropped.toml", &(text + &source(2) + run));
    let ran = falaj(&["sim", scenario, "--packets", "dropped.csv"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let told = self::text("dropped.csv");
    let mut lines = csv::Reader::from_reader(told.as_bytes());
    let header = lines.headers().expect("a header").clone();
    let at = |name: &str| header.iter().position(|field| field == name).expect(name);
    let (mut came, mut dropped) = (Vec::new(), 0);
    for line in lines.records() {
        let line = line.expect("a line");
        if &line[at("link")] == "l" {
            came.push(line[at("arrival_ns")].parse::<u64>().expect("an instant"));
            dropped += u64::from(&line[at("fate")] == "policy");
        }
    }
    came.sort_unstable();
    // Each source sends one packet per millisecond.
    let sent = |n: &u64| n / 3 * 1_000_000 + n % 3 * 300_000;
    let all: Vec<u64> = (0..150).map(|n| sent(&n)).collect();
    assert_eq!(came, all[..came.len()]);
    assert!(came.len() >= 149 && dropped > 30, "{} came, {dropped} were dropped", came.len());
}
