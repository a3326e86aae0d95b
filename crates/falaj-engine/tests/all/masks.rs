//! Masks: the queues and links that they create serve as if they had always existed.

use crate::common::{Arrival, Dice, any_pipe, bursts, emits, impair};
use falaj_engine::key::Key;
use falaj_engine::masks::mask::AddressBits;
use falaj_engine::masks::{Mask, MaskConfig, MaskIds, MaskStats, Masks};
use falaj_engine::message::Unit;
use falaj_engine::pipe::{Counters, PipeSpec};
use falaj_engine::{Engine, Output, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};

const PIPE: PipeId = PipeId(0);

fn each(most: u32, expire: u64) -> MaskConfig {
    let mask = Mask { src: Some(AddressBits::WHOLE), ..Mask::default() };
    MaskConfig { mask, most, expire: Span(expire) }
}

/// The ids of a packet from this address under masks of the source.
fn from(address: u32) -> MaskIds {
    let key = Key { src: Some(std::net::Ipv4Addr::from_bits(address).into()), ..Key::default() };
    let id = each(1, 1).mask.id(&key);
    MaskIds { link: id, flow: id, short: false }
}

struct Ran {
    out: Vec<Output>,
    engine: Engine,
}

/// Runs arrivals, each from an address, to the end.
fn run(
    spec: &PipeSpec,
    arrivals: &[(Arrival, u32)],
    mut poll: impl FnMut(&mut Engine, Time, &mut Vec<Output>),
) -> Ran {
    let mut engine = Engine::new(std::slice::from_ref(spec)).expect("a valid pipe");
    let mut out = Vec::new();
    for (handle, (a, address)) in arrivals.iter().enumerate() {
        poll(&mut engine, a.at, &mut out);
        let unit = Unit { flow: a.flow, handle: handle as u32, bytes: a.bytes };
        engine.input_of(PIPE, unit, &from(*address), a.at, &mut out);
    }
    while engine.next_event() != Time::NEVER {
        engine.poll(engine.next_event(), &mut out);
    }
    Ran { out, engine }
}

fn undivided(dice: &mut Dice) -> PipeSpec {
    loop {
        let spec = any_pipe(dice);
        if spec.setup.flows.iter().all(|f| f.inner.is_none()) {
            return spec;
        }
    }
}

/// A pipe with masks of few ids, which soon expire.
fn masked(dice: &mut Dice) -> PipeSpec {
    let mut spec = undivided(dice);
    let any = |dice: &mut Dice| each(dice.from(1, 6) as u32, dice.from(1, 5_000));
    let plain = spec.clone();
    spec.masks.flows =
        spec.setup.flows.iter().map(|_| (dice.from(0, 1) == 0).then(|| any(dice))).collect();
    if Engine::new(std::slice::from_ref(&spec)).is_err() {
        // A rate that fits the link once may not fit once for each queue, and `fifo` has one queue.
        spec = plain;
    }
    if dice.from(0, 2) == 0 || spec.masks.is_none() {
        spec.masks.link = Some(any(dice));
    }
    if dice.from(0, 1) == 0 {
        impair(dice, &mut spec);
    }
    spec
}

fn addressed(dice: &mut Dice, spec: &PipeSpec, horizon: u64) -> Vec<(Arrival, u32)> {
    let most = dice.from(1, 12);
    bursts(dice, spec, horizon).into_iter().map(|a| (a, dice.from(1, most) as u32)).collect()
}

fn reports(engine: &Engine, spec: &PipeSpec) -> Vec<(Option<FlowId>, MaskStats)> {
    let flows = (0..spec.setup.flows.len() as u32).map(|f| Some(FlowId(f)));
    std::iter::once(None)
        .chain(flows)
        .filter_map(|f| Some((f, engine.mask_stats(PIPE, f, 3)?)))
        .collect()
}

/// Statistics computed in parts equal those computed at once, of queues and of links.
#[test]
fn parts_are_the_whole() {
    let (mut parts, mut ids) = (0, 0);
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let spec = masked(&mut dice);
        let arrivals = addressed(&mut dice, &spec, 20_000);
        let engine = run(&spec, &arrivals, |_, _, _| {}).engine;
        for (flow, whole) in reports(&engine, &spec) {
            let (mut from, mut all) = (Some(0), None);
            while let Some(next) = from {
                from = engine.mask_stats_part(PIPE, (flow, 3), (next, 1), &mut all);
                parts += 1;
            }
            ids += whole.active;
            assert_eq!(all, Some(whole), "seed {seed}: {flow:?} of {spec:?}");
        }
        for flow in (0..spec.setup.flows.len() as u32).map(FlowId) {
            let (mut from, mut sum) = (Some(0), Counters::default());
            while let Some(next) = from {
                from = engine.counters_part((PIPE, flow), (next, 1), &mut sum);
            }
            assert_eq!(sum, engine.counters(PIPE, flow), "seed {seed}: {flow:?} of {spec:?}");
        }
    }
    assert!(parts > 600 && ids > 600, "{parts} parts, {ids} ids");
}

