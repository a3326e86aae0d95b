//! Guarantee violations: they are logged when they are detected, and stored for API requests.

use super::model::{Breach, TooLong, TooSlow};
use falaj_live::event_loop::{RateViolation, Violation, ViolationCause};
use falaj_sched::units::rate::BIT_NANOS;
use falaj_terminal::text;
use std::collections::VecDeque;
use tracing::{error, info, warn};

/// Maximum number of violations that are stored of each kind. Delay violations have one kind for
/// each cause.
const KEPT: usize = 256;
/// Maximum number of violations of each kind that are logged one by one in a second.
const TOLD: usize = 3;

/// Number of kinds; each has its own storage limit.
const KINDS: usize = ViolationCause::ALL.len() + 1;

fn kind(breach: &Breach) -> usize {
    match breach {
        Breach::Delay(late) => cause(late) as usize,
        Breach::Rate(_) => ViolationCause::ALL.len(),
    }
}

fn cause(late: &TooLong) -> ViolationCause {
    ViolationCause::ALL
        .into_iter()
        .find(|cause| cause.name() == late.cause)
        .unwrap_or(ViolationCause::Guarantee)
}

impl From<&Violation> for Breach {
    fn from(late: &Violation) -> Breach {
        Breach::Delay(TooLong {
            number: late.number,
            flow: late.flow.clone(),
            cause: late.cause.name().into(),
            bound_ns: late.bound.0,
            arrival_ns: late.arrival.0,
            end_ns: late.end.0,
            handed_over_ns: late.handed_over.map(|then| then.0),
        })
    }
}

impl From<&RateViolation> for Breach {
    fn from(short: &RateViolation) -> Breach {
        let RateViolation { number, ref flow, rate, proof } = *short;
        let nanos = u128::from(proof.to.since(proof.from).0.max(1));
        let sent = u128::from(proof.served) * u128::from(BIT_NANOS) / nanos;
        Breach::Rate(TooSlow {
            number,
            flow: flow.clone(),
            begin_ns: proof.from.0,
            end_ns: proof.to.0,
            served_bytes: proof.served,
            guaranteed_bytes: proof.guaranteed,
            sent: u64::try_from(sent).unwrap_or(u64::MAX),
            guaranteed: rate.0,
        })
    }
}

/// An empty queue with capacity for all violations that are ever kept, and some more.
pub(super) fn none() -> VecDeque<Breach> {
    VecDeque::with_capacity((KINDS + 1) * KEPT)
}

/// Appends new violations, and keeps only the last violations of each kind.
pub(super) fn keep(breaches: &mut VecDeque<Breach>, new: Vec<Breach>) {
    breaches.extend(new);
    let mut beyond = [0_usize; KINDS];
    breaches.iter().for_each(|breach| beyond[kind(breach)] += 1);
    beyond.iter_mut().for_each(|number| *number = number.saturating_sub(KEPT));
    breaches.retain(|breach| {
        let beyond = &mut beyond[kind(breach)];
        let goes = *beyond > 0;
        *beyond -= usize::from(goes);
        !goes
    });
}

/// Logs a few violations of each kind, and the number of the others.
pub(super) fn tell(new: &[Breach]) {
    let mut told = [0_usize; KINDS];
    for breach in new {
        let alike = &mut told[kind(breach)];
        *alike += 1;
        if *alike <= TOLD {
            match breach {
                Breach::Delay(late) => tell_too_long(late),
                Breach::Rate(slow) => tell_too_slow(slow),
            }
        }
    }
    let more: usize = told.iter().map(|alike| alike.saturating_sub(TOLD)).sum();
    if more > 0 {
        warn!(more, "and {more} more in this second");
    }
}

