//! The descriptions of the parameters that users set: name, unit, range, default, meaning. The
//! scenario's parser, its error messages and the reference use these descriptions.

use crate::contract::library::Loaded;
use crate::queues::aqm::policy::Policy;
use crate::queues::queue::Limit;
use crate::units::probability::Probability;
use crate::units::rate::Rate;
use crate::units::time::Span;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The description of a parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The key in a scenario.
    pub name: &'static str,
    /// Type of the parameter's value.
    pub kind: Kind,
    /// The default as a user would write it; `None` if the parameter is required.
    pub default: Option<&'static str>,
    /// The parameter's meaning, in one line.
    pub doc: &'static str,
}

/// Type of a value, which defines its unit and range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A length of time: `30us`.
    Span,
    /// A rate: `100mbit`.
    Rate,
    /// A number of bytes: `1500B`.
    Bytes,
    /// A limit on a queue: `20p` or `64kB`.
    Limit,
    /// A whole number in this range, both ends included.
    Count {
        /// The smallest number allowed.
        min: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A probability: `1%`.
    Probability,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A value that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// See [`Kind::Span`].
    Span(Span),
    /// See [`Kind::Rate`].
    Rate(Rate),
    /// See [`Kind::Bytes`].
    Bytes(u64),
    /// See [`Kind::Limit`].
    Limit(Limit),
    /// See [`Kind::Count`].
    Count(u64),
    /// See [`Kind::Probability`].
    Probability(Probability),
    /// See [`Kind::Choice`].
    Choice(&'static str),
    /// The AQM of the flow's queue, which is not a parameter of a discipline.
    Policy(Policy),
}

/// The name of the value that holds the AQM of a flow's queue.
pub const POLICY: &str = "policy";

/// The unit of the number in a [`Given`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The value is a text without a number.
    Text,
    /// A number without a unit, which the plug-in interprets.
    Number,
    /// Bits per second.
    Rate,
    /// Nanoseconds.
    Span,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
}

/// A value set for a plug-in. Only the plug-in interprets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The key.
    pub name: Box<str>,
    /// The value as written.
    pub text: Box<str>,
    /// The unit of the number in the text.
    pub unit: Unit,
    /// The number in the text, in this unit.
    pub number: u64,
}

/// The values that were set, by name. Copies share one table until a copy is changed, because a
/// hundred thousand flows may have equal values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(Arc<Table>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Table {
    named: Vec<(&'static str, Value)>,
    library: Option<Loaded>,
    given: Option<Arc<[Given]>>,
}

impl Values {
    /// Sets `name`, and replaces an earlier value.
    pub fn set(&mut self, name: &'static str, value: Value) {
        let named = &mut Arc::make_mut(&mut self.0).named;
        match named.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => named.push((name, value)),
        }
    }
    /// Sets the library that contains the discipline.
    pub fn set_library(&mut self, library: Loaded) {
        Arc::make_mut(&mut self.0).library = Some(library);
    }
    /// The library that contains the discipline.
    pub fn library(&self) -> Option<&Loaded> {
        self.0.library.as_ref()
    }
    /// Sets all values for a plug-in.
    pub fn give(&mut self, given: Vec<Given>) {
        Arc::make_mut(&mut self.0).given = Some(given.into());
    }
    /// The values for a plug-in.
    pub fn given(&self) -> &[Given] {
        self.0.given.as_deref().unwrap_or_default()
    }
    /// Sets `name` and returns the values, so that values can be built in one expression.
    pub fn with(mut self, name: &'static str, value: Value) -> Values {
        self.set(name, value);
        self
    }
    /// The value of `name`, if it was set.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.0.named.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
    /// The span `name`, if it was set.
    pub fn span(&self, name: &str) -> Option<Span> {
        match self.get(name) {
            Some(Value::Span(s)) => Some(s),
            _ => None,
        }
    }
    /// The number of bytes `name`, if it was set.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Value::Bytes(b)) => Some(b),
            _ => None,
        }
    }
    /// The rate `name`, if it was set.
    pub fn rate(&self, name: &str) -> Option<Rate> {
        match self.get(name) {
            Some(Value::Rate(r)) => Some(r),
            _ => None,
        }
    }
    /// The whole number `name`, if it was set.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Value::Count(n)) => Some(n),
            _ => None,
        }
    }
    /// The queue limit `name`, if it was set.
    pub fn limit(&self, name: &str) -> Option<Limit> {
        match self.get(name) {
            Some(Value::Limit(l)) => Some(l),
            _ => None,
        }
    }
    /// The probability `name`, if it was set.
    pub fn probability(&self, name: &str) -> Option<Probability> {
        match self.get(name) {
            Some(Value::Probability(p)) => Some(p),
            _ => None,
        }
    }
    /// The word chosen for `name`, if it was set.
    pub fn choice(&self, name: &str) -> Option<&'static str> {
        match self.get(name) {
            Some(Value::Choice(c)) => Some(c),
            _ => None,
        }
    }
    /// The AQM of the flow's queue, if it has one.
    pub fn policy(&self) -> Option<Policy> {
        match self.get(POLICY) {
            Some(Value::Policy(p)) => Some(p),
            _ => None,
        }
    }
    /// All values with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.0.named.iter().copied()
    }
}

/// The setup from which a discipline is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The link's rate.
    pub rate: Rate,
    /// The largest packet, in bytes as the link accounts it.
    pub largest: u32,
    /// The scheduler's own values.
    pub scheduler: Values,
    /// The setup of each flow, in the scenario's order.
    pub flows: Vec<FlowSetup>,
}

