//! The changes from a running scenario to another scenario: pipes, the mapping of flows, and the
//! classification of packets.

use crate::model::{Direction, Link, Scenario, Towards, pipe_of};
use falaj_engine::classifier::Match;
use falaj_engine::handover::FlowMapping;
use falaj_engine::network::{IngressChange, PipePlaces, RuleChange, unlimited};
use falaj_engine::rules::RouteRule;
use falaj_engine::transaction::{FlowChange, Transaction};
use falaj_engine::{ChangeError, PipeId, Prepared, change};
use falaj_sched::queues::queue::FlowId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Both directions, with their names.
pub const WAYS: [(Towards, &str); 2] = [(Towards::Up, "up"), (Towards::Down, "down")];

/// The changes, and the directions concerned.
pub struct Difference {
    /// The names of the directions that change, and `rules` if the rules change.
    pub ways: Vec<String>,
    /// The engine's change; `None` if nothing changes for it.
    pub change: Option<Transaction>,
    /// The links' places in the engine after the change.
    pub at: Vec<u32>,
    /// True if pipes or flows are added, removed or renumbered.
    pub others: bool,
}

/// Returns true if rules change, or links begin, end or move, so that the engine's places of links
/// are needed.
pub fn needs_places(before: &Scenario, after: &Scenario) -> bool {
    let names = |scenario: &Scenario| {
        scenario.links.iter().map(|link| link.name.clone()).collect::<Vec<_>>()
    };
    before.rules != after.rules || names(before) != names(after)
}

/// The queues with a new limit, if the discipline, the masks and the number of queues stay the
/// same; otherwise `None`.
fn limits(was: &Direction, is: &Direction) -> Option<Vec<Range<u32>>> {
    let (before, after) = (was.pipe.setup.leaves(), is.pipe.setup.leaves());
    let same = was.scheduler().kind == is.scheduler().kind
        && was.pipe.masks == is.pipe.masks
        && before.len() == after.len();
    let others = before
        .iter()
        .zip(&after)
        .enumerate()
        .filter(|(_, (before, after))| before.limit != after.limit);
    same.then(|| others.map(|(f, _)| f as u32..f as u32 + 1).collect())
}

/// The rules as the engine needs them: links are given by their places in the engine. Without
/// rules, one rule leads all packets to the first link.
fn rules(scenario: &Scenario, at: &[u32]) -> Vec<RouteRule> {
    match (scenario.rules.as_slice(), at.first()) {
        ([], Some(first)) => vec![RouteRule::all_to(*first)],
        (rules, _) => rules.iter().map(|rule| rule.rule.renumbered(at)).collect(),
    }
}

/// Assigns places, vacant ones first.
struct Free(PipePlaces);

impl Free {
    fn next(&mut self) -> u32 {
        if !self.0.vacant.is_empty() {
            return self.0.vacant.remove(0);
        }
        self.0.number += 1;
        self.0.number - 1
    }
}

