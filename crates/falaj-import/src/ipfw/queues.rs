//! Decides which packets of a pipe belong to which queue. In ipfw, a rule that matches a packet
//! names the queue. In a scenario, the `match` of a flow selects its packets.

use super::Firewall;
use super::rule::{Action, Rule};
use crate::first_match::{Sends, Takes, apart};
use falaj_scenario::Problem;
use falaj_scenario::units::Unreadable;

/// The queues of a pipe, in the order in which their flows are tried, each with its matches.
pub(super) type Sorted = Vec<(u64, Vec<String>)>;

/// The queues of a pipe for packets up and for packets down.
pub(super) fn sorted(all: &Firewall, pipe: u64) -> Result<[Sorted; 2], Problem> {
    if !divide(all, pipe) {
        return Ok([Sorted::new(), Sorted::new()]);
    }
    Ok([one_way(all, pipe, "up")?, one_way(all, pipe, "down")?])
}

/// Returns true if any rule sends to a queue of this pipe.
pub(super) fn divide(all: &Firewall, pipe: u64) -> bool {
    all.rules.iter().any(|rule| queue_of(all, rule, pipe).is_some())
}

/// The queue that a rule sends to, if it belongs to this pipe.
pub(super) fn queue_of(all: &Firewall, rule: &Rule, pipe: u64) -> Option<u64> {
    let Action::Queue(number) = rule.action else { return None };
    all.queues.iter().find(|q| q.number == number && q.of == Some(pipe)).map(|q| q.number)
}

/// A rule, with the packets that reach it and that it takes.
struct Asked<'a> {
    rule: &'a Rule,
    takes: Takes,
    /// True if the rule takes a random part of these packets, because of its own probability or the
    /// probability of a `skipto` before it.
    chance: bool,
}

fn one_way(all: &Firewall, pipe: u64, way: &str) -> Result<Sorted, Problem> {
    let asked = asked(all, way)?;
    let sends: Vec<(u64, &Asked<'_>)> =
        asked.iter().filter_map(|asked| Some((queue_of(all, asked.rule, pipe)?, asked))).collect();
    for (n, (queue, one)) in sends.iter().enumerate() {
        let other =
            sends[n + 1..].iter().find(|(of, other)| of != queue && one.takes.meets(&other.takes));
        let Some((of, other)) = other else { continue };
        if one.chance {
            let what = format!(
                "a random choice sends the same packets to queue {queue} and to queue {of} of one pipe"
            );
            return Err(Problem::error(one.rule.at.clone(), what).help(format!(
                "fields of the packets distinguish the flows of a link: give queue {queue} a \
                 pipe of its own, and send to that, `prob P pipe N …`"
            )));
        }
        if !all.one_pass {
            let what = format!(
                "these packets were in queue {queue} of the same pipe before, and one_pass is 0"
            );
            return Err(Problem::error(other.rule.at.clone(), what).help(format!(
                "fields of the packets distinguish the flows of a link: give queue {of} a pipe of its own"
            )));
        }
    }
    if let Some(problem) = marked_too_late(&asked, &sends) {
        return Err(problem);
    }
    let mut queues: Vec<u64> = Vec::new();
    for (queue, _) in &sends {
        if !queues.contains(queue) {
            queues.push(*queue);
        }
    }
    let place = |queue: u64| queues.iter().position(|q| *q == queue).unwrap_or(0);
    let rules: Vec<Sends> = sends
        .iter()
        .map(|(queue, asked)| Sends { flow: place(*queue), takes: asked.takes.clone() })
        .collect();
    let left = apart(&rules).map_err(|(n, why)| too_many(sends[n].1.rule, &why))?;
    let mut sorted: Sorted = queues.into_iter().map(|queue| (queue, Vec::new())).collect();
    for (rule, takes) in rules.iter().zip(left).filter(|(_, takes)| !takes.is_nothing()) {
        let own = &mut sorted[rule.flow].1;
        if !own.contains(&takes.text) {
            own.push(takes.text);
        }
    }
    sorted.retain(|(_, takes)| !takes.is_empty());
    Ok(sorted)
}

/// The error for a rule that matches a mark which a packet may get or lose before it reaches a
/// queue. In ipfw the rule tests the mark that the packet has at the rule. In a scenario, flows are
/// distinguished by the mark that the packet has when it enters the link.
fn marked_too_late(asked: &[Asked<'_>], sends: &[(u64, &Asked<'_>)]) -> Option<Problem> {
    let place = |rule: &Rule| asked.iter().position(|other| std::ptr::eq(other.rule, rule));
    for (n, early) in asked.iter().enumerate().filter(|(_, early)| early.matches_mark()) {
        let decides = |&&(queue, late): &&(u64, &Asked<'_>)| match early.rule.action {
            // Packets that this rule takes skip rules that send to queues, and the flows of these
            // queues must exclude these packets.
            Action::SkipTo(to) => {
                sends.iter().any(|(_, left)| place(left.rule) > Some(n) && left.rule.number < to)
            }
            Action::Queue(own) => {
                let is_of = sends.iter().any(|(_, sent)| std::ptr::eq(sent.rule, early.rule));
                is_of
                    && (std::ptr::eq(late.rule, early.rule)
                        || (queue != own && early.takes.meets(&late.takes)))
            }
            _ => false,
        };
        for (_, late) in
            sends.iter().filter(|(_, late)| place(late.rule) >= Some(n)).filter(decides)
        {
            // A rule that sends to a queue marks packets before they enter the queue.
            let from = if matches!(early.rule.action, Action::Queue(_)) { n } else { n + 1 };
            let marks = asked
                .iter()
                .enumerate()
                .skip(from)
                .take_while(|(at, _)| Some(*at) <= place(late.rule));
            let mut marks = marks.filter(|(_, other)| other.rule.mark.is_some());
            if let Some(mark) = marks.find_map(|(_, other)| other.rule.mark.as_ref()) {
                let what =
                    "this rule matches the mark that packets have before other rules mark them";
                return Some(Problem::error(early.rule.at.clone(), what).help(format!(
                    "flows of a link are distinguished by the mark that packets have when they \
                     enter \
                     it, here mark {}: put rules that mark before all rules that match marks, or \
                     give each queue a pipe of its own",
                    mark.number
                )));
            }
        }
    }
    None
}

