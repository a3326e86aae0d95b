//! The ways in which the live loop waits for an instant.

use falaj_sched::units::time::{Span, Time};
use std::fmt;
use std::str::FromStr;

/// The way in which the loop waits for the next due packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timer {
    /// Polls ports and clock all the time. This occupies a processor, and no packet is late because
    /// of a wake-up.
    Spin,
    /// Sleeps until shortly before the instant (earlier by the recent wake-up latency), then spins;
    /// if other threads wait for a processor, it sleeps without spinning.
    #[default]
    Hybrid,
    /// Sleeps, and wakes at most once in `slack` while there is traffic.
    Sleep,
    /// Sleeps until a moment before the instant, however long waking up takes: for a clock that
    /// stands still during computation.
    Exact,
}

impl Timer {
    /// Names of the timers that may be configured.
    pub const NAMES: [&'static str; 3] = ["spin", "hybrid", "sleep"];
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Timer::NAMES.get(*self as usize).unwrap_or(&"exact"))
    }
}

impl FromStr for Timer {
    type Err = String;
    fn from_str(name: &str) -> Result<Timer, String> {
        let all = [Timer::Spin, Timer::Hybrid, Timer::Sleep];
        let timer = all.into_iter().find(|t| Timer::NAMES[*t as usize] == name);
        timer.ok_or_else(|| format!("a timer is one of {}", Timer::NAMES.join(", ")))
    }
}

/// Estimates the duration that one of `one_in` values of `took` exceeds: adds a step if `took` is
/// longer, otherwise subtracts the step divided by `one_in`.
#[inline]
fn follow(longest: Span, took: Span, step: Span, one_in: u64) -> Span {
    if took > longest { longest + step } else { Span(longest.0 - step.0 / one_in) }
}

/// How long before an instant the loop has to wake: the time that waking up takes, except for
/// outliers.
///
/// One wake-up in four hundred is late, so that the 99th percentile of the lateness does not depend
/// on waking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeLead(Span);

impl WakeLead {
    const FIRST: Span = Span::from_micros(60);
    const LEAST: Span = Span::from_micros(15);
    const MOST: Span = Span::from_micros(150);
    const STEP: Span = Span::from_micros(5);

    pub(crate) fn new() -> WakeLead {
        WakeLead(WakeLead::FIRST)
    }

    /// Wake-up time for a packet due at `due`. Without `slack` it is earlier by the lead, to spin
    /// for the rest. With `slack` the loop does not spin, and wakes later by the slack.
    #[inline]
    pub(crate) fn wake(self, due: Time, slack: Option<Span>) -> Time {
        match slack {
            None => self.before(due),
            Some(slack) => Time(due.0.saturating_add(slack.0)),
        }
    }

    /// The instant minus the lead.
    #[inline]
    fn before(self, instant: Time) -> Time {
        Time(instant.0.saturating_sub(self.0.0))
    }

    /// Notes that the loop wanted to wake at `wanted` and woke at `woke`.
    #[inline]
    pub(crate) fn woke(&mut self, wanted: Time, woke: Time) {
        self.0 = follow(self.0, woke.since(wanted), WakeLead::STEP, 400)
            .clamp(WakeLead::LEAST, WakeLead::MOST);
    }
}

/// The time before an instant in which no port is read, because reading could make the due packet
/// late. Its length is an estimate of the 99.5th percentile of the time for polling the ports and
/// reading a unit, limited to 4 to 30 us. That time is 2 us with warm caches, and ten times as long
/// after sleeping or if a unit is a burst of many packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietWindow(Span);

impl QuietWindow {
    const LEAST: Span = Span::from_micros(4);
    const MOST: Span = Span::from_micros(30);
    const STEP: Span = Span::from_micros(1);

    pub(crate) fn new() -> QuietWindow {
        QuietWindow(QuietWindow::LEAST)
    }

    /// The length of the window.
    #[inline]
    pub(crate) fn span(self) -> Span {
        self.0
    }

