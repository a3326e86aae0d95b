//! A discipline for a library, called by hand as falaj would: the shortest queue first. `cargo run
//! -p falaj-plugin-api --example by_hand`

use falaj_plugin_api::{Answer, Discipline, Params, Queue, Refused, Setup};

struct Shortest;

impl Discipline for Shortest {
    const NAME: &'static std::ffi::CStr = c"the shortest queue first";
    const WORK_CONSERVING: bool = true;

    fn new(_: &Setup<'_>) -> Result<Shortest, Refused> {
        Ok(Shortest)
    }
    fn ready(&mut self, _: &[Queue], _: u32, _: u64) {}
    fn next(&mut self, queues: &[Queue], _: u64) -> Answer {
        let waiting = queues.iter().enumerate().filter(|(_, queue)| queue.head > 0);
        let shortest = waiting.min_by_key(|(_, queue)| queue.bytes);
        shortest.map_or(Answer::Idle, |(flow, _)| Answer::Serve(flow as u32))
    }
}

pub(crate) fn main() {
    let setup =
        Setup { rate: 1_000_000, largest: 1514, params: Params::default(), flows: Vec::new() };
    let mut shortest = Shortest::new(&setup).expect("it refuses nothing");
    let queue = |packets: u32| Queue {
        tag: 0,
        bytes: u64::from(packets) * 1_000,
        head: if packets > 0 { 1_000 } else { 0 },
        packets,
    };
    let mut queues = [queue(3), queue(1), queue(2)];
    let mut order = Vec::new();
    while let Answer::Serve(flow) = shortest.next(&queues, 0) {
        queues[flow as usize] = queue(queues[flow as usize].packets - 1);
        order.push(flow);
    }
    println!("served: {order:?}");
    assert_eq!(order, [1, 2, 2, 0, 0, 0]);
}