impl Asked<'_> {
    fn matches_mark(&self) -> bool {
        self.rule.matches.split_whitespace().any(|word| word == "mark")
    }
}

/// The rules of one direction, each without the packets that skip it.
fn asked<'a>(all: &'a Firewall, way: &str) -> Result<Vec<Asked<'a>>, Problem> {
    let mut asked: Vec<Asked<'a>> = Vec::new();
    let never = |rule: &Rule| rule.probability.as_deref() == Some("0%");
    for rule in all.rules.iter().filter(|r| r.direction.is_none_or(|d| d == way) && !never(r)) {
        let takes = Takes::of(&rule.matches).map_err(|why| too_many(rule, &why))?;
        let mut chance = rule.probability.as_deref().is_some_and(|percent| percent != "100%");
        let mut gone = Vec::new();
        for skip in &asked {
            match skip.rule.action {
                Action::SkipTo(to) if rule.number < to && skip.takes.meets(&takes) => {
                    match skip.chance {
                        true => chance = true,
                        false => gone.push(&skip.takes),
                    }
                }
                _ => {}
            }
        }
        let takes = takes.less(gone).map_err(|why| too_many(rule, &why))?;
        asked.push(Asked { rule, takes, chance });
    }
    Ok(asked)
}

fn too_many(rule: &Rule, why: &Unreadable) -> Problem {
    let what = format!("it is unclear which packets go to which queue: {}", why.what);
    Problem::error(rule.at.clone(), what)
        .help("if the same packets may go to several queues, give each of these a pipe of its own")
}

/// The error for a rule that sends to a pipe directly, although the pipe has queues.
pub(super) fn beside(rule: &Rule, pipe: u64) -> Problem {
    let what = format!("pipe {pipe} has queues, and this rule sends to none of them");
    Problem::error(rule.at.clone(), what)
        .help("in ipfw the rule has a link of its own: configure another such pipe for its packets")
}
