//! The manifest of a discipline: all facts about it that other parts of the program need. It is one
//! value in the discipline's own file.

use crate::contract::draw::Draw;
use crate::contract::params::Param;
use crate::contract::wfi::WfiFormula;

/// A discipline as users choose it: its name, its purpose, its parameters, and the facts that the
/// rest of the program needs.
///
/// It is written as `Manifest { kind: …, ..Manifest::PLAIN }`: the first six fields are always
/// given, the other fields only if they differ from `Manifest::PLAIN`.
#[derive(Debug, Clone, Copy)]
pub struct Manifest {
    /// The discipline's name in a scenario.
    pub kind: &'static str,
    /// The discipline's purpose, in one line.
    pub doc: &'static str,
    /// The paper or standard that describes it.
    pub source: &'static str,
    /// Computing time for enqueueing and dequeueing a packet among `N` flows, such as `O(log N)`.
    pub cost: &'static str,
    /// The guarantee to a flow, in a few words: `rate and delay`. It begins with `nothing` where
    /// [`service`](crate::contract::guarantee::Guarantees::service) never succeeds.
    pub guarantee: &'static str,
    /// The source of the guarantee's bound: a paper, or `own derivation`; `—` if there is no
    /// guarantee.
    pub guarantee_source: &'static str,
    /// The purposes for which the discipline is a good first choice.
    pub purposes: &'static [Purpose],
    /// Other names under which people look for the discipline, in lower case.
    pub aliases: &'static [&'static str],
    /// An example of its use, on a link of 100 Mbit/s with two flows.
    pub example: Example,
    /// Parameters of the scheduler.
    pub scheduler: &'static [Param],
    /// Parameters of each flow.
    pub flow: &'static [Param],
    /// The reason why the link may be idle while packets wait; `None` if the discipline is
    /// work-conserving.
    pub idles: Option<Idling>,
    /// The key of the flows' rates, if a sum of rates above the link's rate is accepted with a
    /// warning; `None` if there are no such rates, or the discipline refuses the sum.
    pub oversubscribed_by: Option<&'static str>,
    /// True if the discipline computes packets' lengths on the medium from their IP lengths. Then a
    /// scenario adds the link's accounting layer to the scheduler's values, as the choice `layer`.
    pub wants_layer: bool,
    /// True if the discipline serves a whole tree of classes: if flows are divided by the same
    /// kind, a single instance serves all of them.
    pub whole_trees: bool,
    /// The key of a flow's weight, which `falaj top` and the dashboard show. Guarantees are not
    /// derived from this field.
    pub weight_key: Option<&'static str>,
    /// The key of a flow's maximum rate.
    pub cap_key: Option<&'static str>,
    /// Keys of a flow that the dashboard offers for editing, each with its label.
    pub editable: &'static [(&'static str, &'static str)],
    /// The bound on a flow's worst-case fair index; `None` if no bound is known that holds for any
    /// behavior of the other flows.
    pub wfi: Option<WfiFormula>,
    /// Rules for drawing random values that the discipline accepts.
    pub draw: Draw,
}

/// A purpose for which people choose a discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Each flow gets a part of the link, in proportion to its weight.
    Share,
    /// Each flow is guaranteed a rate of its own.
    Rate,
    /// The packets of some flows wait for a bounded, short time.
    Delay,
    /// The packets of some flows are sent before those of all other flows.
    Precedence,
    /// Delays stay short for all connections, without a definition of each connection.
    Connections,
    /// No flow sends more than a rate, even on a free link.
    Cap,
    /// A flow's service hardly depends on what the other flows send.
    Isolation,
}

impl Purpose {
    /// All purposes, each with its name and its meaning.
    pub const ALL: [(Purpose, &'static str, &'static str); 7] = [
        (Purpose::Share, "share", "each flow gets a part of the link, in proportion to its weight"),
        (Purpose::Rate, "rate", "each flow is guaranteed a rate of its own"),
        (Purpose::Delay, "delay", "the packets of some flows wait for a bounded, short time"),
        (Purpose::Precedence, "precedence", "some flows go before all others"),
        (
            Purpose::Connections,
            "connections",
            "delays stay short for all connections, and none of them has to be named",
        ),
        (Purpose::Cap, "cap", "no flow sends more than a rate, even on a free link"),
        (
            Purpose::Isolation,
            "isolation",
            "a flow's service hardly depends on what the other flows send",
        ),
    ];

    /// The purpose with this name.
    pub fn named(name: &str) -> Option<Purpose> {
        Purpose::ALL.iter().find(|(_, known, _)| *known == name).map(|(purpose, ..)| *purpose)
    }
}

/// The keys of a discipline in an example: a link of 100 Mbit/s with a flow of calls, which should
/// get good service, and a flow of all other packets. Each text is a line of TOML, or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// Keys of the scheduler after its `kind`.
    pub scheduler: &'static str,
    /// Keys of the flow of calls.
    pub calls: &'static str,
    /// Keys of the other flow.
    pub rest: &'static str,
}

/// The reason why a link may be idle while packets wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idling {
    /// The reason, as the end of a sentence.
    pub why: &'static str,
    /// A key of a flow or of the scheduler. If it is not set, the discipline is work-conserving
    /// after all.
    pub only_with: Option<&'static str>,
}

impl Idling {
    /// The reason of a discipline that may idle with any keys.
    pub(crate) const fn because(why: &'static str) -> Option<Idling> {
        Some(Idling { why, only_with: None })
    }
}

impl Manifest {
    /// A work-conserving discipline without parameters and without anything special.
    pub(crate) const PLAIN: Manifest = Manifest {
        kind: "",
        doc: "",
        source: "",
        cost: "",
        guarantee: "",
        guarantee_source: "",
        purposes: &[],
        aliases: &[],
        example: Example { scheduler: "", calls: "", rest: "" },
        scheduler: &[],
        flow: &[],
        idles: None,
        oversubscribed_by: None,
        wants_layer: false,
        whole_trees: false,
        weight_key: None,
        cap_key: None,
        editable: &[],
        wfi: None,
        draw: Draw::INDEPENDENT,
    };

    /// The parameter `key` of a flow.
    pub fn flow_param(&self, key: &str) -> Option<&'static Param> {
        self.flow.iter().find(|param| param.name == key)
    }
}
