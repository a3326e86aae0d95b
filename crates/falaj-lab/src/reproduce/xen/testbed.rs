//! The paper's testbed as a scenario: two virtual machines, each with an adapter, on a link of 100
//! Mbit/s to an external host.

use anyhow::Result;
use falaj_scenario::Scenario;
use falaj_sched::units::time::Span;
use falaj_terminal::file;
use std::fmt::Write;

/// Bytes of the packets, and what of them is payload: datagrams of 1500 B, as `iperf` counts them.
pub(super) const PACKET: u32 = 1_500;
pub(super) const PAYLOAD: u32 = PACKET - 28;
/// How the adapters are called.
pub(super) const VMS: [&str; 2] = ["vm1", "vm2"];
/// Mbit/s.
const LINK: u32 = 100;
/// Deep enough that no pause of a sender or of this host leaves the link without packets.
const QUEUE: &str = "400p";
/// Of the one queue that all share.
const SHARED: &str = "200p";

/// What divides the link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Divider {
    /// One queue for all.
    Fifo,
    /// Xen's own; with a cap in Mbit/s for each, or none.
    Netback([Option<u32>; 2]),
    /// The paper's improvement, with these priorities.
    XenWrr([u32; 2]),
    /// mClock with caps, or with 40 Mbit/s promised to each and no cap.
    Mclock([Option<u32>; 2]),
    /// WF2Q+ with these weights.
    Wf2q([u32; 2]),
}

impl Divider {
    fn scheduler(self) -> &'static str {
        match self {
            Divider::Fifo => "fifo",
            Divider::Netback(_) => "netback",
            Divider::XenWrr(_) => "xen-wrr",
            Divider::Mclock(_) => "mclock",
            Divider::Wf2q(_) => "wf2q+",
        }
    }

    /// The keys of the flow of this machine.
    fn keys(self, vm: usize, slower: u32) -> String {
        match self {
            Divider::Fifo => String::new(),
            // What passes at that rate in Xen's period of 50 ms.
            Divider::Netback(caps) => caps[vm]
                .map_or(String::new(), |cap| format!("credit = \"{}B\"\n", cap * 6_250 / slower)),
            Divider::Mclock(caps) => match caps[vm] {
                Some(cap) => {
                    let cap = cap * 1_000 / slower;
                    format!("reservation = \"{cap}kbit\"\nlimit = \"{cap}kbit\"\n")
                }
                None => format!("reservation = \"{}kbit\"\n", 40_000 / slower),
            },
            Divider::XenWrr(weights) | Divider::Wf2q(weights) => {
                format!("weight = {}\n", weights[vm])
            }
        }
    }
}

/// What a machine sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MachineLoad {
    pub(super) vm: usize,
    /// Mbit/s of IP packets.
    pub(super) rate: u32,
    /// With equal gaps; else they are exponential.
    pub(super) locked: bool,
    /// Seconds of the paper after the beginning.
    pub(super) from: u32,
}

/// An experiment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Testbed {
    pub(super) server: Divider,
    pub(super) sends: Vec<MachineLoad>,
    /// How long, in seconds of the paper.
    pub(super) seconds: u32,
}

impl Testbed {
    /// As a scenario, whose seconds last so long, and all of whose rates are so many times slower
    /// than the paper's.
    pub(super) fn scenario(&self, second: Span, slower: u32, seed: u64) -> Result<Scenario> {
        file::parse_quietly(&self.text(second, slower, seed), "xen")
    }

    fn text(&self, second: Span, slower: u32, seed: u64) -> String {
        let shared = self.server == Divider::Fifo;
        let mut text = format!(
            "[run]\nduration = \"{}ns\"\nseed = {seed}\n\n[link.wire]\nrate = \"{}kbit\"\naccount = \"ip\"\n\
             scheduler = {{ kind = \"{}\" }}\n",
            second.0 * u64::from(self.seconds),
            LINK * 1_000 / slower,
            self.server.scheduler()
        );
        if shared {
            let _ = write!(text, "\n[link.wire.flow.all]\nmatch = \"any\"\nqueue = \"{SHARED}\"\n");
        } else {
            text.push_str("uplink = \"namespace\"\n");
            for (vm, name) in VMS.iter().enumerate() {
                let keys = self.server.keys(vm, slower);
                let _ = write!(
                    text,
                    "\n[link.wire.flow.{name}]\nadapter = \"namespace\"\nqueue = \"{QUEUE}\"\n{keys}"
                );
            }
        }
        for (n, MachineLoad { vm, rate, locked, from }) in self.sends.iter().enumerate() {
            let flow = if shared { "all" } else { VMS[*vm] };
            let model = if *locked { "cbr" } else { "poisson" };
            let _ = write!(
                text,
                "\n[traffic.s{n}]\nflow = \"{flow}\"\nmodel = \"{model}\"\nrate = \"{}kbit\"\nsize = \"{PACKET}B\"\n\
                 start = \"{}ns\"\n",
                rate * 1_000 / slower,
                second.0 * u64::from(*from)
            );
        }
        text
    }

    /// By source, the machine that sends it.
    pub(super) fn homes(&self) -> Vec<usize> {
        self.sends.iter().map(|sends| sends.vm).collect()
    }
}
