//! The start of the guest's clock.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The instant at which the guest's time-of-day clock starts, in seconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

/// 2026-01-01T00:00:00Z.
const DEFAULT: u64 = 1_767_225_600;
/// The last year that is accepted: signed 64-bit clocks in nanoseconds overflow in 2262.
const LAST_YEAR: u64 = 2200;

impl Epoch {
    /// Nanoseconds since 1970.
    pub fn nanos(self) -> u64 {
        self.0 * 1_000_000_000
    }
}

impl Default for Epoch {
    fn default() -> Epoch {
        Epoch(DEFAULT)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (mut year, mut left) = (1970, days);
        while left >= length_of(year) {
            left -= length_of(year);
            year += 1;
        }
        let mut month = 1;
        while left >= days_in(year, month) {
            left -= days_in(year, month);
            month += 1;
        }
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let day = left + 1;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
    }
}

impl FromStr for Epoch {
    type Err = String;

    /// Parses `2026-01-01`, `2026-01-01T12:00:00Z`, or `now`.
    fn from_str(text: &str) -> Result<Epoch, String> {
        if text == "now" {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            return Ok(Epoch(now));
        }
        read(text).map(Epoch).ok_or_else(|| {
            "write a date between 1970 and 2200, `2026-01-01`, or an instant of UTC, \
             `2026-01-01T12:00:00Z`; or `now`, with which no two runs are alike"
                .into()
        })
    }
}

fn read(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let [year, month, day] = three(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = three(time, ':', [2, 2, 2])?;
    let valid = (1970..=LAST_YEAR).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let days = (1970..year).map(length_of).sum::<u64>()
        + (1..month).map(|month| days_in(year, month)).sum::<u64>()
        + (day - 1);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Parses three numbers with these lengths in digits and this separator.
fn three(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn length_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-03-01", 951_868_800),
            ("2026-01-01T00:00:00Z", DEFAULT),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
        ] {
            let epoch: Epoch = text.parse().unwrap();
            assert_eq!(epoch, Epoch(seconds), "{text}");
            assert!(epoch.to_string().starts_with(text), "{epoch}");
        }
        assert_eq!(Epoch::default().to_string(), "2026-01-01T00:00:00Z");
        for bad in
            ["", "2026", "2026-02-29", "2026-13-01", "1969-12-31", "2026-01-01T24:00:00Z", "soon"]
        {
            assert!(bad.parse::<Epoch>().is_err(), "{bad}");
        }
    }
}