/// Each packet is counted as sent or dropped, packets of one id stay in order, and polls change
/// nothing, whatever ids are created and removed.
#[test]
fn packets_are_conserved_in_order_and_however_polled() {
    let (mut gone, mut beyond, mut links) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed);
        let spec = masked(&mut dice);
        let arrivals = addressed(&mut dice, &spec, 15_000);
        let late = run(&spec, &arrivals, |_, _, _| {});
        let mut now = Time::ZERO;
        let eager = run(&spec, &arrivals, |engine, until, out| {
            while now < until {
                now = Time(now.0 + dice.from(0, 300)).min(until);
                engine.poll(now, out);
                // Queries change nothing either.
                assert!(engine.next_due() >= engine.next_event());
                reports(engine, &spec);
            }
        });
        assert_eq!(late.out, eager.out, "seed {seed}: {spec:?}");

        let mut last = std::collections::BTreeMap::new();
        for emit in emits(&late.out) {
            let (arrival, address) = arrivals[emit.handle as usize];
            assert_eq!(
                (emit.flow, emit.pipe),
                (arrival.flow, PIPE),
                "reported with its own handle and flow"
            );
            let before = last.insert((emit.flow, address), (emit.handle, emit.start));
            assert!(
                before.is_none_or(|before| before.0 < emit.handle),
                "seed {seed}: packets of one id leave in order"
            );
        }
        let all: Vec<_> = (0..spec.setup.flows.len() as u32)
            .map(|f| late.engine.counters(PIPE, FlowId(f)))
            .collect();
        for (f, c) in all.iter().enumerate() {
            let came = arrivals.iter().filter(|(a, _)| a.flow.index() == f).count() as u64;
            assert_eq!((c.offered, c.backlog), (came, 0), "seed {seed}: {spec:?}");
            assert_eq!(c.offered, c.sent + c.dropped(), "seed {seed}");
        }
        for (flow, report) in reports(&late.engine, &spec) {
            let of =
                all.iter().enumerate().filter(|(f, _)| flow.is_none_or(|flow| flow.index() == *f));
            let (sent, dropped) = of
                .fold((0, 0), |sum, (_, c)| (sum.0 + c.delivered(), sum.1 + c.dropped() + c.lost));
            let total = report.total;
            assert_eq!(
                (total.packets(), total.dropped + total.lost),
                (sent, dropped),
                "seed {seed}: {report:?}"
            );
            // A flow's mask creates up to `most` queues in each link.
            let pipes = spec
                .masks
                .link
                .filter(|_| flow.is_some())
                .map_or(1, |each| u64::from(each.places()));
            assert_eq!(report.made - report.gone, report.active);
            assert!(report.active <= pipes * u64::from(report.most));
            gone += report.gone;
            beyond += report.beyond;
            links += u64::from(flow.is_none());
        }
    }
    assert!(gone > 1_000 && beyond > 1_000 && links > 100, "{gone} {beyond} {links}");
}

/// Up to `max-flows` ids, each one is served as a separate flow would be.
#[test]
fn ids_are_flows_of_their_own() {
    for seed in 0..1_000 {
        let mut dice = Dice::new(seed);
        let mut spec = undivided(&mut dice);
        spec.setup.flows.truncate(1);
        let most = dice.from(1, 8) as u32;
        let whole = Masks { link: None, flows: vec![Some(each(most, 1 << 40))] };
        let plain = PipeSpec { setup: whole.expanded(&spec.setup), ..spec.clone() };
        let many = PipeSpec { masks: whole, ..spec };
        if Engine::new(std::slice::from_ref(&many)).is_err() {
            continue;
        }
        let arrivals = bursts(&mut dice, &plain, 10_000);
        // Ids in the order of their places, which is that of their first packets.
        let mut order: Vec<u32> = Vec::new();
        let mut placed: Vec<Arrival> = Vec::new();
        let mut addressed = Vec::new();
        for arrival in arrivals.into_iter().filter(|a| a.flow.0 < most) {
            let place = order.iter().position(|f| *f == arrival.flow.0).unwrap_or_else(|| {
                order.push(arrival.flow.0);
                order.len() - 1
            });
            placed.push(Arrival { flow: FlowId(place as u32), ..arrival });
            addressed.push((Arrival { flow: FlowId(0), ..arrival }, arrival.flow.0));
        }
        let own = crate::common::run(&plain, &placed, |_, _, _| {});
        let masked = run(&many, &addressed, |_, _, _| {}).out;
        let times = |out: &[Output]| -> Vec<_> {
            emits(out).iter().map(|e| (e.handle, e.start, e.end)).collect()
        };
        assert_eq!(times(&own), times(&masked), "seed {seed}: {plain:?}");
    }
}

