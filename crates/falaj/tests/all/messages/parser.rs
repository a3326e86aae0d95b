//! Words that the command line rejects: the message is one line with the allowed values, and the
//! values that it proposes are accepted.

use super::refused;
use crate::common::{falaj, file, program};
use crate::help::{commands, help};

/// Returns the message for these words, which is one line in falaj's own format.
fn answer(words: &[&str]) -> String {
    let ran = falaj(words);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{words:?}: {ran:?}");
    assert!(
        ran.err.starts_with("falaj: ") && ran.err.lines().count() == 1,
        "{words:?}: {}",
        ran.err
    );
    ran.err
}

/// Returns the options with a value as a help text lists them: `--rate` and `<RATE>`.
fn with_values(help: &str) -> Vec<(&str, &str)> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| {
        let long = &line[line.find("--")?..];
        let (name, rest) = long.split_once(' ')?;
        rest.starts_with('<').then_some((name, rest))
    });
    words.collect()
}

#[test]
fn every_command_answers_what_it_does_not_take() {
    let (mut options, mut commands_with_commands) = (0, 0);
    for command in commands() {
        let all = help(&command, "--help-all");
        let words = |more: &[&'static str]| -> Vec<String> {
            command.iter().cloned().chain(more.iter().map(|&word| word.to_owned())).collect()
        };
        let said =
            |words: Vec<String>| answer(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let name = ["falaj".to_owned()].into_iter().chain(command.clone()).collect::<Vec<_>>();
        let name = name.join(" ");
        let unknown = said(words(&["--no-such-option"]));
        let of = format!("falaj: `--no-such-option` is not an option of `{name}`");
        assert!(unknown.starts_with(&of) && unknown.contains("--help-all"), "{unknown}");
        if all.contains("Usage: falaj [OPTIONS] <COMMAND>")
            || all.contains(&format!("Usage: {name} [OPTIONS] <COMMAND>"))
        {
            commands_with_commands += 1;
            let unknown = said(words(&["no-such-command"]));
            assert!(unknown.contains("has no command `no-such-command`"), "{unknown}");
        }
        for (option, value) in with_values(&all) {
            options += 1;
            let mut alone = words(&[]);
            alone.push(option.to_owned());
            let lacks = said(alone);
            assert!(lacks.contains(&format!("`{option}` needs a value")), "{lacks} {value}");
            // The message names the option with the nonsensical value, or the option after it.
            let mut bad = words(&[]);
            bad.extend([option, "@no\u{1}sense@", "--no-such-option"].map(str::to_owned));
            let bad = said(bad);
            assert!(bad.contains(option) || bad.contains("--no-such-option"), "{bad}");
        }
    }
    assert!(options > 150 && commands_with_commands > 3, "{options} {commands_with_commands}");
}

#[test]
fn the_nearest_and_what_is_allowed_are_named() {
    let tenants = file("parser.toml", crate::common::TENANTS);
    for (words, said) in [
        (
            &["run", "--rat", "1mbit", "--", "true"][..],
            "`--rat` is not an option of `falaj run`; the most similar is `--rate`; ",
        ),
        (&["simm"], "`falaj` has no command `simm`; the most similar is `sim`; "),
        (
            &["bandwidth"],
            "`falaj` has no command `bandwidth`; `falaj explain bandwidth` explains the word, and \
             `falaj --help` lists",
        ),
        (
            &["sweep", "mergee"],
            "`falaj sweep` has no command `mergee`; the most similar is `merge`; ",
        ),
        (
            &["run", "--queue-policy", "tial", "--", "true"],
            "--queue-policy tial: `tial` is not allowed; the most similar is `tail`; allowed: \
             `tail`, `head`, `red`, ",
        ),
        (&["run", "--rate", "--delay", "5ms"], "`--rate` needs a value; write `--rate <RATE>`: "),
        (&["run", "--rate", "--", "true"], "`--rate` needs a value; write `--rate <RATE>`"),
        (&["sim", tenants, "--seed"], "`--seed` needs a value; write `--seed <SEED>`: "),
        (&["sim", tenants, "--seed", "1", "--seed", "2"], "`--seed` is given twice; write it once"),
        (&["sim", tenants, "more"], "`more` is one word too many; write `falaj sim "),
        (
            &["run", "--rtt", "80ms", "--delay", "40ms", "--", "true"],
            "cannot be used together with `--delay`; leave one of them out",
        ),
        (
            &["run", tenants, "--rate", "1mbit", "--", "true"],
            "cannot be used together with `--rate`",
        ),
        (&["check"], "`falaj check` needs `<FILES>...`; write `falaj check "),
        (&["serve", tenants, "--tcp", "127.0.0.1:1"], "needs `--token-file <FILE>`; write `"),
        (
            &["relay", "--clients", "x"],
            "--clients x: `x` is not a whole number; write one, as in `10`",
        ),
        (&["run", "ping", "1.1.1.1"], "put `--` before the command: falaj run -- ping 1.1.1.1"),
    ] {
        let answered = answer(words);
        assert!(answered.contains(said), "{words:?}: {said}\n{answered}");
    }
    let unknown =
        file("parser-kind.toml", "[link.a]\nrate = \"1mbit\"\nscheduler = { kind = \"x\" }\n");
    let ran = falaj(&["check", unknown]);
    let list = program(&["explain"]).output().expect("it starts").stdout;
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let list = String::from_utf8(list).expect("text");
    let (_, kinds) = list.split_once("\ndisciplines\n").expect("they are the last");
    let kinds: Vec<&str> =
        kinds.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(kinds.len() > 30, "{list}");
    for kind in kinds {
        assert!(ran.err.contains(&format!("`{kind}`")), "{kind}: {}", ran.err);
    }
}

/// Runs a link with this value and a namespace that does not exist. Returns the message about the
/// value if it is refused, and `None` if only the namespace is refused.
fn refusal(option: &str, value: &str) -> Option<String> {
    let ran = falaj(&["run", "--netns", "no-such-namespace", option, value, "--", "true"]);
    assert_eq!(ran.status, Some(2), "{option} {value}: {ran:?}");
    let last = ran.err.lines().last().unwrap_or_default().to_owned();
    (!last.contains("no-such-namespace")).then_some(last)
}

/// Each value that a message proposes is accepted.
#[test]
fn a_cure_leads_to_no_other_error() {
    let wrong: [(&str, &[&str]); 9] = [
        ("--mtu", &["100000000", "0", "1", "67B", "70kB", "64k", "1500", "-5", "1b", "x", "9byts"]),
        ("--rate", &["0", "0mbit", "10", "99999999999999999999", "10Mb", "10MB", "5KB/s", "-1"]),
        ("--rate", &["2000000gbit", "0.5bit", "1e9", "10mbti", "99999999999999999999tbit", ""]),
        ("--delay", &["-1", "1", "5m", "99999999999999999999", "999999999999h", "0.1ns", "5mss"]),
        ("--rtt", &["-1", "80", "80sec", "1.2.3ms", "1,5ms"]),
        (
            "--loss",
            &["200%", "1", "150", "0.5", "-1%", "5percent", "200pct", "0.00000000000000000001%"],
        ),
        (
            "--queue",
            &["0", "0p", "10", "10k", "99999999999p", "10b", "99999999999999999999", "10pakets"],
        ),
        ("--slack", &["-1", "20", "20m"]),
        ("--seed", &["-1", "x", "99999999999999999999", "1.5"]),
    ];
    for (option, values) in wrong {
        for value in values {
            let said =
                refusal(option, value).unwrap_or_else(|| panic!("{option} {value} is taken"));
            let (_, cure) = said.split_once("; ").unwrap_or_else(|| panic!("no cure: {said}"));
            let proposed: Vec<&str> = cure.split('`').skip(1).step_by(2).collect();
            let tells = ["digits", "units of "].iter().any(|words| cure.contains(words));
            assert!(!proposed.is_empty() || tells, "no value is proposed: {said}");
            for word in proposed {
                // If the proposal is only a unit, it replaces the unit of the given value.
                let number = value.trim_end_matches(|c: char| !c.is_ascii_digit());
                let is_value = word == "unlimited" || word.contains(|c: char| c.is_ascii_digit());
                let cured = if is_value { word.to_owned() } else { format!("{number}{word}") };
                let again = refusal(option, &cured);
                assert_eq!(again, None, "{option} {value}: {said}");
            }
        }
    }
    refused(
        &["sim", file("cure.toml", crate::common::TENANTS), "--duration", "0"],
        "write more than zero, as in `10s`",
    );
}
