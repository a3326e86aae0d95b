//! The calls that falaj makes in a library, made here through the same table. Miri checks memory
//! accesses, lifetimes, and that all memory is freed once (`cargo +nightly miri test -p
//! falaj-plugin-api`); without Miri, the tests check that arguments arrive.

use core::ffi::{CStr, c_char, c_void};
use falaj_plugin_api::abi::{self, Queue, Sent};
use falaj_plugin_api::{Answer, Discipline, Guarantee, Refused, Setup, Value, glue};
use std::ptr;

/// Serves the flow first that became ready first. After the configured number of packets it panics.
struct First {
    waiting: Vec<u32>,
    left: u64,
}

impl Discipline for First {
    const NAME: &'static CStr = c"first";
    const WORK_CONSERVING: bool = true;
    const SEES_ARRIVALS: bool = true;
    const CAN_MIGRATE: bool = true;

    fn new(setup: &Setup<'_>) -> Result<First, Refused> {
        match (setup.params.get("packets"), setup.flows.len()) {
            (Some(Value::Number(left)), 2) => {
                assert_eq!(setup.flows[0].params.get("note"), Some(Value::Text("a text")));
                assert_eq!((setup.flows[0].max_packets, setup.flows[1].max_bytes), (Some(7), None));
                Ok(First { waiting: Vec::new(), left })
            }
            (_, 0) => panic!("nobody sends"),
            (_, flows) => Err(Refused {
                flow: Some(1),
                what: "ä".repeat(200),
                help: format!("{flows} flows"),
            }),
        }
    }
    fn ready(&mut self, queues: &[Queue], flow: u32, _: u64) {
        assert_eq!(queues[flow as usize].packets, 1);
        self.waiting.push(flow);
    }
    fn next(&mut self, _: &[Queue], now: u64) -> Answer {
        match self.waiting.first() {
            _ if now < 10 => Answer::Wait(10),
            Some(flow) => Answer::Serve(*flow),
            None => Answer::Idle,
        }
    }
    fn take(&mut self, _: &[Queue], flow: u32, sent: &Sent) {
        self.waiting.retain(|other| *other != flow);
        self.left = self.left.checked_sub(u64::from(sent.bytes / 100)).expect("no packet is left");
    }
    fn arrived(&mut self, queues: &[Queue], flow: u32, bytes: u32, now: u64) -> u64 {
        queues[flow as usize].bytes + u64::from(bytes) + now
    }
    fn migrate_from(&mut self, old: &mut First, _: &[Queue], _: u64) {
        self.waiting = std::mem::take(&mut old.waiting);
    }
    fn guarantee(&self, flow: u32) -> Option<Guarantee> {
        (flow == 0).then_some(Guarantee { rate: 1, latency: 2, delay: 3 })
    }
}

/// Creates an instance for one packet and this number of flows, or returns the refusal.
fn make(table: &abi::Discipline, flows: usize) -> Result<*mut c_void, Box<abi::Refusal>> {
    let param = |name: &'static CStr, text: &'static CStr, number, unit| abi::Param {
        name: name.as_ptr(),
        text: text.as_ptr(),
        number,
        unit,
        reserved: 0,
    };
    let own = [param(c"packets", c"", 1, abi::NUMBER)];
    let note = [param(c"note", c"a text", 0, abi::TEXT)];
    let flow = |n: usize| abi::Flow {
        params: if n == 0 { note.as_ptr() } else { ptr::null() },
        max_bytes: u64::MAX,
        max_packets: 7,
        param_count: u32::from(n == 0),
    };
    let all: Vec<abi::Flow> = (0..flows).map(flow).collect();
    let setup = abi::Setup {
        flows: if flows == 0 { ptr::null() } else { all.as_ptr() },
        params: own.as_ptr(),
        rate: 1_000,
        flow_count: flows as u32,
        param_count: 1,
        largest: 1_500,
        reserved: 0,
    };
    let mut refusal =
        Box::new(abi::Refusal { flow: 0, what: [0; abi::TEXT_BYTES], help: [0; abi::TEXT_BYTES] });
    // SAFETY: as in falaj: everything is valid during the call.
    let made = unsafe { table.create.expect("a function")(&raw const setup, &raw mut *refusal) };
    if made.is_null() { Err(refusal) } else { Ok(made) }
}