/// A single id, on a link that is removed and created again, is served as on a permanent link. The
/// link is removed only when that makes no difference, even for a bucket that is not full and for a
/// flow ahead of its rate.
#[test]
fn a_link_that_went_forgot_nothing() {
    let mut gone = 0;
    for seed in 0..1_500 {
        let mut dice = Dice::new(seed);
        let mut spec = undivided(&mut dice);
        // In other disciplines virtual time continues while they are idle. Its rounding then
        // differs, and with it the order at ties.
        if !["fifo", "drr", "wrr", "virtual-clock"].contains(&spec.kind) {
            continue;
        }
        impair(&mut dice, &mut spec);
        // Random draws use a packet's number, which begins anew.
        spec.impairments = Default::default();
        let arrivals: Vec<_> =
            bursts(&mut dice, &spec, 60_000).into_iter().map(|a| (a, 1)).collect();
        let link = Some(each(3, dice.from(1, 300)));
        let many = PipeSpec { masks: Masks { link, flows: Vec::new() }, ..spec.clone() };
        // Delivery opportunities and steps of the rate follow the clock, so masks do not move them.
        let plain = run(&spec, &arrivals, |_, _, _| {});
        let masked = run(&many, &arrivals, |_, _, _| {});
        assert_eq!(plain.out, masked.out, "seed {seed}: {spec:?}");
        gone += masked.engine.mask_stats(PIPE, None, 1).expect("it has a mask").gone;
    }
    assert!(gone > 200, "{gone}");
}

fn link(kind: &'static str, flow: Values, masks: Masks) -> PipeSpec {
    let flows = vec![FlowSetup::new(flow, Limit::Packets(50))];
    let setup =
        Setup { rate: Rate::from_mbit(80), largest: 1000, scheduler: Values::default(), flows };
    PipeSpec { masks, ..PipeSpec::new(kind, setup, Span::ZERO) }
}

fn send(engine: &mut Engine, address: u32, at: u64) -> Vec<Output> {
    let mut out = Vec::new();
    let unit = Unit { flow: FlowId(0), handle: address, bytes: 1000 };
    engine.input_of(PIPE, unit, &from(address), Time(at), &mut out);
    out
}

/// An id that used more than its share stays known until its debt is paid.
#[test]
fn debts_outlast_idleness() {
    // 8 Mbit/s for each id: a packet uses a millisecond of it, and is sent in 100 us.
    let own = Values::default().with("rate", Value::Rate(Rate::from_mbit(8)));
    let masks = Masks { link: None, flows: vec![Some(each(8, 1_000_000))] };
    let mut engine = Engine::new(&[link("virtual-clock", own, masks)]).expect("nine flows fit");
    (0..20).for_each(|_| drop(send(&mut engine, 1, 0)));
    let mut known = |at| {
        send(&mut engine, 2, at);
        let report = engine.mask_stats(PIPE, Some(FlowId(0)), 9).expect("it has a mask");
        report.busiest.iter().any(|(id, _)| id == "src 0.0.0.1")
    };
    assert!(known(10_000_000), "idle for 8 ms, and ahead by 10");
    assert!(known(19_900_000));
    // The id is checked again a millisecond later at the latest.
    assert!(!known(21_100_000));
}

