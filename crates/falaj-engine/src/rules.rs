//! Rules that determine the links of a packet. They are tried in order; the first rule that matches
//! decides.

use crate::chance::Chance;
use crate::classifier::Match;
use crate::key::Key;
use crate::lookup::Lookup;
use crate::masks::SojournStats;
use crate::policer::{self, Policer, TokenBucket};
use crate::table::{Field, LookupTable};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::Time;
use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

/// A rule that determines the links of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRule {
    /// The conditions: the rule matches a packet if one of these matches it.
    pub matches: Vec<Match>,
    /// The direction of the packets, up (0) or down (1); `None`: both.
    pub way: Option<usize>,
    /// The probability with which the rule takes a matching packet; `None`: always.
    pub probability: Option<Probability>,
    /// The rule takes a matching packet only if it conforms to all of these; empty: always. Each
    /// direction has token buckets of its own.
    pub policers: Vec<Policer>,
    /// The change to the mark of the packets, for later rules, and for flows and masks of the links
    /// that they pass.
    pub mark: Option<MarkChange>,
    /// The action for the packets.
    pub to: RuleAction,
    /// True if packets continue with the next rule, instead of leaving.
    pub on: bool,
}

impl RouteRule {
    /// A rule that leads every packet through this link.
    pub fn all_to(link: u32) -> RouteRule {
        RouteRule {
            matches: vec![Match::ANY],
            way: None,
            probability: None,
            policers: Vec::new(),
            mark: None,
            to: RuleAction::Links(vec![link]),
            on: false,
        }
    }

    /// This rule with its link indices translated by `links`.
    ///
    /// # Panics
    /// A link's index is not in `links`.
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

    /// Returns true if the rule takes all packets that match it; with a table, all for which the
    /// table has a target.
    pub fn takes_all(&self) -> bool {
        self.probability.is_none() && self.policers.is_empty()
    }

    fn matches(&self, key: &Key, way: usize) -> bool {
        self.way.is_none_or(|only| only == way) && self.matches.iter().any(|m| m.takes(key))
    }

    /// The target in the rule's table, or `Some(None)` if it has no table. `None` if the table has
    /// no entry or no target for the packet: then the rule does not take it.
    fn target(&self, key: &Key) -> Option<Option<RuleTarget>> {
        let RuleAction::Table { table, by, targets } = &self.to else { return Some(None) };
        let entry = table.find(*by, key)?;
        targets.get(entry as usize).copied().flatten().map(Some)
    }

    /// Returns true if packets may pass a further link behind one of the rule's own links.
    pub fn leads_on(&self) -> bool {
        match &self.to {
            RuleAction::Links(links) => links.len() > 1 || self.on && !links.is_empty(),
            RuleAction::Table { .. } => self.on,
            RuleAction::Drop | RuleAction::Pass | RuleAction::SkipTo(_) => false,
        }
    }

    /// Returns true if a packet may pass no link by this rule.
    pub fn passes(&self) -> bool {
        match &self.to {
            RuleAction::Pass => !self.on,
            RuleAction::Table { targets, .. } => targets.contains(&Some(RuleTarget::Pass)),
            _ => false,
        }
    }
}

/// A change to some bits of a packet's mark, or to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkChange {
    /// The new value of the bits; the bits outside the mask are zero.
    pub value: u32,
    /// The bits that change.
    pub mask: u32,
}

impl MarkChange {
    /// The change of all bits to this mark.
    pub fn to(mark: u32) -> MarkChange {
        MarkChange { value: mark, mask: u32::MAX }
    }

    /// The mark after the change.
    pub fn apply(self, mark: u32) -> u32 {
        mark & !self.mask | self.value
    }
}

/// A link that packets pass by the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteStep {
    /// The link.
    pub link: u32,
    /// The packets' key at this link: rules may have marked them.
    pub key: Key,
    /// True if they pass no link before this one.
    pub first: bool,
    /// The largest share of the packets that may pass it, above 0; 1 unless a rule takes packets
    /// by chance. A policer may take any share.
    pub share: f64,
}

/// The route of packets with one key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Passage {
    /// The links that they pass. A packet passes them in this order, but perhaps not all of them.
    pub steps: Vec<RouteStep>,
    /// The largest share of the packets that a rule may drop.
    pub dropped: f64,
    /// True if a policer decides about some packets, by their rate.
    pub is_policed: bool,
}

