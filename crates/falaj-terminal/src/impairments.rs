//! What a link does to packets, in words: a line of it, and what it means for promises.

use crate::text;
use falaj_engine::framing::Cells;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::loss::Loss;
use falaj_engine::pipe::Pace;
use falaj_scenario::Direction;
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::Span;

/// Each thing in a few words: `loses 1%`, `jitter 5ms`.
pub fn words(direction: &Direction) -> Vec<String> {
    let what = &direction.pipe.impairments;
    let often = |event: RandomEvent| match event.correlation {
        Probability::NEVER => event.probability.to_string(),
        c => format!("{} (correlation {c})", event.probability),
    };
    let loss = what.loss.as_ref().map(|loss| match loss {
        Loss::Random(event) => format!("loses {}", often(*event)),
        Loss::GilbertElliott(_) | Loss::FourStates(_) => {
            format!("loses {} in bursts", Probability::from_f64((loss.mean() * 1e6).round() / 1e6))
        }
        Loss::Every(n) => format!("loses 1 packet of {n}"),
        Loss::Numbers(_) => "loses packets by number".to_owned(),
    });
    let jitter = what.jitter.as_ref().map(|jitter| format!("jitter {}", jitter.amount));
    let slots = what.slots.map(|slots| match slots.least == slots.most {
        true => format!("slots every {}", slots.least),
        false => format!("slots every {} to {}", slots.least, slots.most),
    });
    let profile = what.profile.as_ref().map(|profile| format!("profile up to {}", profile.most()));
    let event = |what: &str, event: Option<RandomEvent>| Some(format!("{what} {}", often(event?)));
    let capacity = match &direction.pipe.capacity {
        Capacity::Serialise => None,
        Capacity::TokenBucket(bytes) => Some(format!("token bucket of {bytes}B")),
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
    [
        framing,
        capacity,
        pace,
        loss,
        event("doubles", what.duplicate),
        event("corrupts", what.corrupt),
        event("reorders", what.reorder.map(|r| r.event)),
        jitter,
        profile,
        slots,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What becomes of promises on such a link, a line for each.
pub fn promises(direction: &Direction) -> Vec<String> {
    let what = &direction.pipe.impairments;
    let mut out = Vec::new();
    let held = direction.pipe.clone().held_by_device();
    if held > Span::ZERO {
        let held = text::nanos(held.0 as f64);
        out.push(format!(
            "the device is handed packets ahead of time: {held} of delay <= is what it holds"
        ));
    }
    if what.loss.is_some() || what.profile.as_ref().is_some_and(|profile| profile.loss() > 0.0) {
        out.push(
            "the link loses packets: bounds hold for those that arrive, and they have used its time all the same"
                .to_owned(),
        );
    }
    if what.delays(direction.pipe.delay) != (direction.pipe.delay, direction.pipe.delay) {
        let (least, most) = what.delays(direction.pipe.delay);
        let [least, most] = [least, most].map(|d| text::nanos(d.0 as f64));
        out.push(format!("on the link a packet is {least} to {most} on its way, beyond delay <="));
    }
    if let Some(slots) = what.slots {
        let wait = text::nanos(slots.most.0 as f64);
        out.push(if slots.packets == u64::MAX && slots.bytes == u64::MAX {
            format!("then it waits for a slot, up to {wait}")
        } else {
            format!(
                "then it waits for a slot, up to {wait}, and longer where slots are full: for that there is no bound"
            )
        });
    }
    out
}