/// A bucket that its id has emptied is not full again after the id was idle.
#[test]
fn buckets_are_not_filled_by_leaving() {
    let masks = Masks { link: Some(each(8, 1_000)), flows: Vec::new() };
    let spec = PipeSpec {
        capacity: Capacity::TokenBucket(10_000),
        ..link("fifo", Values::default(), masks)
    };
    let mut engine = Engine::new(&[spec]).expect("a valid pipe");
    (0..10).for_each(|_| drop(send(&mut engine, 1, 0)));
    assert_eq!(emits(&send(&mut engine, 2, 100_000)).len(), 1);
    // Each 100 us bring tokens for one packet: two leave at 200 us, the third at 300 us.
    let again = [200_000, 200_000, 200_000]
        .map(|at| emits(&send(&mut engine, 1, at)).first().map(|e| e.end.0));
    assert_eq!(again, [Some(200_000), Some(200_000), Some(300_000)]);
}

/// A sender that invents thousands of ids gets the shared queues, and harms no id that has a queue
/// of its own.
#[test]
fn made_up_ids_share() {
    let masks = |most| Masks { link: None, flows: vec![Some(each(most, 1_000_000_000))] };
    let spec = PipeSpec { seed: 5, ..link("drr", Values::default(), masks(640)) };
    let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("a valid pipe");
    send(&mut engine, 7, 0);
    let mut delays = Vec::new();
    for n in 0..20_000 {
        // Ten times the capacity of the link, each packet from another address; and one packet in
        // 200 from our address.
        let mut out = send(&mut engine, 1_000_000 + n, u64::from(n) * 10_000);
        if n % 200 == 0 {
            out.extend(send(&mut engine, 7, u64::from(n) * 10_000));
        }
        assert!(
            !out.iter().any(|o| matches!(o, Output::Drop(d) if d.handle == 7)),
            "ours are never lost"
        );
        delays.extend(emits(&out).iter().filter(|e| e.handle == 7).map(|e| e.end - e.arrival));
    }
    let report = engine.mask_stats(PIPE, Some(FlowId(0)), 1).expect("it has a mask");
    assert_eq!((report.active, report.beyond), (640, 20_000 - 639));
    assert!(report.of_shared.dropped + report.of_shared.packets() + 10 * 50 >= report.beyond);
    assert!(report.of_shared.dropped > 10_000, "{report:?}");
    // Our packets in the round with the 639 ids, which had a packet each, take long; later rounds
    // consist of the shared queues and our queue.
    assert!(
        delays.len() > 80
            && delays[delays.len() * 4 / 5..].iter().all(|d| *d <= Span::from_micros(1_300)),
        "{delays:?}"
    );
}

/// A change keeps the queues and links that masks have created; a change to other masks is
/// accepted too.
#[test]
fn changes_keep_what_masks_made() {
    for kind in ["drr", "qfq", "wfq"] {
        let masks = Masks { link: None, flows: vec![Some(each(8, 1_000_000_000))] };
        let links = Masks { link: Some(each(8, 1_000_000_000)), flows: Vec::new() };
        for masks in [masks, links] {
            let spec = link(kind, Values::default(), masks);
            let mut engine = Engine::new(std::slice::from_ref(&spec)).expect("a valid pipe");
            let mut out = Vec::new();
            for n in 0..12 {
                (0..5).for_each(|_| out.extend(send(&mut engine, n, 0)));
            }
            let mut faster = spec.clone();
            faster.setup.rate = Rate::from_mbit(800);
            let prepared = engine.prepare(PIPE, &faster).expect("it fits");
            engine.apply(prepared, Time(150_000), &mut out).expect("nothing came between");
            engine.poll(Time(1 << 40), &mut out);
            assert_eq!(emits(&out).len(), 60, "{kind}");
            let counted = engine.counters(PIPE, FlowId(0));
            assert_eq!((counted.offered, counted.sent, counted.backlog), (60, 60, 0));
            let flow = spec.masks.link.is_none().then_some(FlowId(0));
            let report = engine.mask_stats(PIPE, flow, 1).expect("it has a mask");
            assert_eq!((report.active, report.total.packets()), (8, 60));
            let other = link(kind, Values::default(), Masks::default());
            assert!(engine.prepare(PIPE, &other).is_ok());
        }
    }
}