impl Passage {
    /// The passage of packets with this key, up (0) or down (1).
    pub fn of(rules: &[RouteRule], key: &Key, way: usize) -> Passage {
        let mut made = Passage::default();
        // Rules only lead to later rules, so each rule is applied once for each state of the
        // packets that reach it: their mark, and whether they have passed a link.
        let mut waiting = BTreeMap::from([((0, key.mark, false), 1.0)]);
        while let Some(((n, mark, entered), share)) = waiting.pop_first() {
            let Some(rule) = rules.get(n) else { continue };
            let mut key = Key { mark, ..*key };
            let mut go = |to: usize, mark, entered, share: f64| {
                if share > 0.0 {
                    let all = waiting.entry((to, mark, entered)).or_insert(0.0);
                    *all = (*all + share).min(1.0);
                }
            };
            let Some(target) =
                Some(rule).filter(|r| r.matches(&key, way)).and_then(|r| r.target(&key))
            else {
                go(n + 1, mark, entered, share);
                continue;
            };
            let taken = share * rule.probability.map_or(1.0, Probability::as_f64);
            made.is_policed |= !rule.policers.is_empty();
            // A policer may leave all packets to the next rule.
            let left = if rule.policers.is_empty() { share - taken } else { share };
            go(n + 1, mark, entered, left);
            key.mark = rule.mark.map_or(mark, |change| change.apply(mark));
            let links: &[u32] = match (&rule.to, &target) {
                (RuleAction::SkipTo(to), _) => {
                    go((*to as usize).max(n + 1), key.mark, entered, taken);
                    continue;
                }
                (RuleAction::Drop, _) | (_, Some(RuleTarget::Drop)) => {
                    made.dropped += taken;
                    continue;
                }
                (RuleAction::Pass, _) | (_, Some(RuleTarget::Pass)) if !rule.on => continue,
                (RuleAction::Links(links), _) => links,
                (_, Some(RuleTarget::Link(link))) => slice::from_ref(link),
                _ => &[],
            };
            for (hop, &link) in links.iter().enumerate() {
                let first = !entered && hop == 0;
                made.steps.push(RouteStep { link, key, first, share: taken });
            }
            if rule.on || links.is_empty() {
                go(n + 1, key.mark, entered || !links.is_empty(), taken);
            }
        }
        made
    }

    /// The steps of each packet; `None` if a rule drops some or takes only some.
    pub fn sure(self) -> Option<Vec<RouteStep>> {
        let sure = self.dropped == 0.0
            && !self.is_policed
            && self.steps.iter().all(|step| step.share == 1.0);
        sure.then_some(self.steps)
    }
}

/// The action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAction {
    /// Packets pass these links, by index, one after the other.
    Links(Vec<u32>),
    /// Packets are dropped.
    Drop,
    /// Packets pass no link.
    Pass,
    /// A table decides, by the index of the entry for the packet; the rule does not take packets
    /// without an entry.
    Table {
        /// The table.
        table: Arc<LookupTable>,
        /// The field of the packet that is looked up.
        by: Field,
        /// By entry, the target; `None`: the rule does not take the packet.
        targets: Vec<Option<RuleTarget>>,
    },
    /// Packets continue with the rule of this index, which is a later one.
    SkipTo(u32),
}

/// The target of a table's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleTarget {
    /// This link, by its index.
    Link(u32),
    /// Packets are dropped.
    Drop,
    /// Packets pass no link.
    Pass,
}

/// Counters of the packets that a rule has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of these packets, as IP packets.
    pub bytes: u64,
}

impl RuleCounters {
    fn add(&mut self, other: &RuleCounters) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The position of a packet in the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RulePosition {
    /// At the link with this index in the list of this rule.
    Of { rule: u32, link: u32 },
    /// Its rule was removed, or leads to other links now; behind its present link the packet
    /// continues with this rule.
    Before(u32),
}

/// The next step of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleOutcome {
    /// It passes this link.
    Link(u32, RulePosition),
    /// It passes no link, and leaves.
    Pass,
    /// A rule drops it.
    Drop,
    /// No rule matches it.
    Nothing,
}

/// A bit that is set in the element of the rules' draws. It keeps these draws apart from those of
/// sources and links.
const RULES: u64 = 1 << 62;

/// Rules in operation, with their counters.
#[derive(Debug, Clone)]
pub(crate) struct RuleSet {
    rules: Vec<RouteRule>,
    lookup: Lookup,
    seed: u64,
    taken: Vec<RuleCounters>,
    /// By rule and direction, the packets that matched a rule with a probability, taken or not.
    asked: Vec<[u64; 2]>,
    /// By rule and direction, the buckets of the policers.
    buckets: Vec<[Box<[TokenBucket]>; 2]>,
    /// Counters of removed rules.
    removed: RuleCounters,
    active: Vec<RuleStats>,
}

