//! All facts about a discipline that other parts need, in one value in the discipline's own file.

use crate::contract::draw::Draw;
use crate::contract::params::Param;
use crate::contract::wfi::WfiFormula;

/// A discipline as users choose it: its name, its purpose, its parameters, and the facts that the
/// rest of the program needs.
///
/// It is written as `Manifest { kind: …, ..Manifest::PLAIN }`: the first six fields and the
/// parameters are always given, the others if they differ from `Manifest::PLAIN`.
#[derive(Debug, Clone, Copy)]
pub struct Manifest {
    /// Its name in a scenario.
    pub kind: &'static str,
    /// Its purpose, in one line.
    pub doc: &'static str,
    /// The paper or standard that describes it.
    pub source: &'static str,
    /// Cost of a packet among `N` flows, for enqueue and dequeue.
    pub cost: &'static str,
    /// Its guarantee to a flow, in a few words: `rate and delay`. It begins with
    /// `nothing` where [`service`](crate::contract::guarantee::Guarantees::service) never succeeds.
    pub guarantee: &'static str,
    /// The derivation of the guarantee's bound: a paper, or `own derivation`. `—` where there is no
    /// guarantee.
    pub guarantee_source: &'static str,
    /// Parameters of the scheduler.
    pub scheduler: &'static [Param],
    /// Parameters of each flow.
    pub flow: &'static [Param],
    /// Why the link may be idle while packets wait; `None`: the discipline is work-conserving.
    pub idles: Option<Idling>,
    /// The key of the flows' rates, if a sum of rates above the link's is accepted with a warning;
    /// `None`: there are no such rates, or the discipline refuses the sum.
    pub oversubscribed_by: Option<&'static str>,
    /// True if it takes a tree of classes whole, in which its own kind divides the flows, instead
    /// of being nested below itself.
    pub whole_trees: bool,
    /// The key of a flow's weight: `falaj top` and the dashboard show it as such. No guarantee
    /// follows from it.
    pub weight_key: Option<&'static str>,
    /// The key of a flow's cap.
    pub cap_key: Option<&'static str>,
    /// Keys of a flow that the dashboard offers for editing, each with its label.
    pub editable: &'static [(&'static str, &'static str)],
    /// The bound on a flow's worst-case fair index; `None`: no bound is known that holds for any
    /// behavior of the other flows.
    pub wfi: Option<WfiFormula>,
    /// Rules for drawing random values that the discipline accepts.
    pub draw: Draw,
}

/// The reason why a link may be idle while packets wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idling {
    /// The reason, as the end of a sentence.
    pub why: &'static str,
    /// The key of a flow without which the discipline is work-conserving after all.
    pub only_with: Option<&'static str>,
}

impl Idling {
    /// A discipline that idles whatever keys its flows have.
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
        scheduler: &[],
        flow: &[],
        idles: None,
        oversubscribed_by: None,
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
