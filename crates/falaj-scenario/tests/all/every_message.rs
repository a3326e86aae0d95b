//! Every error and warning of a file, of a script of `tc` or `ipfw`, or of `netconfig`, is in some
//! test: those that no other test has are here.

use falaj_scenario::import::{Host, ipfw, netconfig, tc};
use falaj_scenario::{Diagnostics, Severity};
use std::fs;
use std::path::{Path, PathBuf};

/// This is said of it, at a place that is in it.
fn said(all: &Diagnostics, severity: Severity, text: &str, title: &str) {
    let found = all
        .problems()
        .iter()
        .find(|problem| problem.title == title && problem.severity == severity);
    let found = found.unwrap_or_else(|| panic!("{text}: no `{title}`, but {all}"));
    let (line, column) = (text.lines().nth(found.line - 1), found.column);
    assert!(
        line.is_some_and(|line| column <= line.chars().count() + 1),
        "{text}: {}:{column}",
        found.line
    );
}

#[test]
fn scripts_of_tc() {
    let htb = "tc qdisc add dev eth0 root handle 1: htb default 10\ntc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit\n";
    let prio = "tc qdisc add dev eth0 root handle 1: prio bands 2\n";
    for (text, title) in [
        ("tc qdisc add dev eth0 root", "which discipline? its kind is missing"),
        ("tc class add dev eth0 parent 1: htb rate 1mbit", "which class? `classid` is missing"),
        ("tc class add dev eth0 parent 1: classid 1:10", "which discipline? its kind is missing"),
        ("tc filter add dev eth0 parent 1: protocol ip", "which filter? its kind is missing"),
        (
            &format!("{prio}tc filter add dev eth0 parent 1: fw flowid 1:1"),
            "which mark? `handle MARK` before `fw` is missing",
        ),
        (
            &format!("{prio}tc filter add dev eth0 parent 1: handle 0x100000000 fw flowid 1:1"),
            "a mark has 32 bits",
        ),
        ("tc qdisc add dev eth0 root netem parent 1:", "`parent` stands before the kind"),
        (
            "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 0xffff",
            "where to? `flowid CLASS` is missing",
        ),
        (
            "tc qdisc add dev eth0 root netem delay 10ms distribution normal",
            "a distribution of what? there is no jitter",
        ),
        (
            "tc filter add dev eth0 parent 1: protocol ip flower ip_proto icmp dst_port 80 flowid 1:1",
            "this comes to `ip icmp dport 80`: `icmp` has no ports",
        ),
        ("tc qdisc add dev eth0 root prio bands 1", "bands are 2 to 16"),
        (
            "tc qdisc add dev eth0 root ets bands 2 strict 3",
            "ets has 1 to 16 bands, of which some are strict and the others have quanta",
        ),
        (
            &format!("{htb}tc class add dev eth0 parent 1:5 classid 1:20 htb rate 1mbit"),
            "there is no class 1:5",
        ),
        (&htb.replace("default 10", "default 30"), "there is no class 1:30"),
        (&htb.replace("default 10", "default zz"), "`zz` is not the number of a class"),
        (&htb.replace(" default 10", ""), "no filter sends to any of its classes"),
        (&htb.replace("rate 1mbit", "ceil 1mbit"), "a class of htb needs a `rate`"),
        (&htb.replace("rate 1mbit", "rate 1mbit ceil 500kbit"), "a `ceil` below the `rate`"),
        (
            &format!(
                "{htb}tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:99"
            ),
            "it sends to a class that is not there",
        ),
        (
            "tc qdisc add dev eth0 root red limit 30kb min 5kb max 15kb avpkt 1kb probability 0",
            "of zero it never does anything",
        ),
        (
            &format!("{prio}tc qdisc add dev eth0 parent 1:1 cbs idleslope 0 sendslope -1000"),
            "cbs needs an `idleslope` above zero and a `sendslope`, in kbit/s",
        ),
        (
            &format!(
                "{prio}tc qdisc add dev eth0 parent 1:1 cbs idleslope 18446744073709551 sendslope -18446744073709551"
            ),
            "slopes beyond any rate",
        ),
        (
            &format!(
                "{prio}tc qdisc add dev eth0 parent 1:1 cbs idleslope 20000 sendslope -80000\n\
                 tc qdisc add dev eth0 parent 1:2 cbs idleslope 20000 sendslope -180000"
            ),
            "these slopes are of another port than those before",
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
        ("ipfw queue 1 config weight 5", "which pipe is this queue of? `pipe NUMBER` is missing"),
        ("ipfw pipe 1 config mask", "a mask of which fields?"),
        ("ipfw pipe 1 config bw 1Mbit/s red 0.002/5/15/0", "of zero it never does anything"),
        (&format!("{pipe}ipfw add 50 queue 3 ip from any to any out"), "there is no queue 3"),
        (
            &format!("{pipe}ipfw add 200 skipto 500 ip from any to any"),
            "it skips beyond the last rule",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe tablearg ip from any to any out"),
            "`tablearg` of which table?",
        ),
        (&format!("{pipe}ipfw add 200 pipe 1 ip from any out"), "`from` needs `to`"),
        (
            &format!("{pipe}ipfw add 200 pipe 1 ip from not any to any out"),
            "`not any` takes no packet",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe 1 {{ udp or {{ tcp }} }} from any to any out"),
            "a block within a block",
        ),
        (
            &format!("{pipe}ipfw add 200 count tag 70000 ip from any to any"),
            "`70000` is no number for `tag`",
        ),
        (
            &format!("{pipe}ipfw add 200 pipe 1 ip from any to any mark x"),
            "`x` is no number for `mark`",
        ),
        ("ipfw pipe 1 config bw '1Mbit/s", "a quote that does not end"),
    ] {
        let errors = ipfw(text, "ipfw.sh").err().unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, text, title);
    }
    for (text, title) in [
        (
            "ipfw pipe 1 config bw 1Mbit/s\nipfw queue 1 config pipe 1\nipfw queue 2 config pipe 1\n\
             ipfw add 50 queue 2 ip from any to any out"
                .to_owned(),
            "no rule sends to this queue: it is left out",
        ),
        (
            format!("{pipe}ipfw add 10 count tag 1 ip from any to any\nipfw add 20 count tag 2 udp from any to any"),
            "a packet that gets several tags has all of them there; here it has one mark, the one that it got last",
        ),
        (format!("{pipe}kldload dummynet"), "this is no command of dummynet or its rules, and was left out"),
        (format!("{pipe}sysctl net.inet.ip.forwarding=1"), "this says nothing of links, and was left out"),
    ] {
        let imported = ipfw(&text, "ipfw.sh").unwrap_or_else(|errors| panic!("{errors}"));
        said(&imported.notes, Severity::Warning, &text, title);
    }
}

