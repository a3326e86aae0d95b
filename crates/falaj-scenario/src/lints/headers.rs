//! Headers that decide if traffic fits.

use super::amount::rate;
use crate::diagnostics::Problem;
use crate::model::Source;
use crate::suggest::quoted;
use falaj_engine::counted_layer::CountedLayer;
use falaj_sched::units::rate::Rate;
use std::ops::Range;

/// Headers that decide if a flow's traffic fits.
pub(crate) struct Headers {
    /// Rate of the sources as written, with headers or without.
    written: Rate,
    /// If `fits`: the rate with headers, if the written rate counts payload. Otherwise the rate of
    /// the payload in the written rate, which then counts headers.
    other: Rate,
    /// True if the written rate is within the limit.
    fits: bool,
    /// Headers relative to the payload, in percent.
    added: f64,
    limit: Rate,
    layer: CountedLayer,
    /// The first source's size, and that size with headers.
    size: (u32, u32),
}

/// Below this percentage headers are negligible.
const HEADERS: f64 = 10.0;

/// Traffic of small packets that fits in `limit` only as the link accounts it, but not as payload
/// with headers; or that does not fit because of its headers alone. The sources share the direction
/// with this layer.
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
    // With different sizes, the headers of the mean one.
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
    /// `flow` is the flow whose guarantee is the limit; `None`: the link's rate.
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
            Problem::warning(at, format!("{who}: its traffic does not fit, by its headers alone"))
                .label(format!(
                    "{written} are beyond {limit}; {added:.0} % on top of {other} of payload are \
                     headers"
                ))
                .help(format!("{meant}: a rate and a size count Ethernet, IP and UDP headers"))
                .help("`layer = \"payload\"`, if all these rates and sizes are to count payload")
        }
    }
}
