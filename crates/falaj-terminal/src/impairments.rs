//! Describes a link's effects on packets in words, and their consequences for guarantees.

use crate::text;
use falaj_engine::framing::Cells;
use falaj_engine::impair::transit::Impairment;
use falaj_engine::pipe::Pace;
use falaj_scenario::Direction;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::time::Span;

/// Describes each effect in a few words: `loses 1%`, `jitter 5ms`.
pub fn words(direction: &Direction) -> Vec<String> {
    let what = &direction.pipe.impairments;
    let capacity = match &direction.pipe.capacity {
        Capacity::Serialise => None,
        Capacity::TokenBucket(bytes) => Some(format!("token bucket of {bytes}B")),
        Capacity::TwoBuckets { burst, peak, peak_burst } => {
            Some(format!("token buckets of {burst}B and, at a peak of {peak}, {peak_burst}B"))
        }
        Capacity::Steps(steps) => {
            let (low, high) = steps.range();
            Some(format!("the mean of {low} to {high}"))
        }
        Capacity::Opportunities(_) => Some("the mean of a trace of packets".to_owned()),
    };
    let framing = direction.pipe.framing.map(|framing| match (framing.overhead, framing.cells) {
        (0, cells) => format!("{cells:?} cells").to_lowercase(),
        (overhead, Cells::None) => format!("overhead {overhead}B"),
        (overhead, cells) => format!("overhead {overhead}B in {cells:?} cells").to_lowercase(),
    });
    let pace = match direction.pipe.pace {
        Pace::Falaj => None,
        Pace::Device { backlog } => Some(format!("paced by its device, which holds {backlog}B")),
    };
    let link = [framing, capacity, pace].into_iter().flatten();
    link.chain(what.all().map(Impairment::words)).collect()
}

/// Describes the consequences of a link's effects for guarantees, one per line.
pub fn guarantees(direction: &Direction) -> Vec<String> {
    let what = &direction.pipe.impairments;
    let mut out = Vec::new();
    let held = direction.pipe.clone().held_by_device();
    if held > Span::ZERO {
        let held = text::nanos(held.0 as f64);
        out.push(format!(
            "the device gets packets ahead of time: `delay <=` includes {held} for the wait behind \
             packets that the device holds"
        ));
    }
    if what.all().any(Impairment::loses) {
        out.push(
            "the link loses packets: bounds hold for packets that arrive; lost packets use the \
             link's time too"
                .to_owned(),
        );
    }
    if what.delays(direction.pipe.delay) != (direction.pipe.delay, direction.pipe.delay) {
        let (least, most) = what.delays(direction.pipe.delay);
        let [least, most] = [least, most].map(|d| text::nanos(d.0 as f64));
        out.push(format!(
            "in addition to `delay <=`, a packet's propagation takes {least} to {most}"
        ));
    }
    if let Some(slots) = what.slots {
        let wait = text::nanos(slots.most.0 as f64);
        out.push(if slots.packets == u64::MAX && slots.bytes == u64::MAX {
            format!("then it waits for a slot, up to {wait}")
        } else {
            format!(
                "then it waits for a slot, up to {wait}, or longer without a bound if slots are \
                 full"
            )
        });
    }
    out
}