#[test]
fn commands_of_netconfig() {
    for (text, title) in [
        ("config client 80 90 IN delay 100ms", "`90` is one too many"),
        ("config client IN delay 100ms", "of which ports?"),
        ("config client 80 IN delay 100ms IN delay 50ms", "`IN` is said already"),
        ("config client 80", "what is it to be like?"),
    ] {
        let errors =
            netconfig(text, "the command").err().unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, text, title);
    }
}

#[test]
fn scenarios() {
    let two = "[link.a]\nrate = \"1mbit\"\n[link.b]\nrate = \"1mbit\"\n[[rule]]\nname = \"x\"\nmatch = \"udp\"\n";
    let rest = "[[rule]]\nname = \"y\"\nmatch = \"any\"\nto = \"b\"\n";
    for (text, title) in [
        (format!("{two}to = []\n{rest}"), "`to`: an empty list leads nowhere"),
        (format!("{two}to = {{ skip-to = \"y\", by = \"src\" }}\n{rest}"), "`by` is for `table`"),
        (
            "[link.a]\nrate = \"1mbit\"\n[traffic.a]\nmodel = \"map\"\nd0 = [[-0.0001]]\nd1 = [[0.0001]]\nsize = \"100B\"\n".to_owned(),
            "traffic `a` sends less than a bit in a second",
        ),
    ] {
        let errors = falaj_scenario::parse(&text, "a.toml").err().unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, &text, title);
    }
}

