//! An instance of a library's discipline: each event is a call of a C function.

use falaj_plugin_api::abi;
use falaj_sched::contract::library::{Declared, Instance, LibraryDecision, QueueView};
use falaj_sched::contract::transmission::Sent;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::mem::offset_of;
use std::ptr::{self, NonNull};

/// The functions of a library, except `create`.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) destroy: abi::Destroy,
    pub(crate) ready: abi::Ready,
    pub(crate) next: abi::Next,
    pub(crate) take: abi::Take,
    pub(crate) arrived: Option<abi::Arrived>,
    pub(crate) changed: Option<abi::Changed>,
    pub(crate) migrate_from: Option<abi::MigrateFrom>,
    pub(crate) is_reusable: Option<abi::IsReusable>,
    pub(crate) guarantee: Option<abi::Guarantees>,
}

/// An instance of a library's discipline. Every call below relies on these invariants. The pointer
/// came from `create` of the same library, and its data is alive and used by one call at a time.
/// Only this struct owns the instance, and destroys it once, when it is dropped.
pub(crate) struct LibraryInstance {
    functions: Functions,
    /// The instance, as `create` returned it.
    own: NonNull<c_void>,
    /// Number of flows, and of queues in each call.
    flows: usize,
    /// The reason that the library gave for its last failure; empty before.
    why: String,
}

// SAFETY: the header allows calls of an instance from any thread, one call at a time.
unsafe impl Send for LibraryInstance {}

// `QueueView` has the layout of the header's queue, so that a slice of it can be passed as it is.
const _: () = {
    assert!(
        size_of::<QueueView>() == size_of::<abi::Queue>()
            && align_of::<QueueView>() == align_of::<abi::Queue>()
    );
    assert!(
        offset_of!(QueueView, tag) == offset_of!(abi::Queue, tag)
            && offset_of!(QueueView, bytes) == offset_of!(abi::Queue, bytes)
    );
    assert!(offset_of!(QueueView, head) == offset_of!(abi::Queue, head));
    assert!(offset_of!(QueueView, packets) == offset_of!(abi::Queue, packets));
};

impl LibraryInstance {
    pub(crate) fn new(functions: Functions, own: NonNull<c_void>, flows: usize) -> LibraryInstance {
        LibraryInstance { functions, own, flows, why: String::new() }
    }

    /// The queues as the header's type; one entry for each flow, as the header requires.
    #[inline]
    fn as_c_queues(&self, queues: &[QueueView]) -> *const abi::Queue {
        debug_assert_eq!(queues.len(), self.flows);
        queues.as_ptr().cast()
    }
}

impl Drop for LibraryInstance {
    fn drop(&mut self) {
        // SAFETY: see `LibraryInstance`; no further call follows.
        unsafe { (self.functions.destroy)(self.own.as_ptr()) }
    }
}

impl Instance for LibraryInstance {
    #[inline]
    fn arrived(&mut self, queues: &[QueueView], f: FlowId, bytes: u32, now: Time) -> u64 {
        let Some(arrived) = self.functions.arrived else { return 0 };
        // SAFETY: see `LibraryInstance`; the queues do not change during the call.
        unsafe { arrived(self.own.as_ptr(), self.as_c_queues(queues), f.0, bytes, now.0) }
    }

    #[inline]
    fn ready(&mut self, queues: &[QueueView], f: FlowId, now: Time) {
        // SAFETY: see `LibraryInstance`; the queues do not change during the call.
        unsafe { (self.functions.ready)(self.own.as_ptr(), self.as_c_queues(queues), f.0, now.0) }
    }

    fn changed(&mut self, queues: &[QueueView], f: FlowId, now: Time) {
        let Some(changed) = self.functions.changed else { return };
        // SAFETY: see `LibraryInstance`; the queues do not change during the call.
        unsafe { changed(self.own.as_ptr(), self.as_c_queues(queues), f.0, now.0) }
    }

    #[inline]
    fn next(&mut self, queues: &[QueueView], now: Time) -> LibraryDecision {
        let mut answer = abi::Answer { time: 0, why: ptr::null(), flow: abi::NO_FLOW, reserved: 0 };
        // SAFETY: see `LibraryInstance`; the queues do not change during the call, and the answer
        // is writable.
        let said = unsafe {
            (self.functions.next)(
                self.own.as_ptr(),
                self.as_c_queues(queues),
                now.0,
                &raw mut answer,
            )
        };
        match said {
            abi::SERVE => LibraryDecision::Serve(answer.flow),
            abi::WAIT => LibraryDecision::Wait(Time(answer.time)),
            abi::IDLE => LibraryDecision::Idle,
            abi::DROP => LibraryDecision::Drop(answer.flow),
            abi::FAILED => {
                self.why = why(&answer);
                LibraryDecision::Failed
            }
            number => LibraryDecision::Unknown(number),
        }
    }

    fn why(&self) -> String {
        self.why.clone()
    }

    #[inline]
    fn on_transmit(&mut self, queues: &[QueueView], f: FlowId, sent: Sent) {
        let sent =
            abi::Sent { start: sent.start.0, end: sent.end.0, bytes: sent.bytes, reserved: 0 };
        // SAFETY: see `LibraryInstance`; the arguments do not change during the call.
        unsafe {
            (self.functions.take)(
                self.own.as_ptr(),
                self.as_c_queues(queues),
                f.0,
                &raw const sent,
            );
        }
    }

    fn migrate_from(&mut self, old: Box<dyn Instance>, queues: &[QueueView], now: Time) {
        let old: Box<dyn Any> = old;
        let (Some(migrate_from), Ok(old)) =
            (self.functions.migrate_from, old.downcast::<LibraryInstance>())
        else {
            return;
        };
        // SAFETY: see `LibraryInstance`; both are of the same library, and `old` is destroyed after
        // the call.
        unsafe {
            migrate_from(self.own.as_ptr(), old.own.as_ptr(), self.as_c_queues(queues), now.0);
        }
    }

    fn is_reusable(&self, f: FlowId, now: Time) -> bool {
        // SAFETY: see `LibraryInstance`.
        self.functions
            .is_reusable
            .is_none_or(|ask| unsafe { ask(self.own.as_ptr(), f.0, now.0) } != 0)
    }

    fn guarantee(&self, f: FlowId) -> Option<Declared> {
        let (ask, mut guarantee) = (self.functions.guarantee?, abi::Guarantee::default());
        if f.index() >= self.flows {
            return None;
        }
        // SAFETY: see `LibraryInstance`; the guarantee is writable.
        let guaranteed = unsafe { ask(self.own.as_ptr(), f.0, &raw mut guarantee) } != 0;
        let abi::Guarantee { rate, latency, delay } = guarantee;
        guaranteed.then_some(Declared {
            rate: Rate(rate),
            latency: Span(latency),
            delay: Span(delay),
        })
    }
}

#[cold]
fn why(answer: &abi::Answer) -> String {
    if answer.why.is_null() {
        return "the library gives no reason".into();
    }
    // SAFETY: the header says that the reason is a string that stays valid until the next call,
    // which does not come before this function returns.
    let text = unsafe { CStr::from_ptr(answer.why) };
    text.to_string_lossy().into_owned()
}
