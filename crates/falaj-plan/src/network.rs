//! Delay bounds over all links that packets pass. Each flow of a link is a server; if several flows
//! share a queue, that queue is the server. Each route of a source is a flow that passes some of
//! these servers.

use crate::Way;
use crate::bounds::{Envelope, sent_by};
use falaj_engine::impair::transit::{Impairment, Irregularity};
use falaj_engine::key::Key;
use falaj_engine::pipe::Pace;
use falaj_engine::rules::{Passage, RouteRule, RouteStep};
use falaj_scenario::{Direction, Scenario, Source, Towards};
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::network::{BoundMethod, Circle, EndToEnd, Flow, Network, Order, Server};
use falaj_theory::{Curve, exact, slope, whole};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// A scenario as a network of servers and flows.
pub struct Routes {
    /// The servers and flows.
    pub network: Network,
    /// The rate of each server's link, by server.
    pub capacity: Vec<Rate>,
    /// The route of each flow in `network`, by flow.
    pub routes: Vec<Route>,
}

/// The route of the packets of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The source's name.
    pub traffic: String,
    /// Number of individual sources that take this route.
    pub sources: u32,
    /// The names of the links, in order.
    pub links: Vec<String>,
    /// Sum of the propagation delays of the links.
    pub propagation: Span,
    /// Cost of the largest packet on the first link, in bytes.
    pub largest: u32,
    /// The reason why no bound is known, apart from the traffic of other flows.
    pub none: Option<String>,
}

/// The bounds of a route.
pub struct Outlook<'a> {
    /// The route.
    pub route: &'a Route,
    /// Bounds on the delay in queues and at links, without propagation.
    pub bounds: EndToEnd,
    /// The lowest of these bounds, with propagation: from the last bit in at the first link to the
    /// last bit at the far end.
    pub delay: Option<Span>,
    /// The reason why the delay is not known.
    pub none: Option<String>,
}

impl Outlook<'_> {
    /// The method that gives the lowest bound, in words.
    pub fn method(&self) -> &'static str {
        let best = self.bounds.best();
        if self.bounds.total.as_ref() == best {
            "sum of its links"
        } else if self.bounds.separated.as_ref() == best {
            "its links as one"
        } else {
            "linear program"
        }
    }
}

