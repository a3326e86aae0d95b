//! Prints a plan as text.

use super::method::Method;
use super::stations;
use falaj_plan::Way;
use falaj_plan::bounds::{Envelope, Outlook, sources_named};
use falaj_plan::expected::Expected;
use falaj_plan::network::Routes;
use falaj_scenario::Direction;
use falaj_sched::contract::guarantee::Deadlines;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_terminal::{impairments, text};
use falaj_theory::{Exact, float};

pub(super) fn print(way: &Way<'_>, before: Option<&Way<'_>>) {
    let direction = way.direction;
    say!(
        "link {} {}: {} of {}, delay {}, packets to {} B; {}",
        way.link,
        way.name(),
        text::link_rate(direction.pipe.setup.rate),
        direction.layer.name(),
        direction.pipe.delay,
        direction.pipe.setup.largest,
        direction.scheduler().kind
    );
    if let Some(before) = before {
        compared(way, before);
    }
    let mut notes = Notes::default();
    let mut rows: Vec<_> = way
        .flows
        .iter()
        .map(|flow| {
            let offered = match (flow.offered, flow.connections) {
                (0, false) => text::DASH.into(),
                (0, true) => "TCP".into(),
                (offered, false) => text::rate(offered as f64),
                (offered, true) => format!("{} and TCP", text::rate(offered as f64)),
            };
            let (delay, by) = flow.guaranteed().map_or((text::DASH.into(), String::new()), |d| {
                (text::nanos(d.delay.0 as f64), notes.cell(&d.formula))
            });
            let rate = match &flow.guarantee {
                Ok(p) => [rate_of(flow), notes.cell(p.rate_formula)],
                Err(NoGuarantee(why)) => [text::DASH.into(), notes.cell(why)],
            };
            let name = if flow.many.is_some() {
                format!("{}, each", flow.name)
            } else {
                flow.name.clone()
            };
            [&[name, offered], &rate[..], &[delay, by]].concat()
        })
        .collect();
    let mut header = vec!["flow", "offered", "rate, backlogged >=", "by", "delay <=", "by"];
    if way.expected.iter().any(Result::is_ok) {
        header.push("expected");
        for (row, expected) in rows.iter_mut().zip(&way.expected) {
            row.push(mean_of(expected));
        }
    }
    say!("{}", text::table(&header, rows));
    notes.print();
    say!("  delay <= holds for packets that find room in the queue");
    let dropping = policies(direction);
    if !dropping.is_empty() {
        say!("  and that its policy does not drop: {}", dropping.join(", "));
    }
    for line in impairments::guarantees(direction) {
        say!("  {line}");
    }
    let sent = way.flows.iter().any(|flow| flow.offered > 0 || flow.connections);
    for (flow, expected) in way.flows.iter().zip(&way.expected) {
        say!("\n  {}", flow.name);
        let expected = sent.then(|| ("expected", of_expected(expected)));
        for (what, text) in details(flow).into_iter().chain(expected) {
            say!("    {what:<10} {text}");
        }
    }
    say!("");
    stations::print(direction);
    if !direction.pipe.setup.rate.is_unlimited() && direction.pipe.masks.link.is_none() {
        let total: u64 = way.flows.iter().map(|f| f.offered).sum();
        say!(
            "  utilisation: {} offered of {}{}",
            text::percent(total, direction.pipe.setup.rate.0),
            text::link_rate(direction.pipe.setup.rate),
            if way.flows.iter().any(|f| f.connections) { ", and TCP uses the rest" } else { "" }
        );
    }
    for flow in &way.flows {
        if flow.many.is_none()
            && flow.guarantee.as_ref().is_ok_and(|p| p.rate.0 > 0 && flow.offered > p.rate.0)
        {
            say!("  {}: offers more than it is guaranteed; the excess may be lost", flow.name);
        }
        let slowest = flow
            .envelope
            .as_ref()
            .ok()
            .filter(|e| e.is_declared())
            .and_then(|e| e.buckets.iter().min());
        if let Some((rate, _)) = slowest
            .filter(|(rate, _)| flow.offered > rate.0 && !flow.together && flow.many.is_none())
        {
            say!("  {}: its traffic exceeds the rate of its envelope, {rate}", flow.name);
        }
    }
    refusals(way).for_each(|refusal| say!("  {refusal}"));
    say!("");
}

/// Returns a message for each requirement that is not met.
pub(super) fn refusals<'a>(way: &'a Way<'_>) -> impl Iterator<Item = String> + 'a {
    way.unmet.iter().map(|u| format!("REFUSED {}: {}; {}", way.flows[u.flow].name, u.what, u.help))
}

