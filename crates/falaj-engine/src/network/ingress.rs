//! Whose packets are where they enter a pipe, and what of them counts.

use crate::account::Account;
use crate::classifier::{Classifier, Match};
use crate::masks::Masks;

/// How packets are sorted where they enter a pipe.
#[derive(Debug, Clone)]
pub(super) struct Ingress {
    pub(super) classifier: Classifier,
    pub(super) account: Account,
    pub(super) masks: Masks,
    pub(super) masked: bool,
    /// Any of that depends on a packet's key.
    pub(super) wants_key: bool,
}

impl Ingress {
    pub(super) fn new(classifier: Classifier, account: Account, masks: Masks) -> Ingress {
        let masked = !masks.is_none();
        Ingress { wants_key: classifier.wants_key() || masked, classifier, account, masks, masked }
    }

    /// For what passes no link.
    pub(super) fn open() -> Ingress {
        Ingress::new(Classifier::new([&[Match::ANY][..]]), Account::Ip, Masks::default())
    }
}