impl Routes {
    /// The network of a scenario, from its plan.
    ///
    /// # Errors
    /// Rules choose a route at random or drop packets, or no flow of a link takes them: then the
    /// flows that share a server are not known.
    pub fn of(scenario: &Scenario, ways: &[Way<'_>]) -> Result<Routes, String> {
        let rules: Vec<RouteRule> = scenario.rules.iter().map(|rule| rule.rule.clone()).collect();
        let mut made = Routes {
            network: Network {
                servers: Vec::new(),
                flows: Vec::new(),
                lines: Vec::new(),
                order: Order::Fifo,
            },
            capacity: Vec::new(),
            routes: Vec::new(),
        };
        let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        made.network.lines = ways.iter().map(|way| line(scenario, way)).collect();
        for source in &scenario.traffic {
            for (steps, sources) in steps(scenario, &rules, source)? {
                made.add(scenario, ways, source, (&steps, sources), &mut known);
            }
        }
        Ok(made)
    }

    fn add(
        &mut self,
        scenario: &Scenario,
        ways: &[Way<'_>],
        source: &Source,
        (steps, sources): (&[(usize, usize)], u32),
        known: &mut BTreeMap<(usize, usize), usize>,
    ) {
        let mut none = None;
        let mut says = |why: String| none = none.take().or(Some(why));
        let first = scenario.links[source.link].direction(source.towards);
        let mut path = Vec::new();
        let mut propagation = Span::ZERO;
        for (hop, &(link, flow)) in steps.iter().enumerate() {
            let way = &ways[2 * link + usize::from(source.towards == Towards::Down)];
            let outlook = &way.flows[flow];
            if let Some(why) = irregular(way.direction) {
                says(format!("link {} {why}", way.link));
            }
            if hop > 0 && costs(first, source) != costs(way.direction, source) {
                says(format!(
                    "link {} counts other bytes than {}",
                    way.link, scenario.links[source.link].name
                ));
            }
            if hop > 0 && outlook.jitter.is_some() {
                says(format!(
                    "link {} holds each packet for the time by which it was early on the previous link",
                    way.link
                ));
            }
            if outlook.many.is_some() {
                says(format!(
                    "on link {} a mask makes many queues of flow {}",
                    way.link, outlook.name
                ));
            }
            propagation += way.direction.pipe.delay;
            let Some((_, _, service)) = &outlook.service else {
                let why = match &outlook.guarantee {
                    Err(NoGuarantee(why)) => why.clone(),
                    Ok(_) => "no rate is guaranteed".to_owned(),
                };
                says(format!("on link {}: {why}", way.link));
                continue;
            };
            // Where several flows share a queue, the queue is the server.
            let place = (
                2 * link + usize::from(source.towards == Towards::Down),
                if outlook.together { 0 } else { flow },
            );
            let server = *known.entry(place).or_insert_with(|| {
                let both = scenario.traffic.iter().any(|s| s.towards != source.towards);
                let name = [
                    Some(way.link),
                    both.then(|| way.name()),
                    (!outlook.together).then_some(&outlook.name),
                ];
                let name = name.into_iter().flatten().collect::<Vec<_>>().join(".");
                let line = serialises(way.direction).then_some(place.0);
                self.network.servers.push(Server { name, service: service.clone(), line });
                self.capacity.push(way.direction.pipe.setup.rate);
                self.network.servers.len() - 1
            });
            path.push(server);
        }
        let sent = sent(scenario, source, sources).map_err(&mut says).ok();
        // A flow without a known bound stays in the network: it may delay the flows that share its
        // servers.
        let sent = sent.filter(|_| none.is_none());
        let alike = self.routes.iter().filter(|route| route.traffic == source.name).count();
        let name =
            if alike == 0 { source.name.clone() } else { format!("{}#{}", source.name, alike + 1) };
        self.network.flows.push(Flow { name, sent, path });
        self.routes.push(Route {
            traffic: source.name.clone(),
            sources,
            links: steps.iter().map(|(link, _)| scenario.links[*link].name.clone()).collect(),
            propagation,
            largest: first.cost(source.spec().largest()),
            none,
        });
    }

    /// Returns true if any route passes more than one link.
    pub fn is_network(&self) -> bool {
        self.routes.iter().any(|route| route.links.len() > 1)
    }

    /// The bounds of each route: by all methods, or by one.
    pub fn outlooks(&self, only: Option<BoundMethod>) -> Vec<Outlook<'_>> {
        let bounds = self.network.bounds();
        let circle = bounds.as_ref().err().map(|Circle(servers)| {
            let names: Vec<&str> =
                servers.iter().map(|s| &*self.network.servers[*s].name).collect();
            format!("flows lead in a circle through {}, and no bound was found", names.join(", "))
        });
        let all = self.routes.iter().enumerate().map(|(n, route)| {
            let bounds = bounds
                .as_ref()
                .map_or_else(|_| EndToEnd::default(), |bounds| bounds.flows[n].clone());
            let none = route.none.clone().or(circle.clone()).or_else(|| self.why(n, &bounds));
            let bounds = match only {
                Some(method) => bounds.only(method),
                None => bounds,
            };
            let missing = || bounds.best().is_none().then(|| "this method finds no bound".into());
            let none = none.or_else(missing);
            let best = bounds.best().filter(|_| none.is_none());
            Outlook {
                route,
                delay: best.map(|delay| Span(whole(delay)) + route.propagation),
                bounds,
                none,
            }
        });
        all.collect()
    }

    /// The reason why a flow has no bound although everything about the flow itself is known.
    fn why(&self, flow: usize, bounds: &EndToEnd) -> Option<String> {
        if bounds.best().is_some() {
            return None;
        }
        let path = &self.network.flows[flow].path;
        let unknown = |other: &&Flow| other.sent.is_none();
        let here = |other: &&Flow| other.path.iter().any(|server| path.contains(server));
        let (mut all, flows) = (self.network.flows.iter().filter(unknown), &self.network.flows);
        Some(match (flows.iter().filter(unknown).find(here), all.next()) {
            (Some(other), _) => {
                format!("it shares a queue with {}, whose traffic has no known bound", other.name)
            }
            (None, Some(other)) => {
                format!(
                    "it meets flows that may have shared a queue with {}, whose traffic has no known bound",
                    other.name
                )
            }
            (None, None) => "the flows may send more than the links carry".to_owned(),
        })
    }

    /// The bounds of each route by all methods, or by one, as JSON.
    pub fn json(&self, only: Option<BoundMethod>) -> Json {
        let ns = |of: &Option<falaj_theory::Exact>| of.as_ref().map(whole);
        let one = |outlook: &Outlook<'_>| {
            json!({
                "traffic": outlook.route.traffic, "sources": outlook.route.sources,
                "links": outlook.route.links,
                "delay_ns": outlook.delay.map(|d| d.0), "none": outlook.none,
                "sum_ns": ns(&outlook.bounds.total), "as_one_ns": ns(&outlook.bounds.separated),
                "linear_ns": ns(&outlook.bounds.linear),
                "propagation_ns": outlook.route.propagation.0,
            })
        };
        self.outlooks(only).iter().map(one).collect()
    }
}