/// Prints the end-to-end delay bounds, if packets pass several links: those of all methods, or of
/// the method `only`.
pub(super) fn end_to_end(routes: &Result<Routes, String>, only: Option<Method>) {
    let routes = match routes {
        Ok(routes) if routes.is_network() => routes,
        Ok(_) => return,
        Err(why) => {
            say!("from end to end: no bound is known, because {why}");
            return;
        }
    };
    let mut notes = Notes::default();
    let methods = Method::shown(only);
    let rows: Vec<_> = routes
        .outlooks(only.map(Method::of_theory))
        .into_iter()
        .map(|outlook| {
            let ns = |of: &Option<Exact>| {
                of.as_ref().map_or(text::DASH.into(), |ns| text::nanos(float(ns)))
            };
            let (delay, by) = match (outlook.delay, &outlook.none) {
                (Some(delay), _) => (text::span(Some(delay)), outlook.method().to_owned()),
                (None, why) => {
                    (text::DASH.into(), why.as_ref().map_or(String::new(), |why| notes.cell(why)))
                }
            };
            let mut row = vec![outlook.route.traffic.clone(), outlook.route.links.join(", ")];
            row.extend(methods.iter().map(|m| ns(outlook.bounds.by(m.of_theory()))));
            row.extend([text::span(Some(outlook.route.propagation)), delay, by]);
            row
        })
        .collect();
    let columns: Vec<String> = methods.iter().map(|method| method.heading("queues")).collect();
    let mut header = vec!["from end to end", "links"];
    header.extend(columns.iter().map(String::as_str));
    header.extend(["propagation", "delay <=", "by"]);
    say!("{}", text::table(&header, rows));
    notes.print();
    say!(
        "  delay <= is from last bit in at the first link to last bit at the far end, if sources send no more than in this scenario"
    );
}

/// Texts too long for a column; they are printed below the table, numbered.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    /// Widest text in a column, in characters: the length of well-known formulas. Two such columns
    /// and four numbers fit on a wide screen.
    const WIDEST: usize = 56;

    /// Returns `text`, or a reference to the note that holds it.
    fn cell(&mut self, text: &str) -> String {
        if text.chars().count() <= Self::WIDEST {
            return text.to_owned();
        }
        let known = self.0.iter().position(|note| note == text);
        let number = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        format!("note {}", number + 1)
    }

    fn print(&self) {
        for (n, note) in self.0.iter().enumerate() {
            say!("  note {}: {note}", n + 1);
        }
    }
}

pub(super) fn rate_of(flow: &Outlook) -> String {
    match &flow.guarantee {
        Ok(p) if p.rate.0 > 0 => text::link_rate(p.rate),
        _ => text::DASH.into(),
    }
}

/// Returns the expected mean delay, as text for a column.
fn mean_of(expected: &Result<Expected, String>) -> String {
    match expected {
        Ok(e) if e.together.is_empty() => text::nanos(e.mean),
        Ok(e) => format!("{}, all of {}", text::nanos(e.mean), e.together.len()),
        Err(_) => text::DASH.into(),
    }
}

/// Returns the expected delay and loss as text, or the reason why they are not known.
fn of_expected(expected: &Result<Expected, String>) -> String {
    let e = match expected {
        Ok(expected) => expected,
        Err(why) => return format!("not known: {why}"),
    };
    let quantiles = e.quantiles.map_or(String::new(), |[p50, p99]| {
        format!(", p50 {}, p99 {}", text::nanos(p50), text::nanos(p99))
    });
    let loss = e.loss.map_or(String::new(), |loss| format!(", {:.3} % lost", loss * 100.0));
    let whose = match e.together.is_empty() {
        true => String::new(),
        false => format!(", over all bytes of {}", e.flows()),
    };
    let mean = text::nanos(e.mean);
    format!("mean {mean}{quantiles}{loss}{whose}  {}: its sources are Poisson", e.formula)
}

fn delay_of(flow: &Outlook) -> String {
    flow.best().map_or(text::DASH.into(), |d| text::nanos(d.delay.0 as f64))
}

fn backlog_of(flow: &Outlook) -> String {
    flow.backlog.as_ref().map_or(text::DASH.into(), |b| text::bytes(b.bytes as f64))
}

/// Prints each flow's guarantees before and after the change.
fn compared(way: &Way<'_>, before: &Way<'_>) {
    let rows = way.flows.iter().map(|flow| {
        let was = before.flows.iter().find(|f| f.name == flow.name);
        let cell = |of: fn(&Outlook) -> String| match was.map(of) {
            Some(old) if old != of(flow) => format!("{old} -> {}", of(flow)),
            _ => of(flow),
        };
        vec![flow.name.clone(), cell(rate_of), cell(delay_of), cell(backlog_of)]
    });
    say!("{}\n", text::table(&["before -> after", "rate >=", "delay <=", "backlog <="], rows));
}