/// The changes from `before`, whose links are `at` these places, to `after`. Links, flows and rules
/// are identified by their names.
///
/// # Errors
/// The engine's reason, after the name of the direction.
pub fn difference(
    before: &Scenario,
    after: &Scenario,
    (at, places): (&[u32], PipePlaces),
    drop: bool,
) -> Result<Difference, String> {
    let several = before.links.len().max(after.links.len()) > 1;
    let way = |link: &Link, way: &str| {
        if several { format!("{} {way}", link.name) } else { way.to_owned() }
    };
    let mut free = Free(places);
    let was_at =
        |link: &Link| before.links.iter().position(|old| old.name == link.name).map(|n| at[n]);
    let then: Vec<u32> =
        after.links.iter().map(|link| was_at(link).unwrap_or_else(|| free.next())).collect();
    let (mut ways, mut pipes, mut flows, mut ingress) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut begin, mut end, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (new, &place) in after.links.iter().zip(&then) {
        let old = before.links.iter().find(|old| old.name == new.name);
        for (towards, name) in WAYS {
            let (is, pipe) = (new.direction(towards), pipe_of(place as usize, towards));
            let sorting = || {
                let masks = is.pipe.masks.clone();
                IngressChange { pipe, classifier: is.classifier(), layer: is.layer, masks }
            };
            let Some(was) = old.map(|old| old.direction(towards)) else {
                begin.push((pipe, is.pipe.clone()));
                ingress.push(sorting());
                ways.push(way(new, name));
                continue;
            };
            let (spec, mappings) = (is.pipe.clone(), mappings(was, is, drop));
            let matches = |direction: &Direction| {
                direction.flows.iter().map(|flow| flow.matches.clone()).collect::<Vec<_>>()
            };
            let sorts = was.layer != is.layer
                || was.pipe.masks != is.pipe.masks
                || matches(was) != matches(is);
            let other = was.pipe.clone() != spec || !mappings.is_empty();
            match limits(was, is).filter(|_| other && mappings.is_empty() && !drop) {
                Some(limits) => values.push((pipe, spec, limits)),
                None if other => {
                    pipes.push(change::PipeChange { pipe, spec, flows: mappings.clone(), drop });
                }
                None => {}
            }
            if !mappings.is_empty() || was.flows.len() != is.flows.len() {
                flows.push(FlowChange { pipe, mappings, number: is.flows.len() });
            }
            if sorts {
                ingress.push(sorting());
            }
            if other || sorts || was.flows != is.flows {
                ways.push(way(new, name));
            }
        }
    }
    for (old, &place) in before.links.iter().zip(at) {
        if after.links.iter().any(|new| new.name == old.name) {
            continue;
        }
        for (towards, name) in WAYS {
            let (was, pipe) = (old.direction(towards), pipe_of(place as usize, towards));
            if drop {
                let mappings = vec![FlowMapping::Dropped(FlowId(0)); was.flows.len()];
                pipes.push(change::PipeChange {
                    pipe,
                    spec: was.pipe.clone(),
                    flows: mappings.clone(),
                    drop,
                });
            }
            end.push(pipe);
            ways.push(way(old, name));
        }
    }
    let (led, leads) = (rules(before, at), rules(after, &then));
    let leading = (led != leads).then(|| {
        let become_others = rules_become(before, after, &led, &leads);
        let bypass = free.0.bypass.unwrap_or_else(|| {
            if !leads.iter().any(RouteRule::passes) {
                return 0;
            }
            let place = free.next();
            begin.extend(WAYS.map(|(towards, _)| (pipe_of(place as usize, towards), unlimited())));
            place
        });
        if before.rules != after.rules {
            ways.push("rules".to_owned());
        }
        RuleChange::new(leads, after.run.seed, become_others, bypass)
    });
    let others = !(flows.is_empty() && begin.is_empty() && end.is_empty()) || then != at;
    if pipes.is_empty() && values.is_empty() && ingress.is_empty() && !others && leading.is_none() {
        return Ok(Difference { ways, change: None, at: then, others });
    }
    let named = |PipeId(pipe): PipeId| {
        let link = |links: &[Link], at: &[u32]| {
            at.iter().position(|&place| place == pipe / 2).map(|n| links[n].name.clone())
        };
        let link =
            link(&after.links, &then).or_else(|| link(&before.links, at)).unwrap_or_default();
        if several {
            format!("{link} {}", WAYS[pipe as usize % 2].1)
        } else {
            WAYS[pipe as usize % 2].1.to_owned()
        }
    };
    let unfit = |(pipe, unfit): (PipeId, ChangeError)| format!("{}: {unfit}", named(pipe));
    let mut engine = Prepared::new(&pipes).map_err(unfit)?;
    for (pipe, spec, limits) in values {
        engine = engine.with_values(pipe, spec, &limits).map_err(unfit)?;
    }
    // The engine adds new pipes at the end one by one, so they must begin in the order of their
    // places.
    begin.sort_by_key(|(pipe, _)| *pipe);
    for (pipe, spec) in &begin {
        engine = engine.beginning(*pipe, spec).map_err(unfit)?;
    }
    let engine = end.into_iter().fold(engine, Prepared::ending);
    let order = then
        .iter()
        .flat_map(|&place| WAYS.map(|(towards, _)| pipe_of(place as usize, towards)))
        .collect();
    let change = Transaction { engine, flows, ingress, rules: leading, order };
    Ok(Difference { ways, change: Some(change), at: then, others })
}

