//! Rules: which links a packet passes. In order; the first that takes it decides.

use crate::chance::Chance;
use crate::classifier::Match;
use crate::key::Key;
use crate::lookup::Lookup;
use crate::masks::SojournStats;
use crate::table::{Field, LookupTable};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::Time;
use std::sync::Arc;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRule {
    /// Of the packets that one of these takes.
    pub matches: Vec<Match>,
    /// On their way up (0) or down (1), or both.
    pub way: Option<usize>,
    /// With this probability, else always.
    pub probability: Option<Probability>,
    /// They have this mark from then on, for rules behind it, and for flows and masks of the links
    /// that they pass.
    pub mark: Option<u32>,
    /// What becomes of them.
    pub to: RuleAction,
    /// After that they go on with the rule behind this one, instead of leaving.
    pub on: bool,
}

impl RouteRule {
    /// Leads every packet through this link.
    pub fn all_to(link: u32) -> RouteRule {
        RouteRule {
            matches: vec![Match::ANY],
            way: None,
            probability: None,
            mark: None,
            to: RuleAction::Links(vec![link]),
            on: false,
        }
    }

    /// The same rule where each of the links has another index.
    ///
    /// # Panics
    /// A link that is not among these.
    #[must_use]
    pub fn renumbered(&self, links: &[u32]) -> RouteRule {
        let of = |link: &u32| links[*link as usize];
        let to = match &self.to {
            RuleAction::Links(links) => RuleAction::Links(links.iter().map(of).collect()),
            RuleAction::Table { table, by, targets } => {
                let target = |target: &Option<RuleTarget>| match target {
                    Some(RuleTarget::Link(link)) => Some(RuleTarget::Link(of(link))),
                    other => *other,
                };
                RuleAction::Table {
                    table: table.clone(),
                    by: *by,
                    targets: targets.iter().map(target).collect(),
                }
            }
            other => other.clone(),
        };
        RouteRule { to, ..self.clone() }
    }

    /// May packets pass a further link behind one of its own?
    pub fn leads_on(&self) -> bool {
        match &self.to {
            RuleAction::Links(links) => links.len() > 1 || self.on && !links.is_empty(),
            RuleAction::Table { .. } => self.on,
            RuleAction::Drop | RuleAction::Pass | RuleAction::SkipTo(_) => false,
        }
    }

    /// May a packet pass no link by it?
    pub fn passes(&self) -> bool {
        match &self.to {
            RuleAction::Pass => !self.on,
            RuleAction::Table { targets, .. } => targets.contains(&Some(RuleTarget::Pass)),
            _ => false,
        }
    }
}

/// The links that packets with this key pass, up (0) or down (1), one after the other. `None` where
/// a rule drops them, and where chance decides.
pub fn sure_way(rules: &[RouteRule], key: &Key, way: usize) -> Option<Vec<u32>> {
    let mut key = *key;
    let mut links = Vec::new();
    let mut next = 0;
    while let Some(rule) = rules.get(next) {
        next += 1;
        if rule.way.is_some_and(|only| only != way) || !rule.matches.iter().any(|m| m.takes(&key)) {
            continue;
        }
        let target = match &rule.to {
            RuleAction::Table { table, by, targets } => {
                match table
                    .find(*by, &key)
                    .and_then(|entry| targets.get(entry as usize).copied().flatten())
                {
                    Some(target) => Some(target),
                    None => continue,
                }
            }
            _ => None,
        };
        if rule.probability.is_some() {
            return None;
        }
        key.mark = rule.mark.unwrap_or(key.mark);
        let led = links.len();
        match (&rule.to, target) {
            (RuleAction::Links(more), _) => links.extend(more),
            (RuleAction::SkipTo(to), _) => next = next.max(*to as usize),
            (_, Some(RuleTarget::Link(link))) => links.push(link),
            (RuleAction::Drop, _) | (_, Some(RuleTarget::Drop)) => return None,
            (RuleAction::Pass, _) | (_, Some(RuleTarget::Pass)) if !rule.on => return Some(links),
            _ => {}
        }
        if links.len() > led && !rule.on {
            break;
        }
    }
    Some(links)
}

