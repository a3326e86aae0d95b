//! From a link that runs to what it shall be: which pipes change, what becomes of flows, what the ports go by.

use falaj_engine::change::{self, Fate};
use falaj_engine::classifier::Match;
use falaj_engine::{PipeId, Prepared};
use falaj_live::ends::pipe_of;
use falaj_live::forward::{Change, Flows, Rules};
use falaj_scenario::{Direction, Link, Towards};
use falaj_sched::queue::FlowId;

/// Both directions, and what people call them.
pub(super) const WAYS: [(Towards, &str); 2] = [(Towards::Up, "up"), (Towards::Down, "down")];

/// What is to change, and in which directions.
pub(super) struct Difference {
    pub(super) ways: Vec<&'static str>,
    pub(super) change: Option<Change>,
}

/// What makes `after` of `before`. Flows are known by their names.
///
/// # Errors
/// Why the engine cannot, after the direction's name.
pub(super) fn difference(before: &Link, after: &Link, drop: bool) -> Result<Difference, String> {
    let (mut ways, mut pipes, mut flows, mut rules) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (towards, way) in WAYS {
        let (was, is, pipe) = (before.direction(towards), after.direction(towards), PipeId(pipe_of(towards)));
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
            rules.push(Rules { pipe, classifier: is.classifier(), account: is.account, masks });
        }
        if other || sorts || was.flows != is.flows {
            ways.push(way);
        }
    }
    if pipes.is_empty() && rules.is_empty() {
        return Ok(Difference { ways, change: None });
    }
    let engine = Prepared::new(&pipes).map_err(|(pipe, unfit)| format!("{}: {unfit}", WAYS[pipe.0 as usize].1))?;
    Ok(Difference { ways, change: Some(Change { engine, flows, rules }) })
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

    fn link(flows: &[(&str, &str)], more: &str) -> Link {
        let mut text = format!("[link.x]\nrate = \"1mbit\"\n{more}\n");
        for (name, rule) in flows {
            text += &format!("[link.x.flow.{name}]\nmatch = \"{rule}\"\n");
        }
        falaj_scenario::parse(&text, "x").unwrap().0.links.remove(0)
    }

    #[test]
    fn flows_are_known_by_their_names() {
        let before = link(&[("a", "udp"), ("b", "tcp"), ("c", "any")], "");
        let of = |after: &Link, drop| fates(&before.up, &after.up, drop);
        let is = |f| Fate::Is(FlowId(f));
        assert_eq!(of(&before, true), []);
        let more = link(&[("a", "udp"), ("b", "tcp"), ("c", "any"), ("d", "any")], "");
        assert_eq!(of(&more, false), []);
        let fewer = link(&[("c", "any"), ("a", "udp")], "");
        assert_eq!(of(&fewer, false), [is(1), Fate::Joins(FlowId(0)), is(0)]);
        assert_eq!(of(&fewer, true), [is(1), Fate::Dropped(FlowId(0)), is(0)]);
    }

    #[test]
    fn what_is_alike_is_no_change() {
        let before = link(&[("a", "udp"), ("c", "any")], "");
        let same = difference(&before, &before, false).unwrap();
        assert!(same.change.is_none() && same.ways.is_empty());
        let change = |after: &Link| {
            let difference = difference(&before, after, false).unwrap();
            let change = difference.change.unwrap();
            (difference.ways, change.engine.pipes().count(), change.flows.len(), change.rules.len())
        };
        let both = vec!["up", "down"];
        assert_eq!(change(&link(&[("a", "tcp"), ("c", "any")], "")), (both.clone(), 0, 0, 2));
        assert_eq!(change(&link(&[("c", "any")], "")), (both, 2, 2, 2));
        assert_eq!(change(&link(&[("a", "udp"), ("c", "any")], "up = { delay = \"3ms\" }")), (vec!["up"], 1, 0, 0));
    }
}