/// Ids keep their queued packets if their maximum changes, and ids beyond a smaller maximum are
/// removed without loss of packets. If the mask changes, all packets join one queue.
#[test]
fn other_masks_take_over_what_waits() {
    let of = |mask: Mask, most| {
        let masks = Masks {
            link: None,
            flows: vec![Some(MaskConfig { mask, most, expire: Span::from_secs(1) })],
        };
        link("drr", Values::default(), masks)
    };
    let by_source = Mask { src: Some(AddressBits::WHOLE), ..Mask::default() };
    let by_port = Mask { sport: Some(u16::MAX), ..Mask::default() };
    let mut engine = Engine::new(&[of(by_source, 4)]).expect("a valid pipe");
    let mut out = Vec::new();
    for n in 0..4 {
        (0..10).for_each(|_| out.extend(send(&mut engine, n, 0)));
    }
    let mut change = |engine: &mut Engine, spec: &PipeSpec, at| {
        let prepared = engine.prepare(PIPE, spec).expect("it fits");
        engine.apply(prepared, Time(at), &mut out).expect("nothing came between");
        let counted = engine.counters(PIPE, FlowId(0));
        assert_eq!((counted.offered, counted.dropped()), (40, 0));
        engine.mask_stats(PIPE, Some(FlowId(0)), 9)
    };
    let more = change(&mut engine, &of(by_source, 9), 1).expect("it has a mask");
    assert_eq!((more.most, more.active, more.made, more.gone), (9, 4, 4, 0));
    let fewer = change(&mut engine, &of(by_source, 2), 2).expect("it has a mask");
    assert_eq!((fewer.active, fewer.made, fewer.gone), (2, 4, 2));
    let other = change(&mut engine, &of(by_port, 2), 3).expect("it has a mask");
    assert_eq!((other.active, other.made, other.gone), (0, 4, 4));
    assert!(change(&mut engine, &link("fifo", Values::default(), Masks::default()), 4).is_none());
    engine.poll(Time(1 << 40), &mut out);
    let counted = engine.counters(PIPE, FlowId(0));
    assert_eq!((emits(&out).len(), counted.sent, counted.backlog), (40, 40, 0));
}

/// A link mask is added and removed while packets are queued: queued packets leave by their old
/// link, new packets by another link.
#[test]
fn what_waits_leaves_by_its_link_beside_the_new_ones() {
    let each = MaskConfig {
        mask: Mask { src: Some(AddressBits::WHOLE), ..Mask::default() },
        most: 9,
        expire: Span::from_secs(1),
    };
    let plain = link("drr", Values::default(), Masks::default());
    let many = link("drr", Values::default(), Masks { link: Some(each), flows: vec![] });
    let mut engine = Engine::new(std::slice::from_ref(&plain)).expect("a valid pipe");
    let mut out = Vec::new();
    (0..9).for_each(|_| out.extend(send(&mut engine, 1, 0)));
    for (n, spec) in [&many, &plain, &many].into_iter().enumerate() {
        let prepared = engine.prepare(PIPE, spec).expect("it fits");
        engine.apply(prepared, Time::ZERO, &mut out).expect("nothing came between");
        // The link for new packets is idle, so the packet is sent at once.
        let before = emits(&out).len();
        out.extend(send(&mut engine, 1, 0));
        assert_eq!(emits(&out).len(), before + 1, "{n}");
        (0..9).for_each(|_| out.extend(send(&mut engine, 1, 0)));
        let counted = engine.counters(PIPE, FlowId(0));
        assert_eq!((counted.offered, counted.backlog), (19 + 10 * n as u64, 19 + 10 * n as u64));
    }
    engine.poll(Time(1 << 40), &mut out);
    let counted = engine.counters(PIPE, FlowId(0));
    assert_eq!((emits(&out).len(), counted.sent, counted.backlog), (39, 39, 0));
    // Empty links are removed by the next change, and their counters stay.
    let prepared = engine.prepare(PIPE, &plain).expect("it fits");
    engine.apply(prepared, Time(1 << 41), &mut out).expect("nothing came between");
    assert_eq!(engine.counters(PIPE, FlowId(0)).sent, 39);
}

/// Combinations with masks that are impossible return an error.
#[test]
fn impossible_masks_are_refused() {
    let masks = Masks { link: None, flows: vec![Some(each(100, 1))] };
    let refused = |spec: PipeSpec| Engine::new(&[spec]).err().expect("refused").1.to_string();
    assert!(
        refused(link("fifo", Values::default(), masks.clone()))
            .contains("all flows share one queue")
    );
    let own = Values::default().with("rate", Value::Rate(Rate::from_mbit(8)));
    let told = refused(link("virtual-clock", own, masks.clone()));
    assert!(
        told.contains("more than the link's") && told.contains("`mask` makes 100 queues"),
        "{told}"
    );
    let both = Masks {
        link: Some(each(MaskConfig::MOST, 1)),
        flows: vec![Some(each(MaskConfig::MOST, 1))],
    };
    assert!(refused(link("drr", Values::default(), both)).contains("`max-flows`"));
}