/// Computes the [`difference`] for a change that only affects values of this flow, not its adapter
/// or masks. The scenario must have a single link. The other flows, which may be thousands, are not
/// compared.
///
/// # Errors
/// As for [`difference`].
pub fn of_values(
    before: &Scenario,
    after: &Scenario,
    flow: usize,
    at: &[u32],
) -> Result<Difference, String> {
    let (was, is) = (&before.links[0], &after.links[0]);
    let (mut ways, mut order, mut engine) = (Vec::new(), Vec::new(), None);
    for (towards, name) in WAYS {
        let (was, is, pipe) =
            (was.direction(towards), is.direction(towards), pipe_of(at[0] as usize, towards));
        let (old, new) = (&was.pipe.setup.flows[flow], &is.pipe.setup.flows[flow]);
        if old != new {
            let number = flow as u32;
            let limits: Vec<Range<u32>> =
                (old.limit != new.limit).then_some(number..number + 1).into_iter().collect();
            let unfit = |(_, unfit): (PipeId, ChangeError)| format!("{name}: {unfit}");
            let others = engine.map_or_else(|| Prepared::new(&[]), Ok).map_err(unfit)?;
            engine = Some(others.with_values(pipe, is.pipe.clone(), &limits).map_err(unfit)?);
        }
        if old != new || was.flows[flow] != is.flows[flow] {
            ways.push(name.to_owned());
        }
        order.push(pipe);
    }
    let change = engine.map(|engine| Transaction {
        engine,
        flows: Vec::new(),
        ingress: Vec::new(),
        rules: None,
        order,
    });
    Ok(Difference { ways, change, at: at.to_vec(), others: false })
}

/// The new index of each rule; `None` if the rule is removed. A rule with a name becomes the rule
/// of the same name; a rule without a name becomes an equal rule without a name.
fn rules_become(
    before: &Scenario,
    after: &Scenario,
    led: &[RouteRule],
    leads: &[RouteRule],
) -> Vec<Option<u32>> {
    let numbered = |scenario: &Scenario, n: usize| scenario.rules[n].name == (n + 1).to_string();
    let names: BTreeMap<&str, usize> =
        after.rules.iter().enumerate().map(|(n, rule)| (&rule.name[..], n)).collect();
    let mut taken = vec![false; after.rules.len()];
    let is = |n: usize| {
        let found = if numbered(before, n) {
            // The search begins at the rule's old index, where the rule usually still is.
            let same = |&m: &usize| !taken[m] && numbered(after, m) && led[n] == leads[m];
            (n..after.rules.len()).chain(0..n.min(after.rules.len())).find(same)?
        } else {
            *names.get(&before.rules[n].name[..])?
        };
        taken[found] = true;
        Some(found as u32)
    };
    (0..before.rules.len()).map(is).collect()
}

