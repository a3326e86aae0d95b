//! Warnings about sources that certainly send more than the envelope of their flow allows. A
//! guarantee for the envelope does not hold for them.

use crate::diagnostics::Problem;
use crate::model::{Bucket, Direction, Source};
use crate::suggest::quoted;
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_traffic::source::Model;
use std::ops::Range;

/// Warns of such sources among `sources`, the sources of one direction with their places in the
/// file.
pub(crate) fn envelopes(
    direction: &Direction,
    sources: &[&(Source, Range<usize>)],
    problems: &mut Vec<Problem>,
) {
    // If a mask divides the link or the flow, each of the resulting flows has the envelope, and the
    // distribution of sources over these flows is unknown here.
    let single = |flow: &usize| {
        direction.pipe.masks.link.is_none() && direction.pipe.masks.of(*flow).is_none()
    };
    for flow in (0..direction.flows.len()).filter(single) {
        let own: Vec<_> = sources.iter().filter(|(source, _)| source.flow == flow).collect();
        let Some((_, at)) = own.first() else { continue };
        for bucket in &direction.flows[flow].envelope {
            let mean = own
                .iter()
                .fold(0u64, |sum, (source, _)| sum.saturating_add(mean(direction, source)));
            let said = if mean > bucket.rate.0 {
                let many = if own.len() > 1 {
                    format!("{} sources send", own.len())
                } else {
                    "it sends".to_owned()
                };
                Some((
                    at,
                    format!(
                        "{many} {} in the long run, and the envelope allows {}",
                        Rate(mean),
                        bucket.rate
                    ),
                ))
            } else {
                own.iter().find_map(|(source, at)| Some((at, at_once(direction, source, bucket)?)))
            };
            let Some((at, label)) = said else { continue };
            let name = quoted(&direction.flows[flow].name);
            problems.push(
                Problem::warning(
                    at.clone(),
                    format!("flow {name}: its traffic exceeds its envelope"),
                )
                .label(label)
                .help("delays guaranteed for the envelope are not guaranteed for this traffic")
                .help("send less, declare more, or let the traffic pass a bucket: `shaped = { rate = …, burst = … }`"),
            );
            break;
        }
    }
}

/// Mean rate of a source in bit/s, by the bytes that the link accounts for its packets.
fn mean(direction: &Direction, source: &Source) -> u64 {
    let (bytes, times) = source.spec().mean_size();
    let size = (bytes / times.max(1)).max(1) as u32;
    let mean =
        u128::from(source.mean_rate().0) * u128::from(direction.cost(size)) / u128::from(size);
    u64::try_from(mean).unwrap_or(u64::MAX)
}

/// If one source sends more at once than this bucket holds, the reason in words.
fn at_once(direction: &Direction, source: &Source, bucket: &Bucket) -> Option<String> {
    let spec = source.spec();
    let packet = u64::from(direction.cost(spec.largest()));
    if packet > bucket.burst {
        return Some(format!(
            "a packet of {packet} B is more than the {} B that the envelope allows at once",
            bucket.burst
        ));
    }
    let (what, most) = match &spec.model {
        // The bytes of a burst of mean length, minus the bytes by which the bucket fills during the
        // burst.
        Model::OnOff { on, .. } if spec.limit.is_none() => {
            let beyond = u128::from(spec.rate.0.saturating_sub(bucket.rate.0)) * u128::from(on.0);
            let bytes = u64::try_from(beyond / u128::from(BIT_NANOS)).unwrap_or(u64::MAX);
            ("a burst of mean length", bytes.saturating_add(packet))
        }
        Model::Greedy(_) => ("it", spec.at_most(|bytes| direction.cost(bytes))?.1.into()),
        _ => return None,
    };
    let over = most > bucket.burst;
    over.then(|| {
        format!("{what} brings {most} B at once, and the envelope allows {} B", bucket.burst)
    })
}
