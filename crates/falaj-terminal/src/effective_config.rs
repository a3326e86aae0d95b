//! The effective configuration, printed before a run, so that the user notices misunderstandings at
//! once.

use falaj_scenario::{Direction, Scenario};
use falaj_sched::contract::params::Setup;
use falaj_sched::disciplines::fifo;
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry;
use std::io::IsTerminal;

/// The option that prints the effective configuration.
#[derive(clap::Args)]
#[command(next_help_heading = crate::COMMON_OPTIONS)]
pub struct EffectiveConfig {
    /// Print the effective configuration to standard error
    ///
    /// On a terminal it is printed anyway.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

impl EffectiveConfig {
    /// Prints the configuration, if wanted.
    pub fn tell(&self, scenario: &Scenario) {
        if self.is_wanted() {
            for line in lines(scenario) {
                eprintln!("configured: {line}");
            }
        }
    }

    /// Returns true if the configuration is to be printed.
    pub fn is_wanted(&self) -> bool {
        self.verbose || (!crate::output::quiet() && std::io::stderr().is_terminal())
    }
}

/// Returns one line for each direction of each link, or one line for both directions if they are
/// equal.
fn lines(scenario: &Scenario) -> Vec<String> {
    let mut out = Vec::new();
    for link in &scenario.links {
        let name =
            if scenario.links.len() > 1 { format!("{}: ", link.name) } else { String::new() };
        let [up, down] = [&link.up, &link.down].map(|d| direction(d, ""));
        if up == down {
            out.push(format!("{name}{}", direction(&link.up, " each way")));
        } else {
            out.push(format!("{name}up {up}"));
            out.push(format!("{name}down {down}"));
        }
    }
    out
}

/// Describes a direction in the form `10mbit of l2 each way, 40ms each way, queue 50p = 60.6 ms`.
fn direction(d: &Direction, way: &str) -> String {
    let mut parts = vec![
        format!("{} of {}{way}", d.pipe.setup.rate, d.layer.name()),
        format!("{}{way}", d.pipe.delay),
    ];
    if let Some(each) = &d.pipe.masks.link {
        parts.push(format!("a link for each {}", each.mask));
    }
    for (flow, each) in d
        .flows
        .iter()
        .zip(&d.pipe.masks.flows)
        .filter_map(|(flow, each)| Some((flow, each.as_ref()?)))
    {
        parts.push(format!("a queue of flow {} for each {}", flow.name, each.mask));
    }
    if d.scheduler().kind != registry::DEFAULT.kind {
        parts.push(d.scheduler().kind.to_owned());
    }
    parts.extend(crate::impairments::words(d));
    let limits: Vec<Limit> = d.pipe.setup.leaves().iter().map(|f| f.limit).collect();
    let shared =
        d.pipe.setup.scheduler.limit("queue").filter(|_| d.scheduler().kind == fifo::MANIFEST.kind);
    match (shared, limits.as_slice()) {
        (Some(limit), _) => parts.push(format!("queue {}", queue(&d.pipe.setup, limit))),
        (None, [limit]) => parts.push(format!("queue {}", queue(&d.pipe.setup, *limit))),
        (None, limits) => {
            let each: Vec<String> = d
                .flows
                .iter()
                .zip(limits)
                .map(|(f, l)| format!("{} {}", f.name, queue(&d.pipe.setup, *l)))
                .collect();
            parts.push(format!("queues {}", each.join(", ")));
        }
    }
    parts.join(", ")
}

/// Describes a limit, with the time that the link takes to send a full queue of largest packets:
/// `50p = 60.6 ms`. The time is left out for a link without a rate limit.
fn queue(setup: &Setup, limit: Limit) -> String {
    let bytes = match limit {
        Limit::Packets(n) => u64::from(n).saturating_mul(setup.largest.into()),
        Limit::Bytes(n) => n,
    };
    if setup.rate.is_unlimited() {
        return limit.to_string();
    }
    format!("{limit} = {}", crate::text::nanos(setup.rate.airtime_of_many(bytes).0 as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::rate::Rate;
    use falaj_sched::units::time::Span;

    #[test]
    fn a_link_in_a_line() {
        let simple =
            Scenario::simple(Rate::from_mbit(10), Span::from_millis(40), Limit::Packets(50), 1500);
        assert_eq!(lines(&simple), ["10mbit of l2 each way, 40ms each way, queue 50p = 60.6 ms"]);
        let tenants = include_str!("../../../examples/tenants.toml");
        let (mut two, _) = falaj_scenario::parse(tenants, "tenants.toml").unwrap();
        assert_eq!(
            lines(&two),
            [
                "100mbit of l2 each way, 0s each way, virtual-links, queues a 8p = 969 us, b 20p = 2.42 ms"
            ]
        );
        two.links[0].down = simple.links[0].down.clone();
        two.links[0].down.pipe.setup.rate = Rate::UNLIMITED;
        assert_eq!(lines(&two)[1], "down unlimited of l2, 40ms, queue 50p");
    }
}
