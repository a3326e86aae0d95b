//! Makes links and rules from dummynet's objects.

use super::config::Configured;
use super::queues::{self, Sorted};
use super::rule::{Action, Rule, table_name};
use super::{Firewall, LastRule};
use crate::draft::{Draft, Table, inline, key, quote};
use falaj_scenario::Problem;
use std::ops::Range;

/// Makes a link for each pipe, with a flow for each of its queues; then the tables and rules.
pub(super) fn links(all: &Firewall, problems: &mut Vec<Problem>) -> Draft {
    let mut draft = Draft::default();
    // A scheduler belongs to the pipe of the same number.
    let mut numbers: Vec<u64> = all.pipes.iter().chain(&all.scheds).map(|c| c.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for &number in &numbers {
        link(all, number, &mut draft, problems);
    }
    if numbers.is_empty() {
        return draft;
    }
    tables(all, &mut draft, problems);
    let names = names(&all.rules);
    let of_frame = |word: &str| word == "ether" || word.starts_with("mac-");
    let sees_frames =
        all.rules.iter().any(|rule| rule.frames || rule.matches.split_whitespace().any(of_frame));
    if !all.rules.is_empty() && !sees_frames {
        draft.tables.push(beside_ip());
    }
    for n in 0..all.rules.len() {
        match made(all, &numbers, n, &names) {
            Ok(table) => draft.tables.push(table),
            Err(problem) => problems.push(problem),
        }
    }
    problems.extend(several_tags(&all.rules));
    draft.tables.extend(last_rule(all, problems));
    if all.rules.is_empty() {
        // Links are of no use without rules, so all packets go through the first one.
        let what =
            "no `ipfw add` and no rule of pf sends packets to these pipes: all pass the first one";
        problems.push(Problem::warning(0..0, what).help("put the rules into the same file"));
    }
    draft
}

/// The error for a script without a pipe: there is no link that packets could pass.
pub(super) fn no_pipe(all: &Firewall) -> Problem {
    let what = "there is no `pipe N config`, and so no link";
    let loses = all.rules.iter().find(|r| r.action == Action::Deny && r.probability.is_some());
    match loses.and_then(|rule| Some((rule, rule.probability.as_ref()?))) {
        Some((rule, percent)) => Problem::error(rule.at.clone(), what).help(format!(
            "let a pipe lose them: `ipfw pipe 1 config plr P` and `ipfw add pipe 1 …` in place of \
             `prob P deny`; in a scenario that is `loss = \"{percent}\"` of a link"
        )),
        None => Problem::error(0..0, what)
            .help("add one, as in `ipfw pipe 1 config bw 1Mbit/s delay 10`"),
    }
}

/// The warning for rules that set different tags: in ipfw, a packet collects them.
fn several_tags(rules: &[Rule]) -> Option<Problem> {
    let mut marks = rules.iter().filter_map(|rule| rule.mark.as_ref());
    let first = marks.next()?;
    let other = marks.find(|mark| mark.number != first.number && (mark.tag || first.tag))?;
    let what = "a packet that gets several tags has all of them in ipfw; here it has one mark, \
                the one that it got last";
    Some(Problem::warning(other.at.clone(), what))
}

/// Names of the rules. Several rules may share a number in ipfw; in the scenario each rule has a
/// name of its own.
fn names(rules: &[Rule]) -> Vec<String> {
    let name = |(n, rule): (usize, &Rule)| match rules[..n]
        .iter()
        .filter(|r| r.number == rule.number)
        .count()
    {
        0 => rule.number.to_string(),
        more => format!("{}-{}", rule.number, more + 1),
    };
    rules.iter().enumerate().map(name).collect()
}

/// The rule that lets other frames than IP pass: rules of ipfw and pf see only IP packets.
fn beside_ip() -> Table {
    let mut rule = Table::new("[[rule]]", 0..0);
    rule.comments.push("frames other than IP, such as ARP, meet no rule".to_owned());
    rule.text("name", "no-ip");
    rule.text("match", "not ( ip or ip6 )");
    rule.text("to", "pass");
    rule
}

/// The name of the rule after all others.
const LAST: &str = "last";

/// The default rule at the end, unless other rules take all packets before it.
fn last_rule(all: &Firewall, problems: &mut Vec<Problem>) -> Option<Table> {
    let ends = |rule: &Rule| match rule.action {
        Action::Allow | Action::Deny => true,
        Action::Pipe(_) | Action::Queue(_) => all.one_pass,
        _ => false,
    };
    let takes_all = |rule: &Rule| rule.matches == "any" && rule.probability.is_none();
    let is_whole = |way: &str| {
        let of = |rule: &&Rule| rule.direction.is_none_or(|d| d == way);
        all.rules.iter().filter(of).any(|rule| ends(rule) && takes_all(rule))
    };
    let skips = |rule: &Rule| match rule.action {
        Action::SkipTo(number) => all.rules.iter().all(|other| other.number < number),
        _ => false,
    };
    let is_skipped_to = all.rules.iter().any(skips);
    if all.rules.is_empty() || (is_whole("up") && is_whole("down") && !is_skipped_to) {
        return None;
    }
    let (to, words) = match all.last {
        LastRule::Accept => ("pass", "pass, as on macOS, OPNsense and pfSense"),
        LastRule::Deny => ("drop", "are dropped, as by FreeBSD's kernel"),
    };
    if !all.last_is_said {
        let what = format!("packets that match no rule {words}");
        problems.push(
            Problem::warning(all.rules[all.rules.len() - 1].at.clone(), what)
                .help("`--default deny` drops them, as FreeBSD's kernel does by default"),
        );
    }
    let mut rule = Table::new("[[rule]]", 0..0);
    rule.comments.push("the last rule, built into the platform".to_owned());
    rule.text("name", LAST);
    rule.text("match", "any");
    rule.text("to", to);
    Some(rule)
}

fn link(all: &Firewall, number: u64, draft: &mut Draft, problems: &mut Vec<Problem>) {
    let of = |list: &'_ [Configured]| list.iter().find(|c| c.number == number).cloned();
    let (pipe, sched) = (of(&all.pipes), of(&all.scheds));
    let Some(at) = pipe.as_ref().or(sched.as_ref()).map(|c| c.at.clone()) else { return };
    let header = format!("link.pipe{number}");
    let mut table = Table::new(format!("[{header}]"), at);
    table.comments.extend(pipe.iter().chain(&sched).map(|c| c.line.clone()));
    // A profile may have a bandwidth, which holds if the pipe itself has none.
    let says =
        |name: &str| pipe.iter().chain(&sched).flat_map(|c| &c.link).any(|(said, _)| *said == name);
    if !says("profile") {
        table.text("rate", "unlimited");
    }
    let of_pipe = |rule: &&Rule| {
        rule.action == Action::Pipe(number) || queues::queue_of(all, rule, number).is_some()
    };
    table.text("layer", counted(all.rules.iter().filter(of_pipe)));
    for (name, value) in pipe.iter().chain(&sched).flat_map(|c| &c.link) {
        table.set(name, value.clone());
    }
    let each: Vec<String> = pipe.iter().chain(&sched).flat_map(|c| c.each.clone()).collect();
    if !each.is_empty() {
        table.text("mask", each.join(" "));
    }
    let lossy = table.get("loss").is_some() && table.get("rate") != Some("\"unlimited\"");
    if let Some(pipe) = pipe.as_ref().filter(|_| lossy) {
        let what = "dummynet loses packets before the queue, falaj after the rate: a lost packet has used the link";
        problems.push(Problem::warning(pipe.at.clone(), what));
    }
    let sorted = match queues::sorted(all, number) {
        Ok(sorted) => sorted,
        Err(problem) => return problems.push(problem),
    };
    for queue in all.queues.iter().filter(|q| q.of == Some(number)) {
        let sent = all.rules.iter().any(|r| r.action == Action::Queue(queue.number));
        if !sent {
            problems.push(Problem::warning(
                queue.at.clone(),
                "no rule sends packets to this queue: it was left out",
            ));
        } else if sorted.iter().flatten().all(|(number, _)| *number != queue.number) {
            let what = "earlier rules take all packets of this queue: it was left out";
            problems.push(Problem::warning(queue.at.clone(), what));
        }
    }
    if sorted.iter().all(Vec::is_empty) {
        let policy = pipe.iter().chain(&sched).flat_map(|c| c.policy.clone()).collect::<Vec<_>>();
        draft.tables.extend(one_queue(
            table,
            &header,
            pipe.as_ref().and_then(|p| p.queue.as_deref()),
            &policy,
        ));
        return;
    }
    if table.get("rate") == Some("\"unlimited\"") {
        let what = "no packet waits in a pipe without a bandwidth: its queues were left out";
        problems.push(Problem::warning(table.at.clone(), what).help("`bw` sets the bandwidth"));
        draft.tables.push(table);
        return;
    }
    let typed = sched.iter().chain(&pipe).find(|c| c.scheduler.is_some());
    let kind = typed.and_then(|c| c.scheduler).unwrap_or("wf2q+");
    let own = typed.iter().flat_map(|c| c.own.clone());
    if manages_queues(kind)
        && let Some(of) = pipe.iter().chain(&sched).find(|c| !c.policy.is_empty())
    {
        let what = format!("`{kind}` keeps its own queues short: the AQM of the pipe was left out");
        problems.push(Problem::warning(of.at.clone(), what));
    }
    let keys: Vec<(&str, String)> = [("kind", quote(kind))].into_iter().chain(own).collect();
    table.set("scheduler", inline(&keys));
    draft.tables.push(table);
    let [up, down] = &sorted;
    // If one direction has no queues, or both directions have the same queues, the flows are the
    // link's.
    let of_link = up.is_empty() || down.is_empty() || up == down;
    let parts: Vec<(&Sorted, &str)> = match of_link {
        true => vec![(if up.is_empty() { down } else { up }, "")],
        false => vec![(up, ".up"), (down, ".down")],
    };
    for (sorted, part) in parts {
        for (number, takes) in sorted {
            let Some(queue) = all.queues.iter().find(|q| q.number == *number) else { continue };
            draft.tables.push(flow(queue, takes, kind, &format!("{header}{part}")));
        }
    }
}

/// Returns true if the scheduler has a queue for each connection, which it keeps short itself.
fn manages_queues(kind: &str) -> bool {
    matches!(kind, "fq_codel" | "fq_pie")
}

/// The layer at which bytes count. dummynet counts IP packets; for rules that see frames it counts
/// the frames' headers too.
fn counted<'a>(mut rules: impl Iterator<Item = &'a Rule>) -> &'static str {
    let frames = rules.next().is_some_and(|first| first.frames) && rules.all(|rule| rule.frames);
    if frames { "l2" } else { "ip" }
}

