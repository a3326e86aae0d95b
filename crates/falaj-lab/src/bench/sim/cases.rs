//! The simulated cases as scenario files, which `falaj sim` accepts too. *The paper* is the paper
//! of Fortuna and Chydzinski on virtual links.

use std::fmt::Write;

/// Interval in us of packets of 500 B on a link of 1 Gbit/s at load 1.0.
const SPACING: u64 = 4;

/// A case: equal links in a row; equal flows, which together offer the whole rate of a link.
pub(super) struct SimulationCase {
    pub(super) name: &'static str,
    /// The keys of the links' `scheduler`.
    scheduler: &'static str,
    /// Returns the keys of a flow besides its queue, given the flow's index and the number of
    /// flows.
    flow: fn(u32, u32) -> String,
    /// The `size` of a source, and the mean packet size in bytes.
    size: (&'static str, u64),
    pub(super) links: u32,
    /// The numbers of flows, one case for each.
    pub(super) flows: &'static [u32],
}

const FEW: &[u32] = &[2, 16, 64];

fn nothing(_: u32, _: u32) -> String {
    String::new()
}

/// Virtual links of the paper's two types in turn, so that flows get equal service.
fn virtual_link(f: u32, _: u32) -> String {
    format!("kind = \"{}\"\nphase = \"30us\"\n", if f.is_multiple_of(2) { "A" } else { "B" })
}

fn share(_: u32, flows: u32) -> String {
    format!("rate = \"{}bit\"\n", 1_000_000_000 / flows)
}

const fn paper(
    name: &'static str,
    scheduler: &'static str,
    flow: fn(u32, u32) -> String,
) -> SimulationCase {
    SimulationCase { name, scheduler, flow, size: ("500B", 500), links: 1, flows: FEW }
}

/// The paper's link, 1 Gbit/s with packets of 500 B from Poisson sources and queues of 20 packets;
/// many flows with many sizes; links in a row.
pub(super) const CASES: &[SimulationCase] = &[
    paper("fifo", "kind = \"fifo\"", nothing),
    paper("drr", "kind = \"drr\"", nothing),
    paper("phase-wise", "kind = \"virtual-links\", serve = \"phase-wise\"", virtual_link),
    paper("packet-wise", "kind = \"virtual-links\", serve = \"packet-wise\"", virtual_link),
    paper(
        "packet-wise, paper",
        "kind = \"virtual-links\", serve = \"packet-wise\", preset = \"paper\"",
        virtual_link,
    ),
    paper(
        "packet-wise, skip",
        "kind = \"virtual-links\", serve = \"packet-wise\", tail = \"skip\"",
        virtual_link,
    ),
    paper("qfq", "kind = \"qfq\"", nothing),
    paper("wf2q+", "kind = \"wf2q+\"", nothing),
    paper("hfsc", "kind = \"hfsc\"", share),
    SimulationCase {
        name: "qfq, mixed sizes",
        scheduler: "kind = \"qfq\"",
        flow: nothing,
        size: ("64B x 7, 576B x 4, 1500B x 1", 354),
        links: 1,
        flows: &[1024],
    },
    SimulationCase {
        name: "drr, 8 links",
        links: 8,
        flows: &[2, 16],
        ..paper("", "kind = \"drr\"", nothing)
    },
];

impl SimulationCase {
    /// The scenario with this number of flows, whose duration is the time of `packets` packets.
    pub(super) fn scenario(&self, flows: u32, packets: u64) -> String {
        let (size, mean) = self.size;
        let duration = packets * SPACING * mean / 500;
        let mut text = format!("[run]\nduration = \"{duration}us\"\n");
        for l in 0..self.links {
            let _ = write!(
                text,
                "\n[link.l{l}]\nrate = \"1gbit\"\nlayer = \"payload\"\nmtu = \"1528B\"\nscheduler = {{ {} }}\n",
                self.scheduler
            );
            for f in 0..flows {
                let matched =
                    if f + 1 == flows { "any".into() } else { format!("udp dport {}", 5000 + f) };
                let own = (self.flow)(f, flows);
                let _ = write!(
                    text,
                    "\n[link.l{l}.flow.f{f}]\nmatch = \"{matched}\"\nqueue = \"20p\"\n{own}"
                );
            }
        }
        if self.links > 1 {
            let names: Vec<String> = (0..self.links).map(|l| format!("\"l{l}\"")).collect();
            let _ = write!(text, "\n[[rule]]\nto = [{}]\n", names.join(", "));
        }
        for f in 0..flows {
            let to = if self.links > 1 {
                format!("headers = \"udp dport {}\"", 5000 + f)
            } else {
                format!("flow = \"f{f}\"")
            };
            let rate = 1_000_000_000 / flows;
            let _ = write!(
                text,
                "\n[traffic.t{f}]\n{to}\nmodel = \"poisson\"\nrate = \"{rate}bit\"\nsize = \"{size}\"\n"
            );
        }
        text
    }
}