fn tell_too_long(late: &TooLong) {
    let (flow, cause, guaranteed_ns, arrival_ns) =
        (&late.flow[..], cause(late), late.bound_ns, late.arrival_ns);
    let stayed_ns = late.handed_over_ns.unwrap_or(late.end_ns).saturating_sub(arrival_ns);
    let why = match cause {
        ViolationCause::OwnBurst => "the flow had sent more than its envelope allows",
        ViolationCause::Host if late.handed_over_ns.is_none() => {
            "this host stood still, and packets were read together afterwards"
        }
        ViolationCause::Host => "delivered late by this host; it was scheduled in time",
        ViolationCause::Guarantee => "the guarantee was violated",
    };
    let [stayed, guaranteed, came] =
        [stayed_ns, guaranteed_ns, arrival_ns].map(|nanos| text::nanos(nanos as f64));
    let words = format!(
        "{flow}: a packet stayed {stayed}, guaranteed {guaranteed}: {why} (it came {came} after the start)"
    );
    let name = cause.name();
    match cause {
        ViolationCause::OwnBurst => {
            info!(flow, cause = name, stayed_ns, guaranteed_ns, arrival_ns, "{words}");
        }
        ViolationCause::Host => {
            warn!(flow, cause = name, stayed_ns, guaranteed_ns, arrival_ns, "{words}");
        }
        ViolationCause::Guarantee => {
            error!(flow, cause = name, stayed_ns, guaranteed_ns, arrival_ns, "{words}");
        }
    }
}

fn tell_too_slow(slow: &TooSlow) {
    let &TooSlow { ref flow, served_bytes, guaranteed_bytes, guaranteed, begin_ns, end_ns, .. } =
        slow;
    let [over, began] = [end_ns.saturating_sub(begin_ns), begin_ns].map(|n| text::nanos(n as f64));
    let (flow, rate) = (&flow[..], text::rate(guaranteed as f64));
    let words = format!(
        "{flow}: {served_bytes} B left in {over}, but the guaranteed rate of {rate} requires \
         {guaranteed_bytes} B: the guarantee was violated (from {began} after the start)"
    );
    error!(flow, served_bytes, guaranteed_bytes, guaranteed, begin_ns, end_ns, "{words}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_engine::guaranteed_rate::RateShortfall;
    use falaj_sched::units::rate::Rate;
    use falaj_sched::units::time::{Span, Time};

    fn late(number: u64, cause: ViolationCause) -> Breach {
        let (bound, arrival, end) = (Span(1), Time(0), Time(2));
        (&Violation { number, flow: "a".into(), cause, bound, arrival, end, handed_over: None })
            .into()
    }

    /// A rate violation: 10 of the guaranteed 20 bytes were served in 40 ns.
    fn slow() -> Breach {
        let proof = RateShortfall { from: Time(5), to: Time(45), served: 10, guaranteed: 20 };
        let (number, flow, rate) = (1, "wire up a".into(), Rate(4_000_000_000));
        (&RateViolation { number, flow, rate, proof }).into()
    }

    #[test]
    fn breaches_of_one_kind_push_out_none_of_another() {
        let slow = slow();
        let mut breaches = VecDeque::new();
        keep(&mut breaches, vec![late(1, ViolationCause::Guarantee), slow]);
        for second in 0..5 {
            let from = 2 + 100 * second;
            keep(
                &mut breaches,
                (from..from + 100).map(|number| late(number, ViolationCause::OwnBurst)).collect(),
            );
        }
        let number = |breach: &Breach| match breach {
            Breach::Delay(late) => Some(late.number),
            Breach::Rate(_) => None,
        };
        let numbers: Vec<Option<u64>> = breaches.iter().map(number).collect();
        let last = 502 - KEPT as u64;
        assert_eq!(
            numbers,
            [Some(1), None].into_iter().chain((last..502).map(Some)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn each_says_what_kind_it_is() {
        let json = serde_json::to_value(slow()).expect("JSON");
        let said = serde_json::json!({
            "kind": "rate", "number": 1, "flow": "wire up a", "begin_ns": 5, "end_ns": 45,
            "served_bytes": 10, "guaranteed_bytes": 20, "sent": 2_000_000_000,
            "guaranteed": 4_000_000_000_u64
        });
        assert_eq!(json, said);
        let json = serde_json::to_value(late(3, ViolationCause::Host)).expect("JSON");
        assert_eq!(
            (&json["kind"], &json["cause"], &json["number"]),
            (&"delay".into(), &"host".into(), &3.into())
        );
    }
}