/// Who matches a mark is told where no rule sets it.
#[test]
fn marks_that_nobody_sets() {
    let text = |mark: u32| {
        format!(
            "[link.a]\nrate = \"1mbit\"\n[[rule]]\nmatch = \"udp\"\nmark = 7\nto = \"pass\"\nthen = \"on\"\n\
             [[rule]]\nname = \"x\"\nmatch = \"mark {mark}\"\nto = \"drop\"\n[[rule]]\nto = \"a\"\n"
        )
    };
    for mark in [0, 7] {
        let (_, notes) = falaj_scenario::parse(&text(mark), "a.toml")
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert!(notes.is_empty(), "{notes}");
    }
    let (_, notes) =
        falaj_scenario::parse(&text(8), "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
    said(&notes, Severity::Warning, &text(8), "rule `x`: no rule sets mark 8");
    // Flows alike, at any depth, in one direction or both.
    let flow = |part: &str, mark: u32| {
        text(7)
            + &format!(
                "[link.b]\nrate = \"1mbit\"\nscheduler = {{ kind = \"drr\" }}\n\
                 [link.b{part}]\nmatch = [\"tcp\", \"udp mark {mark}\"]\n"
            )
    };
    for part in [".flow.f", ".up.flow.f"] {
        let whole = |mark| flow(part, mark).replace("to = \"a\"", "to = [\"a\", \"b\"]");
        let (_, notes) =
            falaj_scenario::parse(&whole(7), "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!notes.to_string().contains("mark"), "{notes}");
        let (_, notes) =
            falaj_scenario::parse(&whole(8), "a.toml").unwrap_or_else(|errors| panic!("{errors}"));
        said(&notes, Severity::Warning, &whole(8), "flow `f`: no rule sets mark 8");
    }
}

/// All files of Rust in there.
fn files(place: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(place).expect("a directory").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            files(&entry, found);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            found.push(entry);
        }
    }
}

/// A file of Rust before its tests, and they.
fn parts(file: &Path) -> (String, String) {
    let text = fs::read_to_string(file).expect("text");
    match text.split_once("#[cfg(test)]") {
        Some((code, tests)) => (code.to_owned(), tests.to_owned()),
        None => (text, String::new()),
    }
}

/// The texts in quotes within the brackets that were just opened, and where these end.
fn texts(code: &str) -> (Vec<String>, usize) {
    let (mut found, mut depth, mut text) = (Vec::new(), 1, None::<String>);
    let mut letters = code.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (&mut text, letter) {
            (Some(inner), '\\') => match letters.next() {
                // What follows on the next line begins behind its blanks.
                Some((_, '\n')) => inner.push('\n'),
                Some((_, escaped)) => inner.push(escaped),
                None => break,
            },
            (Some(_), '"') => found.extend(text.take()),
            (Some(inner), _) => inner.push(letter),
            (None, '"') => text = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return (found, at);
                }
            }
            (None, _) => {}
        }
    }
    panic!("brackets that do not end: {}", &code[..code.len().min(200)]);
}

/// What stays of a text whatever is put in.
fn fixed(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if letters.peek() == Some(&letter) => {
                found.last_mut().expect("one").extend(letters.next())
            }
            '{' => {
                letters.by_ref().find(|letter| *letter == '}');
                found.push(String::new());
            }
            _ => found.last_mut().expect("one").push(letter),
        }
    }
    found
}

fn without_breaks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_message_is_without_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut sources, mut others) = (Vec::new(), Vec::new());
    files(&root.join("src"), &mut sources);
    for place in ["tests", "../falaj/tests", "../falaj-plan/tests", "../falaj-sim/tests"]
        .map(|place| root.join(place))
    {
        if place.is_dir() {
            files(&place, &mut others);
        }
    }
    let tests: Vec<String> =
        others.iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    let own: Vec<String> = sources.iter().map(|file| parts(file).1).collect();
    let tests =
        without_breaks(&[tests, own].concat().concat().replace("\\\n", "").replace("\\\"", "\""));
    let (mut messages, mut missing) = (0, Vec::new());
    for file in &sources {
        let code = parts(file).0;
        for (at, name) in ["Problem::error(", "Problem::warning("]
            .iter()
            .flat_map(|name| code.match_indices(name))
        {
            let behind = at + name.len();
            let (texts, _) = texts(&code[behind..]);
            // A word alone is a key that is looked up; what is put together elsewhere has its words
            // there.
            for text in texts.into_iter().filter(|text| text.contains(' ')) {
                messages += 1;
                let is_there =
                    |part: &String| part.trim().len() < 3 || tests.contains(&without_breaks(part));
                if !fixed(&text).iter().all(is_there) {
                    missing.push(format!(
                        "{}: {}",
                        file.strip_prefix(root).expect("within").display(),
                        without_breaks(&text)
                    ));
                }
            }
        }
    }
    assert!(messages > 100, "{messages}");
    assert!(missing.is_empty(), "in no test: {missing:#?}");
}
