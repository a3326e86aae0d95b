//! What was not as promised: told when it is seen, and remembered for whoever asks.

use super::model::{Breach, TooLong, TooSlow};
use falaj_live::event_loop::{Violation, ViolationCause};
use falaj_terminal::text;
use std::collections::VecDeque;
use tracing::{error, info, warn};

/// So many of each kind are kept, packets by their cause.
const KEPT: usize = 256;
/// And so many of each kind of those of one second are told one by one.
const TOLD: usize = 3;

/// Kinds that push out none of another.
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

/// None yet, with room for as many as are ever kept and some more.
pub(super) fn none() -> VecDeque<Breach> {
    VecDeque::with_capacity((KINDS + 1) * KEPT)
}

/// These too, and of each kind the last ones.
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

/// Says so: a few of each kind, and how many there are.
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
    let (flow, cause, promised_ns, arrival_ns) =
        (&late.flow[..], cause(late), late.bound_ns, late.arrival_ns);
    let stayed_ns = late.handed_over_ns.unwrap_or(late.end_ns).saturating_sub(arrival_ns);
    let why = match cause {
        ViolationCause::OwnBurst => "it had sent more than its envelope",
        ViolationCause::Host => "it left in time, and this host handed it over late",
        ViolationCause::Guarantee => "the promise was not kept",
    };
    let [stayed, promised, came] =
        [stayed_ns, promised_ns, arrival_ns].map(|nanos| text::nanos(nanos as f64));
    let words = format!(
        "{flow}: a packet stayed {stayed}, promised {promised}: {why} (it came {came} after the start)"
    );
    let name = cause.name();
    match cause {
        ViolationCause::OwnBurst => {
            info!(flow, cause = name, stayed_ns, promised_ns, arrival_ns, "{words}");
        }
        ViolationCause::Host => {
            warn!(flow, cause = name, stayed_ns, promised_ns, arrival_ns, "{words}");
        }
        ViolationCause::Guarantee => {
            error!(flow, cause = name, stayed_ns, promised_ns, arrival_ns, "{words}");
        }
    }
}

fn tell_too_slow(slow: &TooSlow) {
    let TooSlow { flow, sent, promised, begin_ns, end_ns } = slow;
    let over = text::nanos(end_ns.saturating_sub(*begin_ns) as f64);
    let (flow, sent_bits_per_s, promised_bits_per_s) = (&flow[..], *sent, *promised);
    let words =
        format!("{flow}: less than the promised rate was sent for {over}, while packets waited");
    error!(flow, sent_bits_per_s, promised_bits_per_s, "{words}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::time::{Span, Time};

    fn late(number: u64, cause: ViolationCause) -> Breach {
        let (bound, arrival, end) = (Span(1), Time(0), Time(2));
        (&Violation { number, flow: "a".into(), cause, bound, arrival, end, handed_over: None })
            .into()
    }

    #[test]
    fn breaches_of_one_kind_push_out_none_of_another() {
        let slow = Breach::Rate(TooSlow {
            flow: "a".into(),
            begin_ns: 0,
            end_ns: 1,
            sent: 1,
            promised: 2,
        });
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
        let slow =
            TooSlow { flow: "wire up a".into(), begin_ns: 5, end_ns: 7, sent: 10, promised: 20 };
        let json = serde_json::to_value(Breach::Rate(slow)).expect("JSON");
        let said = serde_json::json!({
            "kind": "rate", "flow": "wire up a", "begin_ns": 5, "end_ns": 7, "sent": 10,
            "promised": 20
        });
        assert_eq!(json, said);
        let json = serde_json::to_value(late(3, ViolationCause::Host)).expect("JSON");
        assert_eq!(
            (&json["kind"], &json["cause"], &json["number"]),
            (&"delay".into(), &"host".into(), &3.into())
        );
    }
}
