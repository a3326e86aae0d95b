//! The contents of a scenario, after validation.

use crate::schedule::Schedule;
use falaj_engine::PipeId;
use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::key::Key;
use falaj_engine::network::{NetworkSpec, PlacedPipe};
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, SourceSpec, bucket};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The contents of a scenario file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The links, in the file's order; at least one.
    pub links: Vec<Link>,
    /// The rules that route packets over links, in order. If there are no rules, all packets pass
    /// the first link.
    pub rules: Vec<Rule>,
    /// The sources of traffic, in the file's order.
    pub traffic: Vec<Source>,
    /// The hosts at the ends of the links, in the file's order; empty if the scenario defines no
    /// hosts.
    pub hosts: Vec<Host>,
    /// The scheduled changes of links, flows and rules during a run.
    pub changes: Schedule,
    /// The settings of a simulation.
    pub run: Run,
}

/// A rule with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The rule's name; without a name, its number from 1.
    pub name: String,
    /// The rule as the engine applies it; links are indices into [`Scenario::links`].
    pub rule: falaj_engine::rules::RouteRule,
}

/// A link between a near end and a far end.
#[derive(Debug, Clone)]
pub struct Link {
    /// The link's name.
    pub name: String,
    /// From the near end to the far end.
    pub up: Direction,
    /// From the far end to the near end.
    pub down: Direction,
    /// The port at the far end of a link whose near end has virtual adapters, as written.
    pub uplink: Option<String>,
}

impl Link {
    /// The link's direction `up` or `down`.
    pub fn direction(&self, towards: Towards) -> &Direction {
        match towards {
            Towards::Up => &self.up,
            Towards::Down => &self.down,
        }
    }
}

/// One direction of a link.
#[derive(Debug, Clone)]
pub struct Direction {
    /// The pipe that the engine builds for the direction. Its rate is `setup.rate`; its leaves are
    /// `flows`, in the same order; its random numbers begin at the run's seed.
    pub pipe: PipeSpec,
    /// Largest IP packet in bytes, 68 to 65535.
    pub mtu: u32,
    /// The accounting layer: which bytes of a packet count.
    pub layer: CountedLayer,
    /// The flows, in the order in which their match rules are tried; at least one. A part of a flow
    /// is called `FLOW/PART`.
    pub flows: Vec<Flow>,
}

impl Direction {
    /// The pipe's discipline, which has accepted its setup.
    ///
    /// # Panics
    /// The pipe has a discipline that is not registered.
    pub fn scheduler(&self) -> &'static Manifest {
        registry::entry(self.pipe.kind).expect("a direction's discipline is registered")
    }

    /// The length that the pipe accounts for a packet of `bytes`.
    pub fn cost(&self, bytes: u32) -> u32 {
        self.pipe.framing.map_or(bytes, |framing| framing.of(bytes))
    }

    /// The classifier that assigns packets to the direction's flows.
    pub fn classifier(&self) -> Classifier {
        Classifier::new(self.flows.iter().map(|f| &f.matches[..]))
    }
}

/// A flow, without the values of its discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The flow's name, unique in its direction.
    pub name: String,
    /// The match rules, of which one must hold; at least one.
    pub matches: Vec<Match>,
    /// The rate and delay that the flow must be guaranteed.
    pub requires: Requirement,
    /// Upper bounds on the flow's traffic, which conforms to each of these token buckets; empty if
    /// unknown.
    pub envelope: Vec<Bucket>,
    /// The virtual adapter whose packets the flow takes; the match rules include the adapter.
    pub adapter: Option<Adapter>,
}

/// A virtual adapter: a port among several at the near end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Name of the flow to which the adapter belongs.
    pub name: String,
    /// The port at which the adapter's packets enter and leave, as written.
    pub port: String,
    /// The batches in which packets cross to and from the adapter, as written.
    pub batches: Option<String>,
}

impl Adapter {
    /// Returns true if both adapters have the same name and port.
    pub fn is_same(&self, other: &Adapter) -> bool {
        (&self.name, &self.port) == (&other.name, &other.port)
    }