/// The mapping of each flow; empty if each flow keeps its place. Queued packets of a removed flow
/// are dropped if `drop` is set. Else they move to the flow that matches every packet, or, if there
/// is none, to the last flow.
fn mappings(was: &Direction, is: &Direction, drop: bool) -> Vec<FlowMapping> {
    let any = is.flows.iter().position(|flow| flow.matches.contains(&Match::ANY));
    let refuge = FlowId(any.unwrap_or(is.flows.len().saturating_sub(1)) as u32);
    let places: BTreeMap<&str, usize> =
        is.flows.iter().enumerate().rev().map(|(n, flow)| (&flow.name[..], n)).collect();
    let mapping = |name: &str| match places.get(name) {
        Some(&at) => FlowMapping::Is(FlowId(at as u32)),
        None if drop => FlowMapping::Dropped(refuge),
        None => FlowMapping::Joins(refuge),
    };
    let mappings: Vec<FlowMapping> = was.flows.iter().map(|flow| mapping(&flow.name)).collect();
    let stay = mappings
        .iter()
        .enumerate()
        .all(|(f, mapping)| *mapping == FlowMapping::Is(FlowId(f as u32)));
    if stay { Vec::new() } else { mappings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flows: &[(&str, &str)], more: &str) -> Scenario {
        let mut text = format!("[link.x]\nrate = \"1mbit\"\n{more}\n");
        for (name, rule) in flows {
            text += &format!("[link.x.flow.{name}]\nmatch = \"{rule}\"\n");
        }
        crate::parse(&text, "x").unwrap().0
    }

    #[test]
    fn flows_are_known_by_their_names() {
        let before = scenario(&[("a", "udp"), ("b", "tcp"), ("c", "any")], "");
        let of = |after: &Scenario, drop| mappings(&before.links[0].up, &after.links[0].up, drop);
        let is = |f| FlowMapping::Is(FlowId(f));
        assert_eq!(of(&before, true), []);
        let more = scenario(&[("a", "udp"), ("b", "tcp"), ("c", "any"), ("d", "any")], "");
        assert_eq!(of(&more, false), []);
        let fewer = scenario(&[("c", "any"), ("a", "udp")], "");
        assert_eq!(of(&fewer, false), [is(1), FlowMapping::Joins(FlowId(0)), is(0)]);
        assert_eq!(of(&fewer, true), [is(1), FlowMapping::Dropped(FlowId(0)), is(0)]);
    }

    #[test]
    fn what_is_alike_is_no_change() {
        let before = scenario(&[("a", "udp"), ("c", "any")], "");
        let same = difference(&before, &before, places(1), false).unwrap();
        assert!(same.change.is_none() && same.ways.is_empty());
        let change = |after: &Scenario| {
            let difference = difference(&before, after, places(1), false).unwrap();
            let change = difference.change.unwrap();
            (
                difference.ways,
                change.engine.pipes().count(),
                change.flows.len(),
                change.ingress.len(),
            )
        };
        let both = vec!["up".to_owned(), "down".to_owned()];
        assert_eq!(change(&scenario(&[("a", "tcp"), ("c", "any")], "")), (both.clone(), 0, 0, 2));
        assert_eq!(change(&scenario(&[("c", "any")], "")), (both.clone(), 2, 2, 2));
        assert_eq!(
            change(&scenario(&[("a", "udp"), ("c", "any")], "up = { delay = \"3ms\" }")),
            (both[..1].to_vec(), 1, 0, 0)
        );
    }

    /// Places of this number of links, in file order.
    fn places(links: u32) -> (&'static [u32], PipePlaces) {
        (
            &[0, 1, 2, 3][..links as usize],
            PipePlaces { number: links, vacant: Vec::new(), bypass: None },
        )
    }

    #[test]
    fn links_and_rules_come_and_go() {
        let text = "[link.a]\nrate = \"1mbit\"\n[link.b]\nrate = \"1mbit\"\n[[rule]]\nmatch = \"udp\"\nto = \"b\"\n";
        let of = |text: &str| crate::parse(text, "x").unwrap().0;
        let before = of(text);
        let to = |after: &str| difference(&before, &of(after), places(2), false).unwrap();
        let made = to(&text.replacen("1mbit", "2mbit", 1));
        assert_eq!(made.ways, ["a up", "a down"]);
        let change = made.change.unwrap();
        assert!(change.rules.is_none());
        assert_eq!(change.engine.pipes().collect::<Vec<_>>(), [PipeId(0), PipeId(1)]);

        let made = to(&text.replace("udp", "tcp"));
        assert!(made.ways == ["rules"] && made.change.unwrap().rules.is_some());

        let made = to(&text.replace("link.a", "link.c"));
        assert_eq!(
            (made.ways, made.at),
            (["c up", "c down", "a up", "a down"].map(str::to_owned).into(), vec![2, 1])
        );
        let change = made.change.unwrap();
        // The place of `b`, the target of the rule, is unchanged.
        assert!(change.rules.is_none());
        assert_eq!(change.engine.begins().collect::<Vec<_>>(), [PipeId(4), PipeId(5)]);
        assert_eq!(change.order, [4, 5, 2, 3].map(PipeId));

        let passes = format!("{text}[[rule]]\nto = \"pass\"\n");
        let vacant = PipePlaces { vacant: vec![0], ..places(3).1 };
        let made = difference(&before, &of(&passes), (&[1, 2], vacant), false).unwrap();
        assert_eq!(
            made.change.unwrap().engine.begins().collect::<Vec<_>>(),
            [PipeId(0), PipeId(1)]
        );
    }
}
