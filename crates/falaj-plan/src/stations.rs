//! Throughput of stations that contend for a channel, if all stations always have packets
//! (Bianchi's saturation).

use falaj_scenario::Direction;
use falaj_sched::disciplines::dcf::{self, Channel, rates};
use falaj_sched::units::rate::Rate;
use falaj_theory::dcf::{Saturation, saturation};
use serde_json::{Value as Json, json};

/// The rates of the stations of this direction, and the throughput of the stations with packets of
/// the largest size. `None` if the direction's flows are not stations, or if a mask makes several
/// stations of a flow or link.
pub fn expected(direction: &Direction) -> Option<(Vec<Rate>, Saturation)> {
    if direction.scheduler().kind != dcf::MANIFEST.kind || !direction.pipe.masks.is_none() {
        return None;
    }
    let setup = &direction.pipe.setup;
    let (channel, rates) = (Channel::new(setup).ok()?, rates(setup).ok()?);
    let stations: Vec<(Rate, u32)> = rates.iter().map(|&rate| (rate, setup.largest)).collect();
    Some((rates, saturation(&channel, &stations)))
}

pub(crate) fn json(direction: &Direction) -> Option<Json> {
    let (rates, all) = expected(direction)?;
    let gets = all.packets * f64::from(direction.pipe.setup.largest) * 8.0;
    let stations = direction.flows.iter().zip(&rates).zip(&all.air);
    let station = |((flow, rate), air): ((&falaj_scenario::Flow, &Rate), &f64)| {
        json!({
            "flow": flow.name, "rate": rate.0, "gets": gets, "air": air,
        })
    };
    Some(json!({
        "bytes": direction.pipe.setup.largest,
        "collisions": all.collisions,
        "dropped": all.dropped,
        "stations": stations.map(station).collect::<Vec<_>>(),
    }))
}