/// The setup of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSetup {
    /// The flow's values for this discipline.
    pub values: Values,
    /// The limit of the flow's queue.
    pub limit: Limit,
    /// The discipline that divides this flow's service among the flow's own flows, if any. Then
    /// these flows have the queues, and `limit` is ignored.
    pub inner: Option<Box<Inner>>,
}

/// A discipline that divides a flow of another discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    /// Its name in the registry.
    pub kind: &'static str,
    /// The setup from which it is built, except for the rate and the largest packet. It is built
    /// with the rate that the discipline above guarantees to the flow, or with the link's rate if
    /// there is no guarantee; and with the link's largest packet.
    pub setup: Setup,
}

impl FlowSetup {
    /// A flow with a queue.
    pub fn new(values: Values, limit: Limit) -> FlowSetup {
        FlowSetup { values, limit, inner: None }
    }
}

impl Setup {
    /// The flows with queues, depth first: each flow that has no inner discipline, and the leaves
    /// of each inner discipline.
    pub fn leaves(&self) -> Vec<&FlowSetup> {
        let mut all = Vec::with_capacity(self.flows.len());
        self.add_leaves(&mut all);
        all
    }
    fn add_leaves<'a>(&'a self, all: &mut Vec<&'a FlowSetup>) {
        for flow in &self.flows {
            match &flow.inner {
                Some(inner) => inner.setup.add_leaves(all),
                None => all.push(flow),
            }
        }
    }
    /// Number of [leaves](Setup::leaves).
    pub fn number_of_leaves(&self) -> usize {
        let of = |flow: &FlowSetup| {
            flow.inner.as_ref().map_or(1, |inner| inner.setup.number_of_leaves())
        };
        self.flows.iter().map(of).sum()
    }
    /// Returns true if `is_so` holds for one of the leaves. It builds no list, because there may be
    /// a hundred thousand leaves.
    pub fn any_leaf(&self, is_so: &mut impl FnMut(&FlowSetup) -> bool) -> bool {
        self.flows.iter().any(|flow| match &flow.inner {
            Some(inner) => inner.setup.any_leaf(is_so),
            None => is_so(flow),
        })
    }
    /// The setup in which each flow that a discipline of `kind` divides is replaced by the flows
    /// below it. Flows that other disciplines divide stay.
    pub(crate) fn flattened(&self, kind: &str) -> Cow<'_, Setup> {
        let own = |f: &FlowSetup| f.inner.as_ref().is_some_and(|inner| inner.kind == kind);
        if !self.flows.iter().any(own) {
            return Cow::Borrowed(self);
        }
        let below = |f: &FlowSetup| match &f.inner {
            Some(inner) if inner.kind == kind => inner.setup.flattened(kind).into_owned().flows,
            _ => Vec::from([f.clone()]),
        };
        let Setup { rate, largest, ref scheduler, ref flows } = *self;
        Cow::Owned(Setup {
            rate,
            largest,
            scheduler: scheduler.clone(),
            flows: flows.iter().flat_map(below).collect(),
        })
    }
    /// The flow that is, or contains, the `n`th of the [leaves](Setup::leaves).
    pub fn flow_of_leaf(&self, n: usize) -> Option<usize> {
        self.way_to_leaf(n).map(|(f, _)| f)
    }
    /// The flow that is, or contains, the `n`th of the [leaves](Setup::leaves), and the index of
    /// the leaf within it.
    pub fn way_to_leaf(&self, mut n: usize) -> Option<(usize, usize)> {
        for (f, flow) in self.flows.iter().enumerate() {
            let leaves = flow.inner.as_ref().map_or(1, |inner| inner.setup.number_of_leaves());
            if n < leaves {
                return Some((f, n));
            }
            n -= leaves;
        }
        None
    }
    /// The `n`th of the [leaves](Setup::leaves).
    pub fn leaf_mut(&mut self, n: usize) -> Option<&mut FlowSetup> {
        let (f, within) = self.way_to_leaf(n)?;
        let flow = &mut self.flows[f];
        if flow.inner.is_none() {
            return Some(flow);
        }
        flow.inner.as_mut().and_then(|inner| inner.setup.leaf_mut(within))
    }
    /// Transmission time of the largest packet (MTU/C in the papers).
    pub fn largest_airtime(&self) -> Span {
        self.rate.airtime(self.largest)
    }
}

/// The reason why a discipline cannot give its guarantees on a setup, and the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The flow with the error, or `None` for a value of the scheduler. If the discipline serves a
    /// whole tree: the index among all classes, depth first.
    pub flow: Option<usize>,
    /// The key of the refused value.
    pub param: &'static str,
    /// The fault.
    pub what: String,
    /// The cure.
    pub help: String,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}`: {}; {}", self.param, self.what, self.help)
    }
}
impl core::error::Error for ConfigError {}

/// All errors of a setup that a discipline refuses: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Returns these errors, or `Ok` if the list is empty.
    pub(crate) fn of(refused: Vec<ConfigError>) -> Result<(), ConfigErrors> {
        if refused.is_empty() { Ok(()) } else { Err(ConfigErrors(refused)) }
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(refused: ConfigError) -> ConfigErrors {
        ConfigErrors(alloc::vec![refused])
    }
}

impl FromIterator<ConfigError> for ConfigErrors {
    fn from_iter<I: IntoIterator<Item = ConfigError>>(all: I) -> ConfigErrors {
        ConfigErrors(all.into_iter().collect())
    }
}
impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = alloc::vec::IntoIter<ConfigError>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl core::fmt::Display for ConfigErrors {
    /// One error per line.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (n, refused) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            refused.fmt(f)?;
        }
        Ok(())
    }
}
impl core::error::Error for ConfigErrors {}
