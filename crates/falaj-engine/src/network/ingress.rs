//! The classification and accounting of packets that enter a pipe.

use crate::classifier::{Classifier, Match};
use crate::counted_layer::CountedLayer;
use crate::masks::Masks;

/// The classification, accounting and masks of packets that enter a pipe.
#[derive(Debug, Clone)]
pub(super) struct Ingress {
    pub(super) classifier: Classifier,
    pub(super) layer: CountedLayer,
    pub(super) masks: Masks,
    pub(super) masked: bool,
    /// True if the classifier or a mask depends on a packet's key.
    pub(super) wants_key: bool,
}

impl Ingress {
    pub(super) fn new(classifier: Classifier, layer: CountedLayer, masks: Masks) -> Ingress {
        let masked = !masks.is_none();
        Ingress { wants_key: classifier.wants_key() || masked, classifier, layer, masks, masked }
    }

    /// The ingress for packets that pass no link.
    pub(super) fn open() -> Ingress {
        Ingress::new(Classifier::new([&[Match::ANY][..]]), CountedLayer::Ip, Masks::default())
    }
}
