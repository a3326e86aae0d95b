//! A change of values takes queues over in place: the outputs are the same as with new queues.

use crate::common::{Dice, become_kind, bursts, virtual_links};
use falaj_engine::key::Key;
use falaj_engine::masks::{Mask, MaskConfig, Masks};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId, Prepared};
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::registry::ENTRIES;
use falaj_sched::units::time::{Span, Time};
use std::ops::Range;

const PIPE: PipeId = PipeId(0);

/// Other values of the same discipline, and the ranges of queues whose limit changes.
fn other(
    dice: &mut Dice,
    spec: &PipeSpec,
    entry: &'static Manifest,
) -> (PipeSpec, Vec<Range<u32>>) {
    let mut then = spec.clone();
    become_kind(dice, &mut then, entry);
    let one = dice.from(0, spec.setup.flows.len() as u64 - 1) as usize;
    if dice.from(0, 1) == 0 {
        // Only one flow changes, if its new values fit the values of the other flows.
        let mut alone = spec.clone();
        alone.setup.flows[one].values = then.setup.flows[one].values.clone();
        if Engine::new(std::slice::from_ref(&alone)).is_ok() {
            then = alone;
        }
    }
    let mut limits = Vec::new();
    if dice.from(0, 1) == 0 && entry.kind != "drr+" {
        then.setup.flows[one].limit = Limit::Packets(dice.from(20, 60) as u32);
    }
    for (f, (before, after)) in spec.setup.flows.iter().zip(&then.setup.flows).enumerate() {
        if before.limit != after.limit {
            limits.push(f as u32..f as u32 + 1);
        }
    }
    (then, limits)
}

#[test]
fn queues_that_stay_are_as_good_as_queues_anew() {
    let mut left = 0;
    for entry in ENTRIES {
        let mut changes = 0;
        for seed in 0..40 {
            let mut dice = Dice::new(seed ^ 0x0076_616c);
            let mut spec = virtual_links(&mut dice, "packet-wise", "clean");
            become_kind(&mut dice, &mut spec, entry);
            if seed % 2 == 0 && spec.setup.scheduler.iter().next().is_none() {
                let mask = Mask { sport: Some(u16::MAX), ..Mask::default() };
                let each = MaskConfig { mask, most: 3, expire: Span(20_000) };
                spec.masks = Masks { link: None, flows: vec![Some(each)] };
                if Engine::new(std::slice::from_ref(&spec)).is_err() {
                    spec.masks = Masks::default();
                }
            }
            let arrivals = bursts(&mut dice, &spec, 15_000);
            let [mut stays, mut anew] =
                [(); 2].map(|()| Engine::new(std::slice::from_ref(&spec)).unwrap());
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            for (handle, a) in arrivals.iter().enumerate() {
                if dice.from(0, 7) == 0 {
                    let (then, limits) = other(&mut dice, &spec, entry);
                    if let Ok(change) = anew.prepare(PIPE, &then) {
                        anew.apply(change, a.at, &mut expected).unwrap();
                        let change = Prepared::new(&[])
                            .unwrap()
                            .with_values(PIPE, then.clone(), &limits)
                            .unwrap();
                        stays.apply(change, a.at, &mut out).unwrap();
                        left += stays.take_deferred_drops().len();
                        (spec, changes) = (then, changes + 1);
                    }
                }
                let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
                let ids = spec.masks.ids(
                    a.flow,
                    &Key { ports: Some((dice.from(1, 5) as u16, 1)), ..Key::default() },
                );
                let label = Default::default();
                stays.input_labelled(PIPE, unit, &ids, label, a.at, &mut out);
                anew.input_labelled(PIPE, unit, &ids, label, a.at, &mut expected);
                assert_eq!(out, expected, "{}, seed {seed}", entry.kind);
            }
            assert_eq!(stays.next_event(), anew.next_event());
            stays.poll(Time(1 << 50), &mut out);
            anew.poll(Time(1 << 50), &mut expected);
            assert_eq!(out, expected, "{}, seed {seed}", entry.kind);
            for flow in (0..spec.setup.flows.len() as u32).map(FlowId) {
                assert_eq!(
                    stays.counters(PIPE, flow),
                    anew.counters(PIPE, flow),
                    "{}, seed {seed}",
                    entry.kind
                );
            }
        }
        assert!(changes > 40, "{}: {changes} changes only", entry.kind);
    }
    assert!(
        left > 1_000,
        "{left}: replaced state that takes long to free is handed to the caller, which frees it later"
    );
}
