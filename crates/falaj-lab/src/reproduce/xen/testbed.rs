//! The paper's testbed as a scenario: two virtual machines, each with an adapter, on a link of
//! 100 Mbit/s to an external host.

use anyhow::Result;
use falaj_scenario::Scenario;
use falaj_sched::units::time::Span;
use falaj_terminal::file;
use std::fmt::Write;

/// Bytes of an IP packet, and of its UDP payload; the goodput of `iperf` counts the payload.
pub(super) const PACKET: u32 = 1_500;
pub(super) const PAYLOAD: u32 = PACKET - 28;
/// Names of the adapters.
pub(super) const VMS: [&str; 2] = ["vm1", "vm2"];
/// Rate of the link in Mbit/s.
const LINK: u32 = 100;
/// Queue of a flow: long enough that a pause of a sender or of this host does not empty it.
const QUEUE: &str = "400p";
/// The queue that all flows share.
const SHARED: &str = "200p";

/// The scheduler of the link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Divider {
    /// One queue for all machines.
    Fifo,
    /// Xen's own limiter (`netback`), with a cap in Mbit/s for each machine; `None`: no cap.
    Netback([Option<u32>; 2]),
    /// The paper's improvement (`xen-wrr`), with the weight of each machine.
    XenWrr([u32; 2]),
    /// mClock. A machine with a cap, in Mbit/s, has this cap as its reservation and as its limit. A
    /// machine without a cap has a reservation of 40 Mbit/s and no limit.
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
            // The bytes that this rate sends in Xen's period of 50 ms.
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

/// The traffic of a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MachineLoad {
    pub(super) vm: usize,
    /// Rate in Mbit/s of IP packets.
    pub(super) rate: u32,
    /// True for equal gaps; otherwise gaps are exponential.
    pub(super) equal_gaps: bool,
    /// Start, in seconds of the paper's time, counted from the beginning of the experiment.
    pub(super) from: u32,
}

/// An experiment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Testbed {
    pub(super) server: Divider,
    /// Changes of the weights: a second of the paper's time, and the weights from its beginning on.
    pub(super) changes: Vec<(u32, [u32; 2])>,
    pub(super) sends: Vec<MachineLoad>,
    /// Duration, in seconds of the paper's time.
    pub(super) seconds: u32,
}

impl Testbed {
    /// The scenario in which a second of the paper lasts `second`, and all rates are lower than the
    /// paper's by the factor `slower`.
    pub(super) fn scenario(&self, second: Span, slower: u32, seed: u64) -> Result<Scenario> {
        file::parse_quietly(&self.text(second, slower, seed), "xen")
    }

    fn text(&self, second: Span, slower: u32, seed: u64) -> String {
        let shared = self.server == Divider::Fifo;
        let mut text = format!(
            "[run]\nduration = \"{}ns\"\nseed = {seed}\n\n[link.wire]\nrate = \"{}kbit\"\nlayer = \"ip\"\n\
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
        for (n, MachineLoad { vm, rate, equal_gaps, from }) in self.sends.iter().enumerate() {
            let flow = if shared { "all" } else { VMS[*vm] };
            let model = if *equal_gaps { "cbr" } else { "poisson" };
            let _ = write!(
                text,
                "\n[traffic.s{n}]\nflow = \"{flow}\"\nmodel = \"{model}\"\nrate = \"{}kbit\"\nsize = \"{PACKET}B\"\n\
                 start = \"{}ns\"\n",
                rate * 1_000 / slower,
                second.0 * u64::from(*from)
            );
        }
        for (at, weights) in &self.changes {
            let at = second.0 * u64::from(*at);
            let _ = write!(text, "\n[[change]]\nat = \"{at}ns\"\n[change.set]\n");
            for (vm, weight) in VMS.iter().zip(weights) {
                let _ = writeln!(text, "\"{vm}.weight\" = {weight}");
            }
        }
        text
    }

    /// For each source, the machine that sends its packets.
    pub(super) fn homes(&self) -> Vec<usize> {
        self.sends.iter().map(|sends| sends.vm).collect()
    }
}