/// What becomes of the packets of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAction {
    /// They pass these links, by their index, one after the other.
    Links(Vec<u32>),
    /// They are thrown away.
    Drop,
    /// They pass no link.
    Pass,
    /// What a table says of them, by the number of its entry; the rule does not take those that it
    /// says nothing of.
    Table {
        /// The table.
        table: Arc<LookupTable>,
        /// What of the packet is looked up there.
        by: Field,
        /// What its entries stand for.
        targets: Vec<Option<RuleTarget>>,
    },
    /// They go on with the rule of this index, which is behind this one.
    SkipTo(u32),
}

/// What an entry of a table stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleTarget {
    /// This link, by its index.
    Link(u32),
    /// Packets are thrown away.
    Drop,
    /// They pass no link.
    Pass,
}

/// What a rule has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as IP packets.
    pub bytes: u64,
}

impl RuleCounters {
    fn add(&mut self, other: &RuleCounters) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Where a packet is with the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RulePosition {
    /// At this rule, and at this one of its links.
    Of { rule: u32, link: u32 },
    /// Its rule is gone, and it goes on with this one behind the link that it is in.
    Before(u32),
}

/// What is next for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleOutcome {
    /// This link.
    Link(u32, RulePosition),
    /// No link, and then out.
    Pass,
    /// A rule drops it.
    Drop,
    /// No rule takes it any more.
    Nothing,
}

/// Draws of rules are apart from those of sources and of links.
const RULES: u64 = 1 << 62;

/// Rules at work.
#[derive(Debug, Clone)]
pub(crate) struct RuleSet {
    rules: Vec<RouteRule>,
    lookup: Lookup,
    seed: u64,
    taken: Vec<RuleCounters>,
    /// By rule and way, the packets that its match took, by chance or not.
    asked: Vec<[u64; 2]>,
    /// What rules took that are gone.
    removed: RuleCounters,
    active: Vec<RuleStats>,
}

/// What became of the packets of a rule in the links that it leads to.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleStats {
    /// What they did, and for how long; a packet is counted in each link.
    pub stats: SojournStats,
    /// When it took one last.
    pub last: Option<Time>,
}

impl RuleSet {
    pub(crate) fn new(rules: Vec<RouteRule>, seed: u64) -> RuleSet {
        let lookup = Lookup::new(rules.iter().map(|rule| (&rule.matches[..], rule.way)));
        let (taken, asked) =
            (vec![RuleCounters::default(); rules.len()], vec![[0; 2]; rules.len()]);
        let active = vec![RuleStats::default(); rules.len()];
        RuleSet { rules, lookup, seed, taken, asked, removed: RuleCounters::default(), active }
    }

    pub(crate) fn taken(&self) -> &[RuleCounters] {
        &self.taken
    }

    /// What rules took that are gone.
    pub(crate) fn removed_rule_counters(&self) -> RuleCounters {
        self.removed
    }

    /// What became of what each rule has taken.
    pub(crate) fn active(&self) -> &[RuleStats] {
        &self.active
    }

    /// The statistics of the rule by which a packet is in its link.
    #[inline]
    pub(crate) fn stats_mut(&mut self, at: Option<RulePosition>) -> Option<&mut SojournStats> {
        match at {
            Some(RulePosition::Of { rule, .. }) => {
                self.active.get_mut(rule as usize).map(|active| &mut active.stats)
            }
            _ => None,
        }
    }