fn end(table: &abi::Discipline, own: *mut c_void) {
    // SAFETY: the instance was made by the same table, and is not used again.
    unsafe { table.destroy.expect("a function")(own) }
}

/// Calls `next`.
fn next(
    table: &abi::Discipline,
    own: *mut c_void,
    queues: &[Queue],
    now: u64,
) -> (u32, abi::Answer) {
    let mut answer = abi::Answer { time: 0, why: ptr::null(), flow: 9, reserved: 0 };
    // SAFETY: the instance was made by the same table, with as many flows as there are queues.
    let said =
        unsafe { table.next.expect("a function")(own, queues.as_ptr(), now, &raw mut answer) };
    (said, answer)
}

#[test]
fn what_is_given_arrives_and_what_is_made_is_freed() {
    let table = glue::discipline::<First>();
    let own = make(&table, 2).expect("it is made");
    let queues = [Queue { tag: 0, bytes: 100, head: 100, packets: 1 }; 2];
    let sent = Sent { start: 0, end: 1, bytes: 100, reserved: 0 };
    let mut guarantee = Guarantee::default();
    // SAFETY: as in falaj: one call after the other, with instances of this table.
    unsafe {
        assert_eq!(table.arrived.expect("it sees them")(own, queues.as_ptr(), 1, 50, 7), 157);
        table.ready.expect("a function")(own, queues.as_ptr(), 1, 0);
        assert_eq!(table.guarantee.expect("a function")(own, 0, &raw mut guarantee), 1);
        assert_eq!(table.guarantee.expect("a function")(own, 1, &raw mut guarantee), 0);
        assert_eq!(table.is_reusable.expect("a function")(own, 0, 0), 1);
    }
    assert_eq!(guarantee, Guarantee { rate: 1, latency: 2, delay: 3 });
    assert_eq!(
        (next(&table, own, &queues, 0).0, next(&table, own, &queues, 0).1.time),
        (abi::WAIT, 10)
    );
    let heir = make(&table, 2).expect("it is made");
    // SAFETY: two instances of one table.
    unsafe { table.migrate_from.expect("it succeeds")(heir, own, queues.as_ptr(), 20) };
    end(&table, own);
    assert_eq!(
        (next(&table, heir, &queues, 20).0, next(&table, heir, &queues, 20).1.flow),
        (abi::SERVE, 1)
    );
    // SAFETY: as above.
    unsafe { table.take.expect("a function")(heir, queues.as_ptr(), 1, &raw const sent) };
    assert_eq!(next(&table, heir, &queues, 20).0, abi::IDLE);
    // One packet too many: the instance panics, and only the next call of `next` reports that.
    // SAFETY: as above.
    unsafe { table.take.expect("a function")(heir, queues.as_ptr(), 1, &raw const sent) };
    let (said, answer) = next(&table, heir, &queues, 30);
    // SAFETY: the text belongs to the instance, which still exists.
    let why = unsafe { CStr::from_ptr(answer.why) }.to_str();
    assert_eq!((said, why), (abi::FAILED, Ok("panic: no packet is left")));
    end(&table, heir);
}

#[test]
fn a_refusal_fits_its_place() {
    let table = glue::discipline::<First>();
    let text = |text: &[c_char]| {
        let bytes: Vec<u8> =
            text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        String::from_utf8(bytes).expect("cut between letters")
    };
    let refused = make(&table, 3).expect_err("it is for two");
    assert_eq!(
        (refused.flow, text(&refused.what), text(&refused.help)),
        (1, "ä".repeat(127), "3 flows".into())
    );
    let refused = make(&table, 0).expect_err("it is for two");
    assert_eq!((refused.flow, text(&refused.what)), (abi::NO_FLOW, "panic: nobody sends".into()));
}
