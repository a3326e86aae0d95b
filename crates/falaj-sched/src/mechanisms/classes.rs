//! A tree of classes that a discipline receives as a whole.
//!
//! A flow that is divided by a scheduler of the discipline's own kind is an inner class, between
//! the link and the leaves. Each class has a number: the leaves come first, in the order of their
//! queues. The inner classes follow, each before the classes below it. The parent of a class is a
//! *node*: the link is node 0, and the inner classes are the other nodes.

use crate::contract::guarantee::{admits_one, finite_rate};
use crate::contract::params::{ConfigError, FlowSetup, Setup};
use alloc::format;
use alloc::vec::Vec;

/// Maximum number of levels of classes below a link.
pub const DEEPEST: usize = 8;

/// The node of the link.
pub(crate) const LINK: usize = 0;

/// The structure of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    leaves: usize,
    /// The node above each class.
    above: Vec<u32>,
}

impl Shape {
    #[inline]
    pub(crate) fn is_leaf(&self, class: u32) -> bool {
        (class as usize) < self.leaves
    }
    /// The node of a divided class.
    #[inline]
    pub(crate) fn node(&self, class: u32) -> usize {
        class as usize - self.leaves + 1
    }
    /// The class of a node. The link has no class and must not be passed.
    #[inline]
    pub(crate) fn class(&self, node: usize) -> u32 {
        (self.leaves + node - 1) as u32
    }
    /// The node above a class.
    #[inline]
    pub(crate) fn above(&self, class: u32) -> usize {
        self.above[class as usize] as usize
    }
    pub(crate) fn leaves(&self) -> usize {
        self.leaves
    }
    /// Number of classes, including the leaves.
    pub(crate) fn len(&self) -> usize {
        self.above.len()
    }
    /// Number of nodes, including the link.
    pub(crate) fn nodes(&self) -> usize {
        self.above.len() - self.leaves + 1
    }
    /// The class itself, and the classes above it.
    #[inline]
    pub(crate) fn path(&self, class: u32) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(class), |&class| match self.above(class) {
            LINK => None,
            node => Some(self.class(node)),
        })
    }
    /// The classes directly below a node.
    pub(crate) fn below(&self, node: usize) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter(move |&class| self.above(class) == node)
    }
    /// Returns true if every node of `old` is unchanged.
    pub(crate) fn keeps(&self, old: &Shape) -> bool {
        let own = self.above.get(self.leaves..).and_then(|above| above.get(..old.nodes() - 1));
        own == old.above.get(old.leaves..)
    }
}

/// A tree's structure, and the setup of each class.
pub(crate) struct Classes<'a> {
    pub(crate) shape: Shape,
    pub(crate) setups: Vec<&'a FlowSetup>,
    /// Number of each class in errors, which counts all classes depth first.
    pub(crate) numbers: Vec<usize>,
}

impl<'a> Classes<'a> {
    /// Collects the classes of `setup`. A flow may be divided by the same discipline, `kind`.
    /// Errors call the discipline `what`.
    pub(crate) fn new(
        kind: &str,
        what: &'static str,
        setup: &'a Setup,
    ) -> Result<Classes<'a>, ConfigError> {
        finite_rate(setup, what)?;
        let mut walk = Walk { kind, leaves: Vec::new(), nodes: Vec::new(), seen: 0 };
        walk.down(setup, LINK, 1)?;
        let leaves = walk.leaves.len();
        let all = walk.leaves.into_iter().chain(walk.nodes);
        let mut classes = Classes {
            shape: Shape { leaves, above: Vec::new() },
            setups: Vec::new(),
            numbers: Vec::new(),
        };
        for (setup, above, number) in all {
            classes.shape.above.push(above as u32);
            classes.setups.push(setup);
            classes.numbers.push(number);
        }
        for (leaf, flow) in classes.setups[..leaves].iter().enumerate() {
            if flow.inner.is_none() {
                admits_one(setup, flow.limit, Some(classes.numbers[leaf]))?;
            }
        }
        Ok(classes)
    }

    /// All classes, with their numbers in errors.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, usize, &'a FlowSetup)> {
        let numbered = self.numbers.iter().zip(&self.setups);
        numbered.enumerate().map(|(class, (&number, &setup))| (class as u32, number, setup))
    }
}

/// A class: its setup, the node above it, and its number in errors.
type Found<'a> = (&'a FlowSetup, usize, usize);

struct Walk<'a, 'k> {
    kind: &'k str,
    leaves: Vec<Found<'a>>,
    nodes: Vec<Found<'a>>,
    seen: usize,
}

impl<'a> Walk<'a, '_> {
    fn down(&mut self, setup: &'a Setup, node: usize, level: usize) -> Result<(), ConfigError> {
        for flow in &setup.flows {
            let number = self.seen;
            self.seen += 1;
            match flow.inner.as_deref().filter(|inner| inner.kind == self.kind) {
                None => self.leaves.push((flow, node, number)),
                Some(_) if level == DEEPEST => {
                    return Err(ConfigError {
                        flow: Some(number),
                        param: "flow",
                        what: format!("it is divided {DEEPEST} levels below the link"),
                        help: format!(
                            "at most {DEEPEST} levels of classes; leave some out that divide nothing"
                        ),
                    });
                }
                Some(inner) => {
                    self.nodes.push((flow, node, number));
                    self.down(&inner.setup, self.nodes.len(), level + 1)?;
                }
            }
        }
        Ok(())
    }
}
