//! The tutorial, done as it says: what it shows is what the program prints.
//! Live runs are left out, they never print the same twice.

mod common;

use common::{falaj, file};

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