/// Returns the details of a flow, as lines with a keyword each.
fn details(flow: &Outlook) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    out.extend(flow.many.clone().map(|many| ("mask", many)));
    out.push((
        "envelope",
        match &flow.envelope {
            Ok(envelope) => described(envelope, flow.together),
            Err(why) => why.clone(),
        },
    ));
    let after = |rate: Rate, latency: Span| {
        format!("{} after {}", text::link_rate(rate), text::nanos(latency.0 as f64))
    };
    out.push((
        "service",
        match (&flow.guarantee, &flow.service) {
            (Err(NoGuarantee(why)), Some((rate, latency, _))) => {
                format!("{}, only if the flow keeps to an envelope: {why}", after(*rate, *latency))
            }
            (Err(NoGuarantee(why)), None) => format!("none is guaranteed: {why}"),
            (Ok(_), Some((rate, latency, _))) if flow.together => {
                format!("{}, to all flows together while any is backlogged", after(*rate, *latency))
            }
            (Ok(guarantee), Some((rate, latency, _))) => {
                let condition = flow
                    .rate_condition
                    .map_or(String::new(), |condition| format!(", {}", condition.words()));
                format!(
                    "{}, {}: while it is backlogged{condition}, in packets whose last bit has left",
                    after(*rate, *latency),
                    guarantee.rate_formula
                )
            }
            (Ok(guarantee), None) => format!("no rate: {}", guarantee.rate_formula),
        },
    ));
    let guarantee = flow.guarantee.as_ref().ok();
    if let Some(Deadlines { first, time, rate, late }) =
        flow.deadlines.filter(|d| guarantee.is_some() && d.time > Span::ZERO)
    {
        let (first, time) = (text::link_rate(first), text::nanos(time.0 as f64));
        let (rate, late) = (text::link_rate(rate), text::nanos(late.0 as f64));
        out.push((
            "curve",
            format!(
                "{first} for {time}, then {rate}: packets leave at most {late} after this curve"
            ),
        ));
    }
    let bound = |delay: u64, formula: &str, condition: &str| {
        format!("{}  {formula}: {condition}", text::nanos(delay as f64))
    };
    let mut word = "delay <=";
    for d in [&flow.by_sources, &flow.mutual, &flow.assured].into_iter().flatten() {
        out.push((word, bound(d.delay.0, &d.formula, &d.condition)));
        word = "";
    }
    // Bounds that the discipline guarantees for a full queue. The first one is left out if it
    // equals `assured`, which is printed above.
    let full = guarantee
        .map(|p| &p.delay)
        .filter(|p| flow.assured.as_ref().is_none_or(|d| d.delay != p.delay));
    for other in full.into_iter().chain(guarantee.iter().flat_map(|p| &p.others)) {
        out.push((word, bound(other.delay.0, other.formula, other.condition)));
        word = "";
    }
    if let Some(jitter) = &flow.jitter {
        out.push(("jitter <=", bound(jitter.delay.0, jitter.formula, jitter.condition)));
    }
    if let Some(backlog) = &flow.backlog {
        let packets = backlog.packets.map_or(String::new(), |n| format!(", {n} packets"));
        let whose = if flow.together { " of all flows together" } else { "" };
        let amount = text::bytes(backlog.bytes as f64);
        out.push((
            "backlog <=",
            format!("{amount}{packets}{whose}  v(envelope, service); {}", backlog.fits),
        ));
    }
    if let Some(best) = flow.best() {
        out.push(("limit", best.limit.clone()));
    }
    out
}

fn described(envelope: &Envelope, together: bool) -> String {
    let whose = if together { "all flows together: " } else { "" };
    let bucket = |rate: Rate, burst: f64| {
        format!("{}, {} at once", text::link_rate(rate), text::bytes(burst))
    };
    let buckets = envelope.buckets.iter().map(|&(rate, burst)| bucket(rate, burst as f64));
    let buckets = buckets.collect::<Vec<_>>().join("; and ");
    if envelope.is_declared() {
        format!("{whose}{buckets}; as the file says")
    } else {
        // The exact burst. `buckets` may have a byte more, because it is rounded up.
        let burst = float(&envelope.curve.pieces()[0].after);
        let buckets =
            envelope.buckets.iter().map(|&(rate, _)| bucket(rate, burst)).collect::<String>();
        format!("{whose}{buckets}; from {}", sources_named(&envelope.sources))
    }
}

/// Returns the flows whose queues have an AQM policy, and the policy's name. Such a queue may drop
/// packets that were already queued, or that would have found room.
fn policies(direction: &Direction) -> Vec<String> {
    let leaves = direction.pipe.setup.leaves();
    let named = direction.flows.iter().zip(leaves);
    named
        .filter_map(|(flow, leaf)| {
            Some(format!("{} of {}", leaf.values.policy()?.name(), flow.name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_a_note_and_is_said_once() {
        let mut notes = Notes::default();
        let (short, long) = ("L/C".repeat(9), "because of this ".repeat(9));
        let cells = [&short, &long, &short, &long].map(|text| notes.cell(text));
        assert_eq!(cells, [short.as_str(), "note 1", &short, "note 1"]);
        assert_eq!(notes.cell(&"x".repeat(57)), "note 2");
        assert_eq!(notes.0.len(), 2);
    }
}