/// Statistics of the packets of a rule in the links that it leads to.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleStats {
    /// Counters and sojourn times; a packet is counted in each link.
    pub stats: SojournStats,
    /// Time at which the rule last took a packet.
    pub last: Option<Time>,
}

impl RuleSet {
    pub(crate) fn new(rules: Vec<RouteRule>, seed: u64) -> RuleSet {
        let lookup = Lookup::new(rules.iter().map(|rule| (&rule.matches[..], rule.way)));
        let (taken, asked) =
            (vec![RuleCounters::default(); rules.len()], vec![[0; 2]; rules.len()]);
        let active = vec![RuleStats::default(); rules.len()];
        let buckets = rules.iter().map(|rule| {
            let full = || vec![TokenBucket::default(); rule.policers.len()].into_boxed_slice();
            [full(), full()]
        });
        let buckets = buckets.collect();
        let removed = RuleCounters::default();
        RuleSet { rules, lookup, seed, taken, asked, buckets, removed, active }
    }

    pub(crate) fn taken(&self) -> &[RuleCounters] {
        &self.taken
    }

    /// Counters of removed rules.
    pub(crate) fn removed_rule_counters(&self) -> RuleCounters {
        self.removed
    }

    /// Statistics of the packets that each rule has taken.
    pub(crate) fn active(&self) -> &[RuleStats] {
        &self.active
    }

    /// The statistics of the rule that led a packet at this position to its present link.
    #[inline]
    pub(crate) fn stats_mut(&mut self, at: Option<RulePosition>) -> Option<&mut SojournStats> {
        match at {
            Some(RulePosition::Of { rule, .. }) => {
                self.active.get_mut(rule as usize).map(|active| &mut active.stats)
            }
            _ => None,
        }
    }

    /// Returns true if a packet may pass a link behind another.
    pub(crate) fn chain(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.on || matches!(&rule.to, RuleAction::Links(links) if links.len() > 1))
    }

    /// Returns true if a packet may pass without a link.
    pub(crate) fn pass(&self) -> bool {
        self.rules.iter().any(RouteRule::passes)
    }

    /// Returns true if rules may have a further step for a packet behind its link.
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

    /// The next step of a packet behind a link.
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

    /// Takes over the counters of the old rules; `become_others` maps each old rule to its new
    /// index, or to `None` if the rule is removed.
    pub(crate) fn migrate_from(&mut self, old: &RuleSet, become_others: &[Option<u32>]) {
        self.removed = old.removed;
        for (n, taken) in old.taken.iter().enumerate() {
            match become_others.get(n).copied().flatten() {
                Some(new) => {
                    self.taken[new as usize] = *taken;
                    self.asked[new as usize] = old.asked[n];
                    for (is, was) in self.buckets[new as usize].iter_mut().zip(&old.buckets[n]) {
                        is.iter_mut().zip(was).for_each(|(is, was)| *is = *was);
                    }
                    self.active[new as usize] = old.active[n];
                }
                None => self.removed.add(taken),
            }
        }
    }

    /// Translates a position `at` in the old rules. If the packet's rule still exists and leads to
    /// its link, the packet continues there. Otherwise it continues after that rule, if it was to
    /// pass further rules at all.
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

    /// The next step by the rules from `from` on; rules that take the packet set its mark.
    pub(crate) fn from(
        &mut self,
        mut from: u32,
        key: &mut Key,
        way: usize,
        bytes: u32,
        now: Time,
    ) -> RuleOutcome {
        // True once a rule that leads to no link has taken the packet: it passes if no later rule
        // takes it.
        let mut passes = false;
        while let Some(n) = self.lookup.find(key, way, from) {
            from = n + 1;
            let rule = &self.rules[n as usize];
            let Some(found) = rule.target(key) else { continue };
            if let Some(probability) = rule.probability {
                let index = self.asked[n as usize][way];
                self.asked[n as usize][way] += 1;
                if !probability
                    .hits(Chance::new(self.seed, RULES | way as u64, n.into()).draw(index))
                {
                    continue;
                }
            }
            if !policer::conforms(&rule.policers, &mut self.buckets[n as usize][way], bytes, now) {
                continue;
            }
            let taken = &mut self.taken[n as usize];
            taken.packets += 1;
            taken.bytes += u64::from(bytes);
            self.active[n as usize].last = Some(now);
            key.mark = rule.mark.map_or(key.mark, |change| change.apply(key.mark));
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
