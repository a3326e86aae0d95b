//! State of the screen: selection, input, and recent rates.

use super::seen::{ScreenDirection, ScreenRow, ScreenSample};
use falaj_sched::registry;
use std::collections::{BTreeMap, VecDeque};

/// Number of rates that are stored of each flow for its bars.
pub(super) const BEFORE: usize = 60;

/// A requested change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedChange {
    pub(super) link: String,
    pub(super) flow: String,
    pub(super) adapter: Option<String>,
    pub(super) key: &'static str,
    /// The new value; `None` removes the key.
    pub(super) value: Option<String>,
}

/// A value that is being typed.
#[derive(Clone, Debug)]
struct Typing {
    key: &'static str,
    text: String,
}

pub(super) struct ScreenState {
    pub(super) seen: ScreenSample,
    pub(super) way: ScreenDirection,
    pub(super) chosen: usize,
    pub(super) held: bool,
    /// The last message.
    pub(super) said: Option<String>,
    pub(super) coloured: bool,
    typing: Option<Typing>,
    /// By direction and flow: recent rates (`rates`), and the packets dropped until the previous
    /// sample (`dropped`).
    rates: BTreeMap<(bool, String), VecDeque<u64>>,
    dropped: BTreeMap<(bool, String), u64>,
    /// Packets dropped since the previous sample.
    new: BTreeMap<(bool, String), u64>,
}

fn key(row: &ScreenRow) -> (bool, String) {
    (row.up, format!("{} {}", row.link, row.flow))
}

impl ScreenState {
    pub(super) fn new(way: ScreenDirection) -> ScreenState {
        ScreenState {
            seen: ScreenSample::default(),
            way,
            chosen: 0,
            held: false,
            said: None,
            coloured: false,
            typing: None,
            rates: BTreeMap::new(),
            dropped: BTreeMap::new(),
            new: BTreeMap::new(),
        }
    }

    /// Adds a sample.
    pub(super) fn take(&mut self, seen: ScreenSample) {
        // A service publishes once a second, so two requests may return the same sample.
        let again = seen.at == self.seen.at && !self.seen.rows.is_empty();
        let (mut rates, mut dropped, mut new) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for row in &seen.rows {
            let key = key(row);
            let mut before = self.rates.remove(&key).unwrap_or_default();
            if !again && let Some(rate) = row.rate {
                before.push_back(rate as u64);
                before.drain(..before.len().saturating_sub(BEFORE));
            }
            let since = self.dropped.get(&key).map_or(0, |was| row.dropped.saturating_sub(*was));
            new.insert(
                key.clone(),
                if again { self.new.get(&key).copied().unwrap_or(0) } else { since },
            );
            dropped.insert(key.clone(), row.dropped);
            rates.insert(key, before);
        }
        (self.rates, self.dropped, self.new) = (rates, dropped, new);
        if !self.held || self.seen.rows.is_empty() {
            self.seen = seen;
        }
        self.step(0);
    }

    /// The flows of the displayed direction.
    pub(super) fn rows(&self) -> Vec<&ScreenRow> {
        self.seen.rows.iter().filter(|row| row.up == (self.way == ScreenDirection::Up)).collect()
    }

    pub(super) fn rates(&self, row: &ScreenRow) -> Vec<u64> {
        self.rates.get(&key(row)).into_iter().flatten().copied().collect()
    }

    pub(super) fn dropped(&self, row: &ScreenRow) -> u64 {
        self.new.get(&key(row)).copied().unwrap_or(0)
    }

    pub(super) fn step(&mut self, by: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
    }

    pub(super) fn turn(&mut self) {
        self.way = if self.way == ScreenDirection::Up {
            ScreenDirection::Down
        } else {
            ScreenDirection::Up
        };
        self.step(0);
    }

    pub(super) fn hold(&mut self) {
        self.held = !self.held;
    }

    pub(super) fn say(&mut self, what: String) {
        self.said = Some(what);
    }

    pub(super) fn row(&self) -> Option<&ScreenRow> {
        self.rows().get(self.chosen).copied()
    }

    /// Returns true while a value is being typed.
    pub(super) fn types(&self) -> bool {
        self.typing.is_some()
    }

    /// The key being edited, and the text typed so far.
    pub(super) fn typing(&self) -> Option<(&'static str, &str)> {
        self.typing.as_ref().map(|typing| (typing.key, typing.text.as_str()))
    }

    pub(super) fn write(&mut self, c: char) {
        if let Some(typing) = &mut self.typing {
            typing.text.push(c);
        }
    }

    pub(super) fn erase(&mut self) {
        if let Some(typing) = &mut self.typing {
            typing.text.pop();
        }
    }

    pub(super) fn leave(&mut self) {
        self.typing = None;
    }

    pub(super) fn ask_weight(&mut self) {
        match self.row().map(|row| (row.weight, row.kind.clone())) {
            Some((Some((key, weight)), _)) => {
                self.typing = Some(Typing { key, text: weight.to_string() });
            }
            Some((None, kind)) => self.say(format!("flows of `{kind}` have no weight")),
            None => {}
        }
    }

    pub(super) fn ask_cap(&mut self) {
        let Some((kind, cap)) = self.row().map(|row| (row.kind.clone(), row.cap.clone())) else {
            return;
        };
        match registry::entry(&kind).and_then(|manifest| manifest.cap_key) {
            Some(key) => self.typing = Some(Typing { key, text: cap.unwrap_or_default() }),
            None => {
                let capped = registry::all().filter(|manifest| manifest.cap_key.is_some());
                let capped: Vec<_> = capped.map(|manifest| manifest.kind).collect();
                let capped = capped.join(", ");
                self.say(format!("flows of `{kind}` have no cap; those of {capped} have one"));
            }
        }
    }

    fn wanted(&self, key: &'static str, value: Option<String>) -> Option<WantedChange> {
        let ScreenRow { link, flow, adapter, .. } = self.row()?.clone();
        Some(WantedChange { link, flow, adapter, key, value })
    }

    /// Returns the typed value as a change.
    pub(super) fn typed(&mut self) -> Option<WantedChange> {
        let Typing { key, text } = self.typing.take()?;
        let text = text.trim();
        self.wanted(key, (!text.is_empty()).then(|| text.to_owned()))
    }

    /// Returns the change that adds `by` to the weight of the selected flow.
    pub(super) fn weight_by(&mut self, by: i64) -> Option<WantedChange> {
        let Some((key, weight)) = self.row()?.weight else {
            self.ask_weight();
            return None;
        };
        let weight = weight.saturating_add_signed(by).clamp(1, u32::MAX.into());
        self.wanted(key, Some(weight.to_string()))
    }
}
