//! Names of the methods of bounds over several links.

use falaj_theory::network::BoundMethod;

/// A method of bounds over several links, as options name it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Method {
    /// Total flow analysis: the delays of all queues, added
    #[value(alias = "tfa")]
    Sum,
    /// Separated flow analysis: all queues as one, which pays for a burst once
    #[value(alias = "sfa")]
    AsOne,
    /// A linear program, if all paths together have at most 64 queues
    #[value(alias = "plp")]
    Linear,
}

impl Method {
    /// All methods, in the order of columns.
    pub(super) const ALL: [Method; 3] = [Method::Sum, Method::AsOne, Method::Linear];

    /// Returns the same method as `falaj-theory` names it.
    pub(super) fn of_theory(self) -> BoundMethod {
        match self {
            Method::Sum => BoundMethod::Total,
            Method::AsOne => BoundMethod::Separated,
            Method::Linear => BoundMethod::Linear,
        }
    }

    /// Returns the heading of the method's column; `places` is the word for the queues of a path,
    /// such as "links".
    pub(super) fn heading(self, places: &str) -> String {
        match self {
            Method::Sum => format!("sum of {places}"),
            Method::AsOne => format!("{places} as one"),
            Method::Linear => "linear program".into(),
        }
    }

    /// Returns the methods to show: the method `only`, or all.
    pub(super) fn shown(only: Option<Method>) -> Vec<Method> {
        only.map_or_else(|| Method::ALL.to_vec(), |method| vec![method])
    }
}
