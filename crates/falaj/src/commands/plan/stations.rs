//! Prints the throughput of stations that contend for a channel, when all of them always have
//! packets (Bianchi's saturation model).

use falaj_plan::stations::expected;
use falaj_scenario::Direction;
use falaj_terminal::text;

pub(super) fn print(direction: &Direction) {
    let Some((rates, all)) = expected(direction) else { return };
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let bytes = direction.pipe.setup.largest;
    say!(
        "  if all stations always have packets of {bytes} B (Bianchi): {} of all attempts collide, {} of all packets are dropped",
        percent(all.collisions),
        percent(all.dropped)
    );
    let gets = all.packets * f64::from(bytes) * 8.0;
    let rows = direction.flows.iter().zip(rates).zip(&all.air).map(|((flow, rate), air)| {
        vec![flow.name.clone(), text::link_rate(rate), text::rate(gets), percent(*air)]
    });
    say!("{}", text::table(&["station", "transmission rate", "throughput", "air time"], rows));
}
