//! The memory of a simulation does not grow with the simulated time. This is a program of its own,
//! because its allocator counts the memory of the whole process.

use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::{Progress, ReplicationPlan, WarmUp};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The system's allocator, with a record of the maximum memory in use.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// Safety: all calls go to the system's allocator; the counters need no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TEXT: &str = "[link.x]\nrate = \"100mbit\"\nscheduler = { kind = \"drr\" }\n\
    [link.x.flow.a]\nmatch = \"udp dport 1\"\nqueue = \"50p\"\n[link.x.flow.b]\nmatch = \"any\"\nqueue = \"50p\"\n\
    [traffic.a]\nflow = \"a\"\nmodel = \"cbr\"\nrate = \"20mbit\"\nsize = \"500B\"\n\
    [traffic.b]\nflow = \"b\"\nmodel = \"poisson\"\nrate = \"150mbit\"\nsize = \"1500B\"\n";

#[test]
fn memory_does_not_grow_with_simulated_time() {
    let (scenario, _) = falaj_scenario::parse(TEXT, "test").unwrap();
    let most = |duration: Span| {
        let practice =
            ReplicationPlan { seed: 1, warm_up: WarmUp::Found, quantiles: Vec::new(), most: 4 };
        let progress = Progress { gone: &|_| {}, stop: &AtomicBool::new(false) };
        let before = USED.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let (studies, _) =
            practice.studies(&[experiment(&scenario, duration)], &progress, |_| 4).unwrap();
        (
            MOST.load(Ordering::Relaxed) - before,
            studies[0].flow(PipeId(0), FlowId(1)).counters.offered,
        )
    };
    let (short, few) = most(Span::from_millis(250));
    let (long, many) = most(Span::from_secs(20));
    // Half a byte for each packet would be noticed.
    assert!(many > 50 * few, "{few} {many}");
    assert!(
        long < short + many as usize / 2,
        "{short} bytes for {few} packets, and {long} for {many}"
    );
}
