//! From a link that runs to what it shall be: which pipes change, what becomes of flows, how packets are sorted.

use falaj_engine::change::{self, Fate};
use falaj_engine::classifier::Match;
use falaj_engine::network::Sorting;
use falaj_engine::{PipeId, Prepared};
use falaj_live::forward::{Change, Flows};
use falaj_scenario::{Direction, Link, Scenario, Towards};
use falaj_sched::queue::FlowId;
use falaj_sim::scenario::pipe_of;

/// Both directions, and what people call them.
pub(super) const WAYS: [(Towards, &str); 2] = [(Towards::Up, "up"), (Towards::Down, "down")];

/// What is to change, and in which directions.
pub(super) struct Difference {
    pub(super) ways: Vec<String>,
    pub(super) change: Option<Change>,
}

/// What makes `after` of `before`. Flows are known by their names.
///
/// # Errors
/// Links or rules are others, or why the engine cannot, after the direction's name.
pub(super) fn difference(before: &Scenario, after: &Scenario, drop: bool) -> Result<Difference, String> {
    let names = |scenario: &Scenario| scenario.links.iter().map(|link| link.name.clone()).collect::<Vec<_>>();
    if names(before) != names(after) {
        return Err("links stay those that they are while packets pass: change them in the file, and start anew".into());
    }
    if before.rules != after.rules {
        return Err(
            "rules and tables stay as they are while packets pass: change them in the file, and start anew".into()
        );
    }
    let way = |link: &Link, way: &str| {
        if before.links.len() > 1 { format!("{} {way}", link.name) } else { way.to_owned() }
    };
    let (mut ways, mut pipes, mut flows, mut sorted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let links = before.links.iter().zip(&after.links).enumerate();
    for (n, old, new, (towards, name)) in links.flat_map(|(n, (old, new))| WAYS.map(|way| (n, old, new, way))) {
        let (was, is, pipe) = (old.direction(towards), new.direction(towards), pipe_of(n, towards));
        let (spec, fates) = (is.pipe(), fates(was, is, drop));
        let sorts =
            was.account != is.account || was.flows.iter().map(|f| &f.matches).ne(is.flows.iter().map(|f| &f.matches));
        let other = was.pipe() != spec || !fates.is_empty();
        if other {
            pipes.push(change::Change { pipe, spec, flows: fates.clone(), drop });
        }
        if !fates.is_empty() || was.flows.len() != is.flows.len() {
            flows.push(Flows { pipe, fates, number: is.flows.len() });
        }
        if sorts {
            let masks = is.masks.clone();
            sorted.push(Sorting { pipe, classifier: is.classifier(), account: is.account, masks });
        }
        if other || sorts || was.flows != is.flows {
            ways.push(way(new, name));
        }
    }
    if pipes.is_empty() && sorted.is_empty() {
        return Ok(Difference { ways, change: None });
    }
    let named = |PipeId(pipe)| way(&after.links[pipe as usize / 2], WAYS[pipe as usize % 2].1);
    let engine = Prepared::new(&pipes).map_err(|(pipe, unfit)| format!("{}: {unfit}", named(pipe)))?;
    Ok(Difference { ways, change: Some(Change { engine, flows, sorted }) })
}

/// What becomes of each flow; nothing to say where each keeps its place. What waits for one that goes joins the flow
/// that takes every packet, or else the last one.
fn fates(was: &Direction, is: &Direction, drop: bool) -> Vec<Fate> {
    let any = is.flows.iter().position(|flow| flow.matches.contains(&Match::ANY));
    let refuge = FlowId(any.unwrap_or(is.flows.len().saturating_sub(1)) as u32);
    let fate = |name: &str| match is.flows.iter().position(|flow| flow.name == *name) {
        Some(at) => Fate::Is(FlowId(at as u32)),
        None if drop => Fate::Dropped(refuge),
        None => Fate::Joins(refuge),
    };
    let fates: Vec<Fate> = was.flows.iter().map(|flow| fate(&flow.name)).collect();
    let stay = fates.iter().enumerate().all(|(f, fate)| *fate == Fate::Is(FlowId(f as u32)));
    if stay { Vec::new() } else { fates }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flows: &[(&str, &str)], more: &str) -> Scenario {
        let mut text = format!("[link.x]\nrate = \"1mbit\"\n{more}\n");
        for (name, rule) in flows {
            text += &format!("[link.x.flow.{name}]\nmatch = \"{rule}\"\n");
        }
        falaj_scenario::parse(&text, "x").unwrap().0
    }

    #[test]
    fn flows_are_known_by_their_names() {
        let before = scenario(&[("a", "udp"), ("b", "tcp"), ("c", "any")], "");
        let of = |after: &Scenario, drop| fates(&before.links[0].up, &after.links[0].up, drop);
        let is = |f| Fate::Is(FlowId(f));
        assert_eq!(of(&before, true), []);
        let more = scenario(&[("a", "udp"), ("b", "tcp"), ("c", "any"), ("d", "any")], "");
        assert_eq!(of(&more, false), []);
        let fewer = scenario(&[("c", "any"), ("a", "udp")], "");
        assert_eq!(of(&fewer, false), [is(1), Fate::Joins(FlowId(0)), is(0)]);
        assert_eq!(of(&fewer, true), [is(1), Fate::Dropped(FlowId(0)), is(0)]);
    }

    #[test]
    fn what_is_alike_is_no_change() {
        let before = scenario(&[("a", "udp"), ("c", "any")], "");
        let same = difference(&before, &before, false).unwrap();
        assert!(same.change.is_none() && same.ways.is_empty());
        let change = |after: &Scenario| {
            let difference = difference(&before, after, false).unwrap();
            let change = difference.change.unwrap();
            (difference.ways, change.engine.pipes().count(), change.flows.len(), change.sorted.len())
        };
        let both = vec!["up".to_owned(), "down".to_owned()];
        assert_eq!(change(&scenario(&[("a", "tcp"), ("c", "any")], "")), (both.clone(), 0, 0, 2));
        assert_eq!(change(&scenario(&[("c", "any")], "")), (both.clone(), 2, 2, 2));
        assert_eq!(
            change(&scenario(&[("a", "udp"), ("c", "any")], "up = { delay = \"3ms\" }")),
            (both[..1].to_vec(), 1, 0, 0)
        );
    }

    #[test]
    fn links_and_rules_stay() {
        let text = "[link.a]\nrate = \"1mbit\"\n[link.b]\nrate = \"1mbit\"\n[[rule]]\nmatch = \"udp\"\nto = \"b\"\n";
        let of = |text: &str| falaj_scenario::parse(text, "x").unwrap().0;
        let before = of(text);
        let faster = text.replacen("1mbit", "2mbit", 1);
        let made = difference(&before, &of(&faster), false).unwrap();
        assert_eq!(made.ways, ["a up", "a down"]);
        assert_eq!(made.change.unwrap().engine.pipes().collect::<Vec<_>>(), [PipeId(0), PipeId(1)]);
        for other in [text.replace("udp", "tcp"), text.replace("link.a", "link.c")] {
            assert!(difference(&before, &of(&other), false).is_err_and(|why| why.contains("stay")));
        }
    }
}