/// Pairs of a link and the flow in it.
type Steps = Vec<(usize, usize)>;

/// The impairment that changes the spacing of packets on their way, in words.
fn irregular(direction: &Direction) -> Option<&'static str> {
    let first = direction.pipe.impairments.all().filter_map(Impairment::irregularity).min()?;
    Some(match first {
        Irregularity::Delay => "delays some packets longer than others",
        Irregularity::Instants => "delivers packets at its own instants",
        Irregularity::Copies => "delivers some packets twice",
    })
}

/// Returns true if packets leave the link, and arrive at its end, no faster than its rate allows.
fn serialises(direction: &Direction) -> bool {
    let pipe = &direction.pipe;
    pipe.capacity == Capacity::Serialise
        && pipe.pace == Pace::Falaj
        && !pipe.setup.rate.is_unlimited()
        && irregular(direction).is_none()
}

/// Bound on the bytes of packets whose last bits leave the link in any time of a given length: one
/// packet, plus the rate times that length. Instants are whole nanoseconds, so two of them may be
/// one nanosecond closer than the rate allows.
fn line(scenario: &Scenario, way: &Way<'_>) -> Curve {
    let of_this = scenario.traffic.iter().filter(|source| source.towards == way.towards);
    let largest = of_this.map(|source| way.direction.cost(source.spec().largest())).max();
    let rate = slope(way.direction.pipe.setup.rate);
    Curve::affine(rate.clone(), exact(largest.unwrap_or(0)) + rate)
}

/// The bytes that the link counts for the smallest and for the largest packet of the source,
/// converted to the IP layer.
fn costs(direction: &Direction, source: &Source) -> [u32; 2] {
    let spec = source.spec();
    [spec.smallest(), spec.largest()].map(|bytes| direction.layer.to_ip(direction.cost(bytes)))
}

fn sent(scenario: &Scenario, source: &Source, sources: u32) -> Result<Curve, String> {
    let derived = sent_by(scenario, &Source { sources, ..source.clone() });
    let place = |s: &Source| (s.link, s.towards, s.flow);
    let alone = source.sources == sources
        && scenario.traffic.iter().filter(|s| place(s) == place(source)).count() == 1;
    let flow = &scenario.links[source.link].direction(source.towards).flows[source.flow];
    let declared = Envelope::declared(flow).filter(|_| alone);
    match (derived, declared) {
        (Ok(derived), Some(declared)) => Ok(derived.curve.min(&declared.curve)),
        (Ok(derived), None) => Ok(derived.curve),
        (Err(_), Some(declared)) => Ok(declared.curve),
        (Err(why), None) => Err(why.trim_start_matches("none: ").to_owned()),
    }
}

