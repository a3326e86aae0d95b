//! `--help` fits on a page and names every command in a group; `--help-all` has the rest.

use crate::common::{falaj, program};
use std::collections::BTreeSet;

/// Returns every visible command, as the words after `falaj`.
pub(crate) fn commands() -> Vec<Vec<String>> {
    let page = falaj(&["man", "--reference"]).out;
    let headings = page.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(" `"));
    let words = |heading: &str| {
        let line = heading.strip_suffix('`').expect("a heading is closed");
        line.split(' ').skip(1).map(str::to_owned).collect()
    };
    headings.filter(|heading| heading.starts_with("falaj")).map(words).collect()
}

/// Returns a command's output for this flag, at most 100 columns wide.
pub(crate) fn help(command: &[String], flag: &str) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).chain([flag]).collect();
    let ran = program(&words).env("COLUMNS", "100").output().expect("it starts");
    assert_eq!(ran.status.code(), Some(0), "{words:?}");
    String::from_utf8(ran.stdout).expect("help is text")
}

#[test]
fn every_command_is_in_one_group() {
    let text = help(&[], "--help");
    let below = |heading: &str| -> Vec<&str> {
        let rest = text.split_once(&format!("\n{heading}:\n")).expect("a heading").1;
        rest.lines().take_while(|line| !line.is_empty()).collect()
    };
    assert_eq!(below("Common commands").len(), 11, "ten commands, one of them on two lines");
    let mut grouped = Vec::new();
    for group in ["Emulate", "Study", "Serve", "Files", "Reproduce"] {
        let names = below(group).into_iter().filter_map(|line| line.split_whitespace().next());
        grouped.extend(names.map(str::to_owned));
    }
    let all: BTreeSet<String> =
        commands().into_iter().filter(|words| words.len() == 1).flatten().collect();
    assert!(all.len() > 20, "{all:?}");
    assert_eq!(grouped.len(), all.len(), "each stands in one group: {grouped:?}");
    assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), all);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "too wide: {line}");
    }
}

/// Returns the long options that a help text lists.
fn options(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    words.filter(|word| !word.ends_with('`')).collect()
}

#[test]
fn each_help_fits_a_page_and_the_rest_is_a_flag_away() {
    for command in commands() {
        let page = help(&command, "--help");
        assert!(page.lines().count() <= 80, "{command:?}: {}\n{page}", page.lines().count());
        let whole = help(&command, "--help-all");
        let (some, all) = (options(&page), options(&whole));
        assert!(some.contains("--help-all") && some.is_subset(&all), "{command:?}: {some:?}");
    }
    let run = ["run".to_owned()];
    let (page, whole) = (help(&run, "--help"), help(&run, "--help-all"));
    for heading in
        ["Link, both directions", "Far end", "Pacing", "Results and control", "Virtual time"]
    {
        assert!(page.contains(&format!("\n{heading}")), "{heading}: {page}");
    }
    assert!(!page.contains("--up-rate <") && whole.contains("--up-rate <"), "{page}");
    assert!(!page.contains("--epoch") && whole.contains("--epoch"), "{page}");
    assert!(!page.contains("MAHIMAHI_BASE") && whole.contains("MAHIMAHI_BASE"), "{page}");
}