/// A queue of dummynet as a flow.
fn flow(queue: &Configured, takes: &[String], kind: &str, header: &str) -> Table {
    let mut flow = Table::new(format!("[{header}.flow.queue{}]", queue.number), queue.at.clone());
    flow.comments.push(queue.line.clone());
    let rules: Vec<String> = takes.iter().map(|rule| quote(rule)).collect();
    flow.set(
        "match",
        if rules.len() == 1 { rules.concat() } else { format!("[{}]", rules.join(", ")) },
    );
    if !manages_queues(kind) {
        flow.set("queue", queue_of(queue.queue.as_deref().unwrap_or("50p"), &queue.policy));
    }
    let weight = queue.weight.unwrap_or(1);
    match kind {
        "fifo" | "fq_codel" | "fq_pie" => {}
        "priority" => flow.set("priority", weight.to_string()),
        // In dummynet the quantum is a multiple of 1500 bytes.
        "drr" => flow.text("quantum", format!("{}B", weight * 1500)),
        _ => flow.set("weight", weight.to_string()),
    }
    if !queue.each.is_empty() {
        flow.text("mask", queue.each.join(" "));
    }
    flow
}

/// Adds the single queue of a pipe that has no `queue` objects.
fn one_queue(
    mut table: Table,
    header: &str,
    limit: Option<&str>,
    policy: &[(&'static str, String)],
) -> Vec<Table> {
    // dummynet's default limit is 50 slots.
    let limit = limit.unwrap_or("50p");
    if policy.is_empty() {
        table.set("scheduler", inline(&[("kind", quote("fifo")), ("queue", quote(limit))]));
        return vec![table];
    }
    let mut flow = Table::new(format!("[{header}.flow.all]"), table.at.clone());
    flow.text("match", "any");
    flow.set("queue", queue_of(limit, policy));
    vec![table, flow]
}

/// A pipe that has no `queue` objects, with its single queue.
pub(super) fn alone(pipe: &Configured, header: &str) -> Vec<Table> {
    let mut table = Table::new(format!("[{header}]"), pipe.at.clone());
    for (name, value) in &pipe.link {
        table.set(name, value.clone());
    }
    if !pipe.each.is_empty() {
        table.text("mask", pipe.each.join(" "));
    }
    one_queue(table, header, pipe.queue.as_deref(), &pipe.policy)
}

/// The value of a `queue` key: the limit, with the AQM if there is one.
fn queue_of(limit: &str, policy: &[(&'static str, String)]) -> String {
    if policy.is_empty() {
        return quote(limit);
    }
    let keys: Vec<(&str, String)> =
        [("limit", quote(limit))].into_iter().chain(policy.iter().cloned()).collect();
    inline(&keys)
}

fn tables(all: &Firewall, draft: &mut Draft, problems: &mut Vec<Problem>) {
    let mut names: Vec<&str> = Vec::new();
    for entry in &all.tables {
        if !names.contains(&entry.table.as_str()) {
            names.push(&entry.table);
        }
    }
    for name in names {
        let entries = || all.tables.iter().filter(|e| e.table == name);
        let at = entries().next().map_or(0..0, |e| e.at.clone());
        let mut table = Table::new(format!("[table.{}]", key(&table_name(name))), at);
        let names_pipes = all.rules.iter().any(|r| {
            r.action == Action::PipeOfTable && r.table.as_ref().is_some_and(|(t, _)| t == name)
        });
        for entry in entries() {
            let value = match (&entry.value, names_pipes) {
                (Some(number), true)
                    if all.pipes.iter().any(|p| p.number.to_string() == *number) =>
                {
                    format!("pipe{number}")
                }
                (Some(number), true) => {
                    problems.push(missing("pipe", number, &entry.at));
                    continue;
                }
                (value, _) => value.clone().unwrap_or_default(),
            };
            table.set(&quote(&entry.address), quote(&value));
        }
        draft.tables.push(table);
    }
}

/// The error for a rule or an entry that names a pipe or queue which no command configures.
fn missing(kind: &str, number: &str, at: &Range<usize>) -> Problem {
    Problem::error(at.clone(), format!("there is no {kind} {number}"))
        .help(format!("add `{kind} {number} config …`"))
}

/// The scenario's rule for rule `n`. A counting rule becomes a rule that continues with the next
/// one.
fn made(all: &Firewall, links: &[u64], n: usize, names: &[String]) -> Result<Table, Problem> {
    let rule = &all.rules[n];
    let mut table = Table::new("[[rule]]", rule.at.clone());
    table.comments.push(rule.line.clone());
    table.text("name", &names[n]);
    table.text("match", &rule.matches);
    if let Some(direction) = rule.direction {
        table.text("direction", direction);
    }
    if let Some(probability) = &rule.probability {
        table.text("probability", probability);
    }
    if let Some(mark) = &rule.mark {
        table.set("mark", mark.number.clone());
    }
    let link = |number: u64, what: &str| {
        links
            .contains(&number)
            .then(|| format!("pipe{number}"))
            .ok_or_else(|| missing(what, &number.to_string(), &rule.at))
    };
    match &rule.action {
        Action::Pipe(number) if queues::divide(all, *number) => {
            return Err(queues::beside(rule, *number));
        }
        Action::Pipe(number) => table.text("to", link(*number, "pipe")?),
        Action::Queue(number) => {
            let queue = all.queues.iter().find(|q| q.number == *number);
            let of = queue
                .and_then(|q| q.of)
                .ok_or_else(|| missing("queue", &number.to_string(), &rule.at))?;
            table.text("to", link(of, "pipe")?);
        }
        Action::PipeOfTable => {
            if let Some((name, by)) = &rule.table {
                let named = all
                    .tables
                    .iter()
                    .filter(|e| e.table == *name)
                    .filter_map(|e| e.value.as_ref()?.parse().ok());
                if let Some(number) = named.into_iter().find(|number| queues::divide(all, *number))
                {
                    return Err(queues::beside(rule, number));
                }
                table.set("to", inline(&[("table", quote(&table_name(name))), ("by", quote(by))]));
            }
        }
        Action::Allow => table.text("to", "pass"),
        Action::Deny => table.text("to", "drop"),
        // A counted packet continues with the next rule; the last rule does more than count.
        Action::Count => {
            let next = names.get(n + 1).map_or(LAST, String::as_str);
            table.set("to", inline(&[("skip-to", quote(next))]));
        }
        Action::SkipTo(number) => {
            let next = (n + 1..all.rules.len()).find(|next| all.rules[*next].number >= *number);
            let name = next.map_or(LAST, |next| &names[next]);
            table.set("to", inline(&[("skip-to", quote(name))]));
        }
    }
    if !all.one_pass
        && matches!(rule.action, Action::Pipe(_) | Action::Queue(_) | Action::PipeOfTable)
    {
        table.text("then", "on");
    }
    Ok(table)
}
