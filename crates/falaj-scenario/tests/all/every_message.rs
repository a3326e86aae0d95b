//! Every error and warning about a file occurs in some test. Those that occur in no other test are
//! tested here.

#[path = "every_message/scan.rs"]
mod scan;

use falaj_scenario::Severity;
use scan::said;

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
        let errors = falaj_scenario::parse(&text, "a.toml")
            .err()
            .unwrap_or_else(|| panic!("{text}: no `{title}`"));
        said(&errors, Severity::Error, &text, title);
    }
}

/// A match on a mark that no rule sets is reported.
#[test]
fn marks_that_no_rule_sets() {
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
    // Rules that change parts of a mark may set it together.
    let parts = |term: &str| {
        text(7).replace("\"mark 7\"", &format!("\"{term}\"")).replace(
            "[link.a]",
            "[[rule]]\nmark = 0x30\nmark-mask = 0xf0\nto = \"pass\"\nthen = \"on\"\n[link.a]",
        )
    };
    for term in ["mark 0x30/0xf0", "mark 0x37", "mark 0x20/0x20", "mark 0/0x800"] {
        let (_, notes) = falaj_scenario::parse(&parts(term), "a.toml")
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert!(notes.is_empty(), "{notes}");
    }
    let (_, notes) = falaj_scenario::parse(&parts("mark 0x40/0xf0"), "a.toml")
        .unwrap_or_else(|errors| panic!("{errors}"));
    let title = "rule `x`: no rule sets mark 0x40/0xf0";
    said(&notes, Severity::Warning, &parts("mark 0x40/0xf0"), title);
    for (keys, title) in [
        ("mark-mask = 7", "rule `1` has a `mark-mask` and no `mark`"),
        ("mark = 9\nmark-mask = 7", "rule `1`: `mark` has bits that `mark-mask` leaves out"),
    ] {
        let text = text(7).replace("mark = 7", keys);
        let errors = falaj_scenario::parse(&text, "a.toml").expect_err("an error");
        said(&errors, Severity::Error, &text, title);
    }
    // A flow that matches such a mark is reported too, in both directions or in one.
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

#[test]
fn no_message_is_without_a_test() {
    let tests = [
        "tests",
        "../falaj-import/tests",
        "../falaj/tests",
        "../falaj-plan/tests",
        "../falaj-sim/tests",
    ];
    let (messages, missing) = scan::untested(env!("CARGO_MANIFEST_DIR"), &tests);
    assert!(messages > 60, "{messages}");
    assert!(missing.is_empty(), "in no test: {missing:#?}");
}
