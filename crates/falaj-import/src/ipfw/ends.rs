//! Interfaces stand for the ends of links. The first interface that the rules name is the far end,
//! and a second interface is the near end: packets come in by one of them and go out by the other.

use super::rule::Rule;
use crate::args::no_equal_phrase;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

/// Sets the directions of rules by the interfaces that they name.
pub(super) fn ends(rules: &mut [Rule], problems: &mut Vec<Problem>) {
    let mut named: Vec<_> = Vec::new();
    for name in
        rules.iter().flat_map(|rule| &rule.interfaces).map(|interface| interface.name.clone())
    {
        if named.iter().all(|other: &crate::lines::Word| other.text != name.text) {
            named.push(name);
        }
    }
    let Some(first) = named.first() else { return };
    if let Some(third) = named.get(2) {
        let why =
            "a link has two ends: import the commands of these two, and those of others separately";
        problems.push(no_equal_phrase(third.at.clone(), "a third interface", why));
        return;
    }
    let Some(second) = named.get(1) else {
        let what =
            format!("{} is the end of these links: rules need not name it", quoted(&first.text));
        problems.push(Problem::warning(first.at.clone(), what));
        return;
    };
    let what = format!(
        "{} is the far end of these links, and {} the near one: packets that go out by the first, or come in by the second, go up",
        quoted(&first.text),
        quoted(&second.text)
    );
    problems.push(Problem::warning(second.at.clone(), what));
    let passes = rules.iter().find_map(|rule| rule.pass);
    for rule in rules {
        if rule.pass.is_some_and(|pass| passes != Some(pass)) {
            let why = "ipfw checks a packet twice between two interfaces, falaj once: write all rules for packets that go `out`";
            problems.push(no_equal_phrase(rule.at.clone(), "`in` beside `out`", why));
        }
        let said = rule.direction;
        let mut ways = rule.interfaces.iter().map(|interface| {
            let way = interface.passes.or(said);
            if interface.name.text == first.text { way } else { way.map(turned) }
        });
        // A rule that names no interface and no direction holds for both directions.
        let way = ways.next().flatten();
        if ways.any(|other| other != way) {
            let why = "packets come in by one interface and go out by the other: write one rule \
                       for each direction";
            problems.push(no_equal_phrase(rule.at.clone(), "a rule with these interfaces", why));
        }
        rule.direction = way;
    }
}

fn turned(way: &'static str) -> &'static str {
    if way == "up" { "down" } else { "up" }
}