    /// Does a packet ever pass a link behind another?
    pub(crate) fn chain(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.on || matches!(&rule.to, RuleAction::Links(links) if links.len() > 1))
    }

    /// Does a packet ever pass without a link?
    pub(crate) fn pass(&self) -> bool {
        self.rules.iter().any(RouteRule::passes)
    }

    /// May more come for a packet behind the link that it is at?
    pub(crate) fn goes_on(&self, at: RulePosition) -> bool {
        match at {
            RulePosition::Before(rule) => (rule as usize) < self.rules.len(),
            RulePosition::Of { rule, link } => {
                let rule = &self.rules[rule as usize];
                rule.on
                    || matches!(
                        &rule.to,
                        RuleAction::Links(links) if links.len() > link as usize + 1
                    )
            }
        }
    }

    /// What is next behind a link.
    pub(crate) fn behind(
        &mut self,
        at: RulePosition,
        key: &mut Key,
        way: usize,
        bytes: u32,
        now: Time,
    ) -> RuleOutcome {
        let (n, link) = match at {
            RulePosition::Before(rule) => return self.from(rule, key, way, bytes, now),
            RulePosition::Of { rule, link } => (rule, link + 1),
        };
        let rule = &self.rules[n as usize];
        if let RuleAction::Links(links) = &rule.to
            && let Some(next) = links.get(link as usize)
        {
            return RuleOutcome::Link(*next, RulePosition::Of { rule: n, link });
        }
        if rule.on { self.from(n + 1, key, way, bytes, now) } else { RuleOutcome::Nothing }
    }

    /// Goes on with what others have counted, of which each became this one of these, or went.
    pub(crate) fn migrate_from(&mut self, old: &RuleSet, become_others: &[Option<u32>]) {
        self.removed = old.removed;
        for (n, taken) in old.taken.iter().enumerate() {
            match become_others.get(n).copied().flatten() {
                Some(new) => {
                    self.taken[new as usize] = *taken;
                    self.asked[new as usize] = old.asked[n];
                    self.active[new as usize] = old.active[n];
                }
                None => self.removed.add(taken),
            }
        }
    }

    /// Where a packet is with these rules that was `at` with others. Where its rule is there still
    /// and leads to the link that it is in, it goes on there; where not, behind it, if it was
    /// to go on with the rules at all.
    pub(crate) fn instead_of(
        &self,
        old: &RuleSet,
        become_others: &[Option<u32>],
        at: RulePosition,
    ) -> Option<RulePosition> {
        let behind = |rule: u32| {
            let next = become_others.get(rule as usize..).into_iter().flatten().flatten().next();
            RulePosition::Before(next.map_or(self.rules.len() as u32, |next| *next))
        };
        match at {
            _ if !old.goes_on(at) => None,
            RulePosition::Before(rule) => Some(behind(rule)),
            RulePosition::Of { rule, link } => {
                let was = &old.rules[rule as usize];
                let is = become_others.get(rule as usize).copied().flatten();
                let same = |is: &&u32| match (&was.to, &self.rules[**is as usize].to) {
                    (RuleAction::Links(was), RuleAction::Links(is)) => {
                        was.get(link as usize) == is.get(link as usize)
                    }
                    (was, is) => was == is,
                };
                match is.as_ref().filter(same) {
                    Some(is) => Some(RulePosition::Of { rule: *is, link }),
                    None => was.on.then(|| {
                        is.map_or_else(|| behind(rule + 1), |is| RulePosition::Before(is + 1))
                    }),
                }
            }
        }
    }

    /// What is next by the rules from this one on; those that take it mark it.
    pub(crate) fn from(
        &mut self,
        mut from: u32,
        key: &mut Key,
        way: usize,
        bytes: u32,
        now: Time,
    ) -> RuleOutcome {
        // Taken by a rule that only counts: it passes, if no other takes it.
        let mut passes = false;
        while let Some(n) = self.lookup.find(key, way, from) {
            from = n + 1;
            let rule = &self.rules[n as usize];
            let found = match &rule.to {
                RuleAction::Table { table, by, targets } => {
                    let target = table
                        .find(*by, key)
                        .and_then(|entry| targets.get(entry as usize).copied().flatten());
                    if target.is_none() {
                        continue;
                    }
                    target
                }
                _ => None,
            };
            if let Some(probability) = rule.probability {
                let index = self.asked[n as usize][way];
                self.asked[n as usize][way] += 1;
                if !probability
                    .hits(Chance::new(self.seed, RULES | way as u64, n.into()).draw(index))
                {
                    continue;
                }
            }
            let taken = &mut self.taken[n as usize];
            taken.packets += 1;
            taken.bytes += u64::from(bytes);
            self.active[n as usize].last = Some(now);
            key.mark = rule.mark.unwrap_or(key.mark);
            let at = RulePosition::Of { rule: n, link: 0 };
            match (&rule.to, found) {
                (RuleAction::Links(links), _) => match links.first() {
                    Some(first) => return RuleOutcome::Link(*first, at),
                    None => passes = true,
                },
                (RuleAction::Table { .. }, Some(RuleTarget::Link(link))) => {
                    return RuleOutcome::Link(link, at);
                }
                (RuleAction::Drop, _) | (_, Some(RuleTarget::Drop)) => return RuleOutcome::Drop,
                (RuleAction::Pass, _) | (_, Some(RuleTarget::Pass)) if !rule.on => {
                    return RuleOutcome::Pass;
                }
                (RuleAction::SkipTo(to), _) => from = (*to).max(from),
                _ => passes = true,
            }
        }
        if passes { RuleOutcome::Pass } else { RuleOutcome::Nothing }
    }
}
