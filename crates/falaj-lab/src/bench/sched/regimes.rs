//! Regimes: parameters on which the cost of a discipline depends, each measured separately.

use falaj_sched::contract::params::{FlowSetup, Inner, POLICY, Setup, Value, Values};

use falaj_sched::queues::aqm::policy::{CoDelParameters, Policy};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// A discipline with certain parameters of its flows.
#[derive(Debug)]
pub(super) struct Regime {
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    /// Sets the parameters of all flows, which are equal.
    pub(super) set: fn(Setup) -> Setup,
}

pub(super) const REGIMES: &[Regime] = &[
    Regime {
        kind: "hfsc",
        name: "hfsc/real-time",
        doc: "real-time curves that take the whole link",
        set: |setup| all(setup, |part| rates(&[("rate", part)])),
    },
    Regime {
        kind: "hfsc",
        name: "hfsc/link-sharing",
        doc: "no real-time curves",
        set: |setup| all(setup, |part| rates(&[("share", part)])),
    },
    Regime {
        kind: "hfsc",
        name: "hfsc/mixed",
        doc: "real-time curves that take half of the link, sharing for the rest",
        set: |setup| all(setup, |part| rates(&[("rate", part / 2), ("share", part)])),
    },
    Regime {
        kind: "hfsc",
        name: "hfsc/tree",
        doc: "three levels of classes that share the link, half of it by real-time curves of \
              leaves",
        set: |setup| {
            let leaves = all(setup, |part| rates(&[("rate", part / 2), ("share", part)]));
            grouped("hfsc", leaves, |_| Values::default())
        },
    },
    Regime {
        kind: "mclock",
        name: "mclock/reservation",
        doc: "reservations that take the whole link",
        set: |setup| all(setup, |part| rates(&[("reservation", part)])),
    },
    Regime {
        kind: "mclock",
        name: "mclock/limit",
        doc: "limits that let the link rest",
        set: |setup| all(setup, |part| rates(&[("limit", part * 9 / 10)])),
    },
    Regime {
        kind: "mclock",
        name: "mclock/weight",
        doc: "weights alone",
        set: |setup| all(setup, |_| Values::default()),
    },
    Regime {
        kind: "mclock",
        name: "mclock/tree",
        doc: "three levels of classes, reservations of half the link (hClock)",
        set: |setup| {
            let leaves = all(setup, |part| rates(&[("reservation", part / 2)]));
            grouped("mclock", leaves, |_| Values::default())
        },
    },
    Regime {
        kind: "htb",
        name: "htb/tree",
        doc: "three levels of classes whose rates take the whole link",
        set: |setup| {
            let leaves = all(setup, |part| rates(&[("rate", part)]));
            grouped("htb", leaves, |rate| rates(&[("rate", rate)]))
        },
    },
    Regime {
        kind: "htb",
        name: "htb/borrowing",
        doc: "three levels of classes whose rates take a tenth of the link; the rest is lent",
        set: |setup| {
            let leaves = all(setup, |part| rates(&[("rate", part / 10)]));
            grouped("htb", leaves, |rate| rates(&[("rate", rate)]))
        },
    },
    Regime {
        kind: "drr",
        name: "drr/codel-idle",
        doc: "queues kept by CoDel that has nothing to do",
        set: |setup| controlled(setup, Span(3_600_000_000_000), Span(7_200_000_000_000)),
    },
    Regime {
        kind: "drr",
        name: "drr/codel-dropping",
        doc: "queues kept by CoDel that drops",
        set: |setup| controlled(setup, Span(1), Span(1_000)),
    },
];

/// The regime with this name.
pub(super) fn regime(name: &str) -> Option<&'static Regime> {
    REGIMES.iter().find(|regime| regime.name == name)
}

fn rates(set: &[(&'static str, u64)]) -> Values {
    set.iter().fold(Values::default(), |all, &(name, rate)| {
        all.with(name, Value::Rate(Rate(rate.max(1))))
    })
}

/// Sets the values of each flow, given its equal part of the link in bit/s.
fn all(mut setup: Setup, values: impl Fn(u64) -> Values) -> Setup {
    let part = setup.rate.0 / setup.flows.len() as u64;
    setup.flows.iter_mut().for_each(|flow| flow.values = values(part));
    setup
}

/// Puts the flows below two levels of classes. The maximum number of children of a node is the cube
/// root of the number of flows, rounded up. The values of a class depend on the sum of the `rate`s
/// below it.
fn grouped(kind: &'static str, setup: Setup, values: impl Fn(u64) -> Values) -> Setup {
    let each = (1..).find(|n: &usize| n.pow(3) >= setup.flows.len()).unwrap_or(1);
    let rate = |flow: &FlowSetup| flow.values.rate("rate").map_or(0, |rate| rate.0);
    let group = |flows: &[FlowSetup]| {
        let own = FlowSetup::new(values(flows.iter().map(rate).sum()), flows[0].limit);
        let below = Setup { flows: flows.to_vec(), scheduler: Values::default(), ..setup };
        FlowSetup { inner: Some(Box::new(Inner { kind, setup: below })), ..own }
    };
    let groups: Vec<FlowSetup> = setup.flows.chunks(each).map(group).collect();
    let flows = groups.chunks(each).map(group).collect();
    Setup { flows, scheduler: Values::default(), ..setup }
}

/// Sets CoDel with this target and interval as the AQM policy of each flow's queue.
fn controlled(mut setup: Setup, target: Span, interval: Span) -> Setup {
    let parameters = CoDelParameters { target, interval, ..CoDelParameters::default() };
    setup
        .flows
        .iter_mut()
        .for_each(|flow| flow.values.set(POLICY, Value::Policy(Policy::CoDel(parameters))));
    setup
}