    /// The adapter's identifier in packet keys and matches.
    pub fn id(&self) -> falaj_engine::key::AdapterId {
        falaj_engine::key::AdapterId::named(&self.name)
    }
}

impl Flow {
    /// The flow of a link without named flows, which takes every packet.
    pub(crate) fn all() -> Flow {
        Flow {
            name: ALL.to_owned(),
            matches: vec![Match::ANY],
            requires: Requirement::default(),
            envelope: Vec::new(),
            adapter: None,
        }
    }
}

/// A token bucket: in any time `t` at most `burst` plus `rate` times `t` bytes pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Rate at which the bucket fills; finite.
    pub rate: Rate,
    /// Size of the bucket, in bytes as the link accounts them; above zero.
    pub burst: u64,
}

/// The rate and delay that a flow must be guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requirement {
    /// The least guaranteed rate, if one is required.
    pub rate: Option<Rate>,
    /// The largest guaranteed delay, from last bit in to last bit out, if one is required.
    pub delay: Option<Span>,
}

/// A host at the ends of links.
///
/// A link with two hosts lies between them, with its near end at the first host. A link with one
/// host has its near end at the host, and its far end at the router in the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The host's name: 1 to 63 lower-case letters, digits and `-`.
    pub name: String,
    /// Indices of the host's links in [`Scenario::links`], in the file's order; at least one.
    pub links: Vec<usize>,
}

/// The name of the router in the middle; no host may have this name.
pub const ROUTER: &str = "router";

/// The pipe that carries a link's traffic in one direction. Each link has two pipes, up before
/// down.
pub fn pipe_of(link: usize, towards: Towards) -> PipeId {
    PipeId(2 * link as u32 + u32::from(towards == Towards::Down))
}

/// A direction of packets on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Towards {
    /// From the near end to the far end.
    Up,
    /// From the far end to the near end.
    Down,
}

impl Towards {
    /// The opposite direction.
    pub fn back(self) -> Towards {
        match self {
            Towards::Up => Towards::Down,
            Towards::Down => Towards::Up,
        }
    }
}

/// A source of traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The source's name.
    pub name: String,
    /// Index of the source's link in [`Scenario::links`].
    pub link: usize,
    /// Index of the source's flow in the link's direction `towards`.
    pub flow: usize,
    /// The direction in which the source's packets pass the link.
    pub towards: Towards,
    /// The header fields of the packets, if the rules route them; `link` and `flow` are then the
    /// first link and flow that the rules choose. `None` if the packets pass only this link.
    pub key: Option<Key>,
    /// The model of the gaps between packets.
    pub model: Model,
    /// Mean rate in the bytes that the link accounts; finite. For [`Model::OnOff`] it is the rate
    /// during a burst, for [`Model::Tcp`] it is zero.
    pub rate: Rate,
    /// Sizes of the packets as the link accounts them. Each size is possible for a UDP datagram
    /// over IPv4, and fits the link. For video and recordings only the largest size is used.
    pub sizes: Sizes,
    /// A token bucket that the packets pass; it has room for the longest packet.
    pub limit: Option<bucket::Limit>,
    /// Number of equal sources, each with its own address; at least 1.
    pub sources: u32,
    /// Time at which the source starts.
    pub start: Time,
    /// Time at which the source stops, later than `start`; `None` if it never stops.
    pub stop: Option<Time>,
    /// The ECN bits of the packets.
    pub ecn: Ecn,
}

impl Source {
    /// Mean rate of all sources together; zero for [`Model::Tcp`], whose rate depends on the
    /// network.
    pub fn mean_rate(&self) -> Rate {
        Rate(self.spec().mean_rate().0.saturating_mul(self.sources.into()))
    }

    /// The header fields for the `n`th source after the first one, whose header fields are `key`.
    /// Sources have consecutive addresses at the near end.
    pub fn following(&self, key: &Key, n: u32) -> Key {
        let following = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits().wrapping_add(n)))
            }
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits().wrapping_add(n.into())))
            }
        };
        match self.towards {
            Towards::Up => Key { src: key.src.map(following), ..*key },
            Towards::Down => Key { dst: key.dst.map(following), ..*key },
        }
    }

    /// The model, rate, sizes, token bucket and times of one of the sources.
    pub fn spec(&self) -> SourceSpec {
        SourceSpec {
            model: self.model.clone(),
            rate: self.rate,
            sizes: self.sizes.clone(),
            limit: self.limit,
            start: self.start,
            stop: self.stop.unwrap_or(Time::NEVER),
        }
    }
}

