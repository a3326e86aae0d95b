//! Any file is accepted, or refused with reasons.

use falaj_scenario::{Severity, parse};
use falaj_traffic::source::Model;
use proptest::prelude::*;

const WHOLE: &str = include_str!("../whole.toml");

/// Reads `text` and checks the documented properties of the result.
fn check(text: &str) {
    let problems = match parse(text, "a.toml") {
        Ok((scenario, warnings)) => {
            assert!(!warnings.has_errors());
            assert!(!scenario.links.is_empty());
            for direction in scenario.links.iter().flat_map(|l| [&l.up, &l.down]) {
                assert!(!direction.flows.is_empty());
                assert_eq!(direction.flows.len(), direction.pipe.setup.flows.len());
                assert!(direction.flows.iter().all(|f| !f.matches.is_empty()));
            }
            for source in &scenario.traffic {
                let direction = scenario.links[source.link].direction(source.towards);
                assert!(source.flow < direction.flows.len());
                if !matches!(source.model, Model::Recorded(_)) {
                    let payload = direction.layer.udp_payload(source.spec().smallest());
                    assert!(payload.expect("a datagram") + 28 <= direction.mtu);
                }
            }
            warnings
        }
        Err(problems) => {
            assert!(problems.has_errors());
            problems
        }
    };
    let lines = text.split('\n').count();
    for problem in problems.problems() {
        assert!((1..=lines).contains(&problem.line) && problem.column >= 1);
        assert!(text.get(problem.span.clone()).is_some());
        assert!(!problem.title.contains('\n'));
    }
    let sorted = problems.problems().is_sorted_by_key(|p| p.span.start);
    assert!(sorted, "in the order of their places");
    let shown = problems.render(false);
    assert!(!shown.contains('\u{1b}'), "no escapes without colour");
    assert_eq!(
        problems.problems().iter().any(|p| p.severity == Severity::Error),
        problems.has_errors()
    );
    let _ = problems.render(true);
}

/// Pieces of text that may be in a file by mistake.
const SCRAPS: &[&str] = &[
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ".",
    ",",
    "#",
    "\n",
    "\r",
    "\t",
    "\0",
    "\\",
    "\u{1b}[31m",
    "é",
    "漢",
    "\u{202e}",
    "\u{feff}",
    "rate",
    "match",
    "kind = \"A\"",
    "[link.b]",
    "[link.uplink.up]",
    "[link.uplink.up.flow.x]",
    "[link.uplink.flow]",
    "[traffic.z]",
    "[run]",
    "scheduler = { kind = \"drr\" }",
    "quantum = \"1B\"",
    "\"unlimited\"",
    "\"0s\"",
    "\"1ns\"",
    "\"18446744073709551615ns\"",
    "\"1bit\"",
    "\"1000tbit\"",
    "\"18446744073709551615B\"",
    "\"65535B\"",
    "\"68B\"",
    "\"l1\"",
    "\"payload\"",
    "\"phase-wise\"",
    "\"paper\"",
    "1",
    "-1",
    "1.5",
    "nan",
    "true",
    "1979-05-27",
    "[]",
    "{}",
    "\"100%\"",
    "\"0%\"",
    "loss = { kind = \"list\", packets = \"3, 5-7\" }",
    "loss = { kind = \"four-states\", p13 = \"60%\", p14 = \"50%\" }",
    "jitter = { amount = \"1h\", table = \"Cargo.toml\" }",
    "kind = \"every\"",
    "any",
    "udp",
    "[[rule]]",
    "to = \"uplink\"",
    "to = { skip-to = \"2\" }",
    "to = { table = \"t\" }",
    "to = [\"uplink\", \"uplink\"]",
    "then = \"on\"",
    "probability = \"30%\"",
    "[table.t]",
    "\"10.0.0.0/8\" = \"uplink\"",
    "\"80\" = \"drop\"",
    "match = \"( udp or not src table t ) ttl 1\"",
    "headers = \"udp dport 5\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text(text in "\\PC*") {
        check(&text);
    }

    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn scraps(
        parts in prop::collection::vec(prop::sample::select(SCRAPS), 0..40),
        gap in prop::sample::select(vec!["", " ", "\n"]),
    ) {
        check(&parts.join(gap));
    }

    #[test]
    fn a_good_file_gone_wrong(
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..12usize, prop::sample::select(SCRAPS)),
            1..6,
        ),
    ) {
        let mut chars: Vec<char> = WHOLE.chars().collect();
        for (place, cut, scrap) in edits {
            let at = place.index(chars.len());
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, scrap.chars());
        }
        check(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn values_exchanged(
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(SCRAPS)),
            1..4,
        ),
    ) {
        let mut lines: Vec<String> = WHOLE.lines().map(str::to_owned).collect();
        for (place, scrap) in edits {
            let line = &mut lines[place.index(WHOLE.lines().count())];
            *line = match line.split_once('=') {
                Some((key, _)) => format!("{key}= {scrap}"),
                None => scrap.to_string(),
            };
        }
        check(&lines.join("\n"));
    }

    #[test]
    fn lines_moved(from: prop::sample::Index, to: prop::sample::Index, again: bool) {
        let mut lines: Vec<&str> = WHOLE.lines().collect();
        let line = if again {
            lines[from.index(lines.len())]
        } else {
            lines.remove(from.index(lines.len()))
        };
        lines.insert(to.index(lines.len()), line);
        check(&lines.join("\n"));
    }
}

#[test]
fn much_of_everything() {
    check(&"[".repeat(100_000));
    check(&format!("a = {}", "[".repeat(100_000)));
    check(&format!("a = {}", "{a=".repeat(100_000)));
    check(&format!("{} = 1", "a.".repeat(50_000) + "a"));
    check(&"x\n".repeat(20_000));
    check(&"x = \"1\"\n".repeat(2_000));
    check(&format!("[link.a]\nrate = \"{}\"\n", "9".repeat(1_000_000)));
    check(&format!("[link.a]\n{} = 1\n", "a".repeat(1_000_000)));
    let flows: String = (0..3_000)
        .map(|n| format!("[link.a.flow.f{n}]\nmatch = \"udp dport {n}\"\nqueeu = \"1p\"\n"))
        .collect();
    check(&format!("[link.a]\nrate = \"1gbit\"\n{flows}"));
    let flows: String =
        (0..3_000).map(|n| format!("[link.a.flow.f{n}]\nmatch = \"any\"\n")).collect();
    check(&format!("[link.a]\nrate = \"1gbit\"\nscheduler = {{ kind = \"drr\" }}\n{flows}"));
}