/// The links and flows that the packets of a traffic source pass, and the number of its sources
/// that take this route. Sources with the same route are counted together.
fn steps(
    scenario: &Scenario,
    rules: &[RouteRule],
    source: &Source,
) -> Result<Vec<(Steps, u32)>, String> {
    let Some(key) = source.key.filter(|_| !rules.is_empty()) else {
        return Ok(vec![(vec![(source.link, source.flow)], source.sources)]);
    };
    let mut all: BTreeMap<Steps, u32> = BTreeMap::new();
    for n in 0..source.sources {
        let key: Key = source.following(&key, n);
        let passage = Passage::of(rules, &key, usize::from(source.towards == Towards::Down));
        let links = passage.sure().ok_or_else(|| {
            format!(
                "rules choose the route of traffic {} at random, or drop its packets",
                source.name
            )
        })?;
        let step = |RouteStep { link, key, .. }: RouteStep| {
            let direction = scenario.links[link as usize].direction(source.towards);
            direction.classifier().flow_of(&key).map(|FlowId(flow)| (link as usize, flow as usize))
        };
        let steps: Option<Steps> = links.into_iter().map(step).collect();
        let steps =
            steps.ok_or_else(|| format!("no flow of a link takes traffic {}", source.name))?;
        *all.entry(steps).or_default() += 1;
    }
    Ok(all.into_iter().filter(|(steps, _)| !steps.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan, saihu};

    const CHAIN: &str = r#"
        [link.a]
        rate = "10mbit"
        delay = "5ms"
        [link.b]
        rate = "20mbit"
        delay = "7ms"
        scheduler = { kind = "drr" }
        [link.b.flow.calls]
        match = "udp dport 5004"
        [link.b.flow.rest]
        match = "any"
        [[rule]]
        to = ["a", "b"]
        match = "dst 10.1.0.0/16"
        [[rule]]
        to = "b"
        [traffic.calls]
        headers = "udp dst 10.1.0.1 dport 5004"
        model = "cbr"
        rate = "1mbit"
        size = "1000B"
        [traffic.files]
        headers = "udp dst 10.2.0.1 dport 80"
        model = "on-off"
        on = "1ms"
        off = "1ms"
        rate = "4mbit"
        size = "1500B"
        [traffic.more]
        headers = "udp dst 10.1.0.2 dport 80"
        model = "greedy"
        allowed = { rate = "2mbit", burst = "6kB" }
        size = "1500B"
    "#;

    fn routes(text: &str) -> Result<Routes, String> {
        let (scenario, _) =
            falaj_scenario::parse(text, "x").unwrap_or_else(|why| panic!("{}", why.render(false)));
        let ways = plan(&scenario).unwrap();
        Routes::of(&scenario, &ways)
    }

    /// The first link has one queue for both flows that pass it, the second one for each flow.
    #[test]
    fn queues_are_servers_and_sources_are_flows() {
        let routes = routes(CHAIN).unwrap();
        let names: Vec<&str> = routes.network.servers.iter().map(|s| &*s.name).collect();
        assert_eq!(names, ["a.all", "b.calls", "b.rest"]);
        let paths: Vec<&[usize]> = routes.network.flows.iter().map(|f| &f.path[..]).collect();
        assert_eq!(paths, [&[0, 1][..], &[2], &[0, 2]]);
        assert_eq!(routes.routes[0].propagation, Span::from_millis(12));
        assert!(routes.is_network());
        let all = routes.outlooks(None);
        // A packet of 1514 B and both bursts at 10 Mbit/s: 1.2112 + 5.6 ms.
        let first = routes.network.bounds().unwrap().servers[0].clone().unwrap();
        assert_eq!(whole(&first), 6_811_200);
        for outlook in &all {
            assert_eq!(outlook.none, None);
            let best = Span(whole(outlook.bounds.best().unwrap()));
            assert_eq!(outlook.delay, Some(best + outlook.route.propagation));
        }
    }

    /// A network that is written and read again has the same bounds.
    #[test]
    fn saihu_tells_the_same() {
        let routes = routes(CHAIN).unwrap();
        let text = saihu::write("chain", &routes).unwrap().to_string();
        let read = saihu::read(&text).unwrap();
        let (ours, theirs) = (routes.network.bounds().unwrap(), read.network.bounds().unwrap());
        for (a, b) in ours.flows.iter().zip(&theirs.flows) {
            for (a, b) in [(&a.total, &b.total), (&a.separated, &b.separated)] {
                let [a, b] = [a, b].map(|of| falaj_theory::float(of.as_ref().unwrap()));
                // The file states that lines carry packets at most at their rates, but not that
                // instants are whole nanoseconds.
                assert!((0.0..2.0).contains(&(a - b)), "{a} and {b}");
            }
        }
    }

    #[test]
    fn why_nothing_is_known() {
        let why = |from: &str, to: &str, n: usize| {
            assert!(CHAIN.contains(from), "{from}");
            let routes = routes(&CHAIN.replacen(from, to, 1)).unwrap();
            let why = routes.outlooks(None)[n].none.clone().unwrap_or_default();
            (why, saihu::write("x", &routes).err().unwrap_or_default())
        };
        let (poisson, file) = why("model = \"cbr\"", "model = \"poisson\"", 0);
        assert!(
            poisson.contains("Poisson")
                && file.contains("nothing is known of calls: ")
                && file.contains("envelope"),
            "{file}"
        );
        // On the first link, the source `more` shares the queue of `calls`.
        let (other, _) = why("model = \"cbr\"", "model = \"poisson\"", 2);
        assert_eq!(other, "it shares a queue with calls, whose traffic has no known bound");
        let (files, _) = why("model = \"cbr\"", "model = \"poisson\"", 1);
        assert_eq!(
            files,
            "it meets flows that may have shared a queue with calls, whose traffic has no known bound"
        );
        let (late, _) = why("delay = \"5ms\"", "delay = \"5ms\"\njitter = \"1ms\"", 0);
        assert_eq!(late, "link a delays some packets longer than others");
        let (much, _) = why("rate = \"2mbit\", burst", "rate = \"20mbit\", burst", 2);
        assert_eq!(much, "the flows may send more than the links carry");
        let chance = CHAIN.replace("to = \"b\"", "to = \"b\"\nprobability = \"50%\"");
        assert!(
            self::routes(&chance)
                .err()
                .unwrap()
                .contains("choose the route of traffic files at random")
        );
    }
}
