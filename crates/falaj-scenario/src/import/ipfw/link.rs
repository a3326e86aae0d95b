//! The links and rules that dummynet's objects amount to.

use super::super::args::no_equal;
use super::super::draft::{Draft, Table, inline, key, quote};
use super::Firewall;
use super::config::Configured;
use super::rule::{Action, Rule};
use crate::diagnostics::Problem;
use crate::units::quoted;

/// What a table is called.
pub(super) fn table_name(number: &str) -> String {
    if number.bytes().all(|b| b.is_ascii_digit()) { format!("table{number}") } else { number.to_owned() }
}

/// A link for each pipe, with a flow for each of its queues; then the tables and rules.
pub(super) fn links(all: &Firewall, draft: &mut Draft, problems: &mut Vec<Problem>) {
    // A scheduler of a number stands for the pipe of that number.
    let mut numbers: Vec<u64> = all.pipes.iter().chain(&all.scheds).map(|c| c.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for &number in &numbers {
        link(all, number, draft, problems);
    }
    if numbers.is_empty() {
        problems.push(Problem::error(0..0, "there is no `pipe N config` in it, and so no link"));
        return;
    }
    interfaces(all, problems);
    tables(all, draft, problems);
    for (n, rule) in all.rules.iter().enumerate() {
        match made(all, &numbers, rule, all.rules.get(n + 1..).unwrap_or(&[])) {
            Ok(table) => draft.tables.extend(table),
            Err(problem) => problems.push(problem),
        }
    }
    if all.rules.is_empty() {
        // As it is of no use without rules, all that passes goes through the first one.
        let what = "no `ipfw add` sends packets to these pipes: they pass the first one";
        problems.push(Problem::warning(0..0, what));
    }
}

/// The one that is named stands for the end of the links; a second one would be another.
fn interfaces(all: &Firewall, problems: &mut Vec<Problem>) {
    let mut named = all.rules.iter().filter_map(|r| r.interface.as_ref());
    let Some(first) = named.next() else { return };
    let what = format!("{} is the end of these links: rules need not name it", quoted(&first.text));
    problems.push(Problem::warning(first.at.clone(), what));
    if let Some(other) = named.find(|w| w.text != first.text) {
        problems.push(no_equal(
            other.at.clone(),
            "a second interface",
            "a link has two ends, of which `in` and `out` tell the direction",
        ));
    }
}

fn link(all: &Firewall, number: u64, draft: &mut Draft, problems: &mut Vec<Problem>) {
    let of = |list: &'_ [Configured]| list.iter().find(|c| c.number == number).cloned();
    let (pipe, sched) = (of(&all.pipes), of(&all.scheds));
    let Some(at) = pipe.as_ref().or(sched.as_ref()).map(|c| c.at.clone()) else { return };
    let header = format!("link.pipe{number}");
    let mut table = Table::new(format!("[{header}]"), at);
    table.comments.extend(pipe.iter().chain(&sched).map(|c| c.line.clone()));
    table.text("rate", "unlimited");
    for (name, value) in pipe.iter().chain(&sched).flat_map(|c| &c.link) {
        table.set(name, value.clone());
    }
    let each: Vec<String> = pipe.iter().chain(&sched).flat_map(|c| c.each.clone()).collect();
    if !each.is_empty() {
        table.text("each", each.join(" "));
    }
    let queues: Vec<&Configured> = all.queues.iter().filter(|q| q.of == Some(number)).collect();
    // Their slots are 50 unless it is said otherwise.
    let limit = pipe.as_ref().and_then(|p| p.queue.clone()).unwrap_or_else(|| "50p".to_owned());
    if queues.is_empty() {
        let policy = pipe.iter().chain(&sched).flat_map(|c| c.policy.clone()).collect::<Vec<_>>();
        if policy.is_empty() {
            table.set("scheduler", inline(&[("kind", quote("fifo")), ("queue", quote(&limit))]));
            draft.tables.push(table);
            return;
        }
        let mut flow = Table::new(format!("[{header}.flow.all]"), table.at.clone());
        flow.text("match", "any");
        flow.set("queue", queue_of(&limit, &policy));
        draft.tables.extend([table, flow]);
        return;
    }
    let kind = sched.as_ref().and_then(|s| s.scheduler).unwrap_or("wf2q+");
    let own = sched.iter().flat_map(|s| s.own.clone());
    let keys: Vec<(&str, String)> = [("kind", quote(kind))].into_iter().chain(own).collect();
    table.set("scheduler", inline(&keys));
    draft.tables.push(table);
    let first = |q: &&Configured| all.rules.iter().position(|r| r.action == Action::Queue(q.number));
    let mut ordered = queues.clone();
    ordered.sort_by_key(|q| first(q).unwrap_or(usize::MAX));
    for queue in ordered {
        let rules: Vec<String> =
            all.rules.iter().filter(|r| r.action == Action::Queue(queue.number)).map(|r| quote(&r.matches)).collect();
        if rules.is_empty() {
            problems.push(Problem::warning(queue.at.clone(), "no rule sends to this queue: it is left out"));
            continue;
        }
        let mut flow = Table::new(format!("[{header}.flow.queue{}]", queue.number), queue.at.clone());
        flow.comments.push(queue.line.clone());
        flow.set("match", if rules.len() == 1 { rules.concat() } else { format!("[{}]", rules.join(", ")) });
        if kind != "fq_codel" {
            flow.set("queue", queue_of(queue.queue.as_deref().unwrap_or("50p"), &queue.policy));
        }
        let weight = queue.weight.unwrap_or(1);
        match kind {
            "fifo" | "fq_codel" => {}
            "priority" => flow.set("priority", weight.to_string()),
            // A visit's quantum is so many steps of 1500 bytes there.
            "drr" => flow.text("quantum", format!("{}B", weight * 1514)),
            _ => flow.set("weight", weight.to_string()),
        }
        if !queue.each.is_empty() {
            flow.text("each", queue.each.join(" "));
        }
        draft.tables.push(flow);
    }
}

/// A pipe with the one queue that it has by itself.
pub(super) fn alone(pipe: &Configured, header: &str) -> Vec<Table> {
    let mut table = Table::new(format!("[{header}]"), pipe.at.clone());
    for (name, value) in &pipe.link {
        table.set(name, value.clone());
    }
    if !pipe.each.is_empty() {
        table.text("each", pipe.each.join(" "));
    }
    let limit = pipe.queue.as_deref().unwrap_or("50p");
    if pipe.policy.is_empty() {
        table.set("scheduler", inline(&[("kind", quote("fifo")), ("queue", quote(limit))]));
        return vec![table];
    }
    let mut flow = Table::new(format!("[{header}.flow.all]"), table.at.clone());
    flow.text("match", "any");
    flow.set("queue", queue_of(limit, &pipe.policy));
    vec![table, flow]
}

/// A limit, and what the queue does before it is reached.
fn queue_of(limit: &str, policy: &[(&'static str, String)]) -> String {
    if policy.is_empty() {
        return quote(limit);
    }
    let keys: Vec<(&str, String)> = [("limit", quote(limit))].into_iter().chain(policy.iter().cloned()).collect();
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
        let names_pipes = all
            .rules
            .iter()
            .any(|r| r.action == Action::PipeOfTable && r.table.as_ref().is_some_and(|(t, _)| t == name));
        for entry in entries() {
            let value = match (&entry.value, names_pipes) {
                (Some(number), true) if all.pipes.iter().any(|p| p.number.to_string() == *number) => {
                    format!("pipe{number}")
                }
                (Some(number), true) => {
                    problems.push(Problem::error(entry.at.clone(), format!("there is no pipe {number}")));
                    continue;
                }
                (value, _) => value.clone().unwrap_or_default(),
            };
            table.set(&quote(&entry.address), quote(&value));
        }
        draft.tables.push(table);
    }
}

/// The rule of a scenario; a rule that only counts stays a rule that goes on.
fn made(all: &Firewall, links: &[u64], rule: &Rule, behind: &[Rule]) -> Result<Option<Table>, Problem> {
    let mut table = Table::new("[[rule]]", rule.at.clone());
    table.comments.push(rule.line.clone());
    table.text("name", rule.number);
    table.text("match", &rule.matches);
    if let Some(direction) = rule.direction {
        table.text("direction", direction);
    }
    if let Some(probability) = &rule.probability {
        table.text("probability", probability);
    }
    let link = |number: u64, what: &str| {
        links
            .contains(&number)
            .then(|| format!("pipe{number}"))
            .ok_or_else(|| Problem::error(rule.at.clone(), format!("there is no {what} {number}")))
    };
    match &rule.action {
        Action::Pipe(number) => table.text("to", link(*number, "pipe")?),
        Action::Queue(number) => {
            let queue = all.queues.iter().find(|q| q.number == *number);
            let of = queue
                .and_then(|q| q.of)
                .ok_or_else(|| Problem::error(rule.at.clone(), format!("there is no queue {number}")))?;
            table.text("to", link(of, "pipe")?);
        }
        Action::PipeOfTable => {
            if let Some((name, by)) = &rule.table {
                table.set("to", inline(&[("table", quote(&table_name(name))), ("by", quote(by))]));
            }
        }
        Action::Allow => table.text("to", "pass"),
        Action::Deny => table.text("to", "drop"),
        // What is counted goes on with the next rule; where none is left, it passes.
        Action::Count => match behind.first() {
            Some(next) => table.set("to", inline(&[("skip-to", quote(&next.number.to_string()))])),
            None => return Ok(None),
        },
        Action::SkipTo(number) => {
            let next = behind.iter().find(|r| r.number >= *number);
            let next = next.ok_or_else(|| Problem::error(rule.at.clone(), "it skips beyond the last rule"))?;
            table.set("to", inline(&[("skip-to", quote(&next.number.to_string()))]));
        }
    }
    if !all.one_pass && matches!(rule.action, Action::Pipe(_) | Action::Queue(_) | Action::PipeOfTable) {
        table.text("then", "on");
    }
    Ok(Some(table))
}
