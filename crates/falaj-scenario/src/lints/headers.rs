//! Warnings for small packets, if only their headers decide whether the traffic fits.

use super::amount::rate;
use crate::diagnostics::Problem;
use crate::model::Source;
use crate::suggest::quoted;
use falaj_engine::counted_layer::CountedLayer;
use falaj_sched::units::rate::Rate;
use std::ops::Range;

/// Traffic of a flow or of a link that fits or not, depending on whether headers are counted.
pub(crate) struct Headers {
    /// Rate of the sources as written, with headers or without.
    written: Rate,
    /// If `fits` is true, the rate with headers, computed as if the written rate counts only
    /// payload. Otherwise the rate of the payload alone, computed as if the written rate includes
    /// headers.
    other: Rate,
    /// True if the written rate is within the limit.
    fits: bool,
    /// Length of the headers in percent of the payload.
    added: f64,
    limit: Rate,
    layer: CountedLayer,
    /// The size of the first source's largest packet as written, and the same size with headers
    /// added.
    size: (u32, u32),
}

/// If headers are less than this percentage of the payload, they are ignored.
const HEADERS: f64 = 10.0;

/// Finds traffic of small packets that fits in `limit` only if the written rate includes headers,
/// or that fits only without its headers. All sources send in one direction, with this accounting
/// layer.
pub(crate) fn headers(sources: &[&Source], layer: CountedLayer, limit: Rate) -> Option<Headers> {
    let size = sources.first()?.sizes.most();
    if limit.is_unlimited() || limit.0 == 0 {
        return None;
    }
    let sum = |of: &dyn Fn(&Source) -> Option<(u32, u32)>| {
        sources.iter().try_fold(0u64, |sum, s| {
            let (to, from) = of(s)?;
            let rate = u128::from(s.mean_rate().0) * u128::from(to) / u128::from(from.max(1));
            Some(sum.saturating_add(u64::try_from(rate).unwrap_or(u64::MAX)))
        })
    };
    let written = sum(&|_| Some((1, 1)))?;
    // If sizes differ, the mean size decides.
    let mean = |s: &Source| {
        let (bytes, times) = s.spec().mean_size();
        (bytes / times.max(1)) as u32
    };
    let payload = sum(&|s| Some((layer.udp_payload(mean(s))?, mean(s))))?;
    let around = sum(&|s| Some((layer.from_udp(mean(s)), mean(s))))?;
    let fits = written <= limit.0;
    let (other, added) = if fits {
        (around, around as f64 / written.max(1) as f64)
    } else {
        (payload, written as f64 / payload.max(1) as f64)
    };
    let added = (added - 1.0) * 100.0;
    ((other <= limit.0) != fits && added >= HEADERS).then_some(Headers {
        written: Rate(written),
        other: Rate(other),
        fits,
        added,
        limit,
        layer,
        size: (size, layer.from_udp(size)),
    })
}

impl Headers {
    /// The warning. `flow` is the flow whose guaranteed rate is the limit; with `None` the limit is
    /// the link's rate.
    pub(crate) fn problem(&self, at: Range<usize>, link: &str, flow: Option<&str>) -> Problem {
        let (written, other, limit, added) =
            (rate(self.written), rate(self.other), rate(self.limit), self.added);
        let (who, limit) = match flow {
            Some(flow) => {
                (format!("flow {}", quoted(flow)), format!("the {limit} that it is guaranteed"))
            }
            None => (format!("link {}", quoted(link)), format!("its {limit}")),
        };
        let layer = self.layer.name();
        let meant = format!("`layer = \"{layer}\"` in the link's table says that this is meant");
        let (size, whole) = self.size;
        if self.fits {
            Problem::warning(
                at,
                format!("{who}: its traffic fits only if `rate` and `size` count headers"),
            )
            .label(format!("as payload it takes {added:.0} % more: {other}, beyond {limit}"))
            .help(format!("{meant}: a rate and a size count Ethernet, IP and UDP headers"))
            .help(format!(
                "an application's {size} B of payload are `size = \"{whole}B\"`, and its `rate` \
                 grows alike"
            ))
        } else {
            Problem::warning(
                at,
                format!("{who}: its traffic does not fit, only because of its headers"),
            )
            .label(format!(
                "{written} are beyond {limit}; {added:.0} % on top of {other} of payload are \
                     headers"
            ))
            .help(format!("{meant}: a rate and a size count Ethernet, IP and UDP headers"))
            .help("`layer = \"payload\"`, if all these rates and sizes are to count payload")
        }
    }
}