    /// Records how long a unit took.
    #[inline]
    pub(crate) fn took(&mut self, took: Span) {
        self.0 = follow(self.0, took, QuietWindow::STEP, 200)
            .clamp(QuietWindow::LEAST, QuietWindow::MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::super::adaptive_sleep;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn names() {
        for (name, timer) in
            Timer::NAMES.into_iter().zip([Timer::Spin, Timer::Hybrid, Timer::Sleep])
        {
            assert_eq!(name.parse(), Ok(timer));
            assert_eq!(timer.to_string(), name);
        }
        assert_eq!("busy".parse::<Timer>(), Err("a timer is one of spin, hybrid, sleep".into()));
    }

    proptest! {
        /// A loop that only wakes up for the earliest packet, in simulated time. However long
        /// waking up takes, nothing is delivered before it is due. Without spinning, nothing is
        /// later than the slack plus the time of waking up.
        #[test]
        fn nothing_is_early_and_slack_is_kept(
            gaps in prop::collection::vec(0..30_000_u64, 1..400),
            took in prop::collection::vec(0..200_000_u64, 1..50),
            rests: bool,
        ) {
            let slack = rests.then_some(adaptive_sleep::SLACK);
            let mut at = 1_000_000;
            let mut due: VecDeque<Time> = gaps.iter().map(|gap| { at += gap; Time(at) }).collect();
            let (mut lead, mut now, mut wakes) = (WakeLead::new(), Time::ZERO, 0);
            while let Some(&first) = due.front() {
                let wanted = lead.wake(first, slack);
                let took = Span(took[wakes % took.len()]);
                let woke = if wanted > now { wanted + took } else { now };
                lead.woke(wanted, woke);
                wakes += 1;
                // The loop spins for the rest, if there is one.
                now = woke.max(first);
                while let Some(&one) = due.front().filter(|due| **due <= now) {
                    due.pop_front();
                    prop_assert!(one <= now);
                    let most = slack.map_or(took, |slack| slack + took);
                    prop_assert!(now.since(one) <= most, "{} {most}", now.since(one));
                }
            }
            let lasted = at - 1_000_000;
            prop_assert!(
                !rests || wakes as u64 <= 1 + lasted / adaptive_sleep::SLACK.0,
                "{wakes} in {lasted} ns"
            );
        }
    }

    #[test]
    fn the_lead_is_what_waking_up_takes() {
        // 1999 of 2000 wake-ups take 20 us, and one takes 90 us; longer spinning for that one does
        // not pay.
        let mut lead = WakeLead::new();
        let instant = Time(10_000_000);
        let mut late = 0;
        for i in 0..20_000 {
            let wanted = lead.before(instant);
            let woke = wanted + Span::from_micros(if i % 2000 == 0 { 90 } else { 20 });
            late += u32::from(woke > instant && i >= 10_000);
            lead.woke(wanted, woke);
        }
        let is = instant.since(lead.before(instant));
        assert!(is >= Span::from_micros(20) && is < Span::from_micros(30), "{is}");
        // One in four hundred wake-ups may be late.
        assert!((5..=50).contains(&late), "{late}");
        // The lead decreases again when the machine is quiet.
        for _ in 0..10_000 {
            lead.woke(lead.before(instant), lead.before(instant) + Span::from_micros(5));
        }
        assert_eq!(instant.since(lead.before(instant)), WakeLead::LEAST);
    }

    #[test]
    fn nothing_is_read_for_as_long_as_that_takes() {
        let mut near = QuietWindow::new();
        for (usual, odd, least, most) in
            [(1, 12, 4, 6), (1, 2, 4, 5), (11, 12, 11, 14), (200, 300, 29, 31), (1, 1, 4, 5)]
        {
            // One in a thousand is an outlier.
            for i in 0..20_000 {
                near.took(Span::from_micros(if i % 1000 == 0 { odd } else { usual }));
            }
            let is = near.span();
            assert!(
                (Span::from_micros(least)..Span::from_micros(most)).contains(&is),
                "{usual}, {odd}: {is}"
            );
        }
    }
}