/// The settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Simulated time of one replication, above zero.
    pub duration: Span,
    /// Seed of random numbers.
    pub seed: u64,
    /// Number of independent replications, 1 to 10000.
    pub replications: u32,
    /// The clock for live packets.
    pub time: RunTime,
}

/// The clock for live packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunTime {
    /// The host's clock.
    #[default]
    Real,
    /// The clock of a guest, which stands still while any process in the guest computes.
    Virtual,
}

impl RunTime {
    /// The names of the clocks.
    pub const NAMES: [&'static str; 2] = ["real", "virtual"];

    /// The clock with this name.
    pub(crate) fn named(name: &str) -> Option<RunTime> {
        match name {
            "real" => Some(RunTime::Real),
            "virtual" => Some(RunTime::Virtual),
            _ => None,
        }
    }
}

impl Default for Run {
    fn default() -> Run {
        Run { duration: Span::from_secs(10), seed: 1, replications: 8, time: RunTime::Real }
    }
}

/// The name of the flow of a link without named flows.
pub const ALL: &str = "all";
/// The name of the link of [`Scenario::simple`].
pub const SIMPLE: &str = "link";

impl Scenario {
    /// A scenario of one link, for a link given on the command line: both directions are equal,
    /// with a FIFO and one flow for every packet, and without traffic. The values must come from
    /// [`crate::parse_rate`] and the similar functions, which check the ranges.
    pub fn simple(rate: Rate, delay: Span, queue: Limit, mtu: u32) -> Scenario {
        let layer = CountedLayer::default();
        let setup = Setup {
            rate,
            largest: layer.largest(mtu),
            scheduler: Values::default(),
            flows: vec![FlowSetup::new(Values::default(), queue)],
        };
        let mut pipe = PipeSpec::new(registry::DEFAULT.kind, setup, delay);
        pipe.seed = Run::default().seed;
        pipe.masks.flows = vec![None];
        let direction = Direction { pipe, mtu, layer, flows: vec![Flow::all()] };
        let link =
            Link { name: SIMPLE.to_owned(), up: direction.clone(), down: direction, uplink: None };
        Scenario {
            links: vec![link],
            rules: Vec::new(),
            traffic: Vec::new(),
            hosts: Vec::new(),
            changes: Schedule::default(),
            run: Run::default(),
        }
    }

    /// Sets the seed of all random numbers.
    pub fn begin_at(&mut self, seed: u64) {
        self.run.seed = seed;
        for link in &mut self.links {
            (link.up.pipe.seed, link.down.pipe.seed) = (seed, seed);
        }
    }

    /// The network that the engine builds for the scenario: both directions of each link, and the
    /// rules.
    pub fn network(&self) -> NetworkSpec {
        let place = |d: &Direction| PlacedPipe {
            pipe: d.pipe.clone(),
            classifier: d.classifier(),
            layer: d.layer,
        };
        NetworkSpec {
            places: self
                .links
                .iter()
                .flat_map(|link| [place(&link.up), place(&link.down)])
                .collect(),
            rules: self.rules.iter().map(|rule| rule.rule.clone()).collect(),
            seed: self.run.seed,
        }
    }

    /// The virtual adapters, in the order of their flows, without duplicates.
    pub fn adapters(&self) -> Vec<&Adapter> {
        let mut known = BTreeSet::new();
        let directions = self.links.iter().flat_map(|link| [&link.up, &link.down]);
        let of_flows = directions.flat_map(|d| &d.flows).filter_map(|flow| flow.adapter.as_ref());
        of_flows.filter(|adapter| known.insert(&adapter.name[..])).collect()
    }

    /// The index of the link `name`.
    pub fn link(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|l| l.name == name)
    }
}
