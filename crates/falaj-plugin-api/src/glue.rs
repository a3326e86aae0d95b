//! The layer between the C functions and a [`Discipline`]: the code that [`export!`](crate::export)
//! puts into a library.
//!
//! No panic leaves the library. A panic in `create` counts as a refusal of the setup; in
//! `is_reusable` and `guarantee` it counts as a negative answer; in `destroy` it is ignored. After
//! a panic in any other function, an instance ignores events, and reports the panic at the next
//! call of `next`.

use crate::abi::{self, Queue, Sent};
use crate::{Answer, Discipline, Flow, Params, Refused, Setup, Value};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// The target of the pointer `self`.
struct Kept<D> {
    discipline: D,
    flows: usize,
    /// The message of its panic, if it has panicked.
    panicked: Option<CString>,
}

/// The table of functions for `D`.
pub const fn discipline<D: Discipline>() -> abi::Discipline {
    abi::Discipline {
        abi: abi::ABI,
        flags: if D::WORK_CONSERVING { abi::WORK_CONSERVING } else { 0 },
        name: D::NAME.as_ptr(),
        create: Some(create::<D>),
        destroy: Some(destroy::<D>),
        ready: Some(ready::<D>),
        next: Some(next::<D>),
        take: Some(take::<D>),
        arrived: if D::SEES_ARRIVALS { Some(arrived::<D>) } else { None },
        changed: Some(changed::<D>),
        migrate_from: if D::CAN_MIGRATE { Some(migrate_from::<D>) } else { None },
        is_reusable: Some(is_reusable::<D>),
        guarantee: Some(guarantee::<D>),
    }
}

fn message(panic: &(dyn Any + Send)) -> CString {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    CString::new(format!("panic: {}", text.replace('\0', " "))).unwrap_or_default()
}

impl<D: Discipline> Kept<D> {
    /// Calls `work` with the discipline, unless it has panicked before.
    fn with<R>(
        &mut self,
        queues: *const Queue,
        work: impl FnOnce(&mut D, &[Queue]) -> R,
    ) -> Option<R> {
        if self.panicked.is_some() {
            return None;
        }
        // SAFETY: falaj passes one entry for each flow of the setup, and does not change them
        // during the call.
        let queues = unsafe { entries(queues, self.flows) };
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut self.discipline, queues)));
        done.map_err(|panic| self.panicked = Some(message(&*panic))).ok()
    }
}

/// The entries as a slice, which is empty if there are none.
///
/// # Safety
/// Unless `first` is null, `count` entries are readable there for as long as `'a`.
unsafe fn entries<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: `first` is not null; the rest is guaranteed by the caller.
    unsafe { slice::from_raw_parts(first, count) }
}

/// # Safety
/// `from` is null, or it ends with a zero and lives as long as `'a`.
unsafe fn text<'a>(from: *const c_char) -> &'a str {
    if from.is_null() {
        return "";
    }
    // SAFETY: `from` is not null; the rest is guaranteed by the caller.
    unsafe { CStr::from_ptr(from) }.to_str().unwrap_or_default()
}

/// # Safety
/// The parameters and their texts live as long as `'a`.
unsafe fn params<'a>(first: *const abi::Param, count: u32) -> Params<'a> {
    // SAFETY: guaranteed by the caller.
    let all: &[abi::Param] = unsafe { entries(first, count as usize) };
    let one = |param: &abi::Param| {
        // SAFETY: guaranteed by the caller.
        let (name, text) = unsafe { (text(param.name), text(param.text)) };
        let value = match param.unit {
            abi::NUMBER => Value::Number(param.number),
            abi::RATE => Value::Rate(param.number),
            abi::SPAN => Value::Span(param.number),
            abi::BYTES => Value::Bytes(param.number),
            abi::PACKETS => Value::Packets(param.number),
            _ => Value::Text(text),
        };
        (name, value)
    };
    Params(all.iter().map(one).collect())
}

fn write(to: &mut [c_char; abi::TEXT_BYTES], text: &str) {
    let mut end = text.len().min(abi::TEXT_BYTES - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (to, from) in to.iter_mut().zip(text.as_bytes()[..end].iter().chain([&0])) {
        *to = *from as c_char;
    }
}

unsafe extern "C" fn create<D: Discipline>(
    setup: *const abi::Setup,
    refusal: *mut abi::Refusal,
) -> *mut c_void {
    // SAFETY: falaj passes both pointers, and nothing else accesses their targets during the call.
    let (given, refusal) = unsafe { (&*setup, &mut *refusal) };
    // SAFETY: falaj's arrays and texts are valid during the call.
    let flows: &[abi::Flow] = unsafe { entries(given.flows, given.flow_count as usize) };
    let flow = |flow: &abi::Flow| Flow {
        // SAFETY: as above.
        params: unsafe { params(flow.params, flow.param_count) },
        max_packets: Some(flow.max_packets).filter(|&n| n != abi::UNBOUNDED),
        max_bytes: Some(flow.max_bytes).filter(|&n| n != u64::MAX),
    };
    let setup = Setup {
        rate: given.rate,
        largest: given.largest,
        // SAFETY: as above.
        params: unsafe { params(given.params, given.param_count) },
        flows: flows.iter().map(flow).collect(),
    };
    let made = catch_unwind(AssertUnwindSafe(|| D::new(&setup)));
    let refused = match made {
        Ok(Ok(discipline)) => {
            let kept = Kept { discipline, flows: flows.len(), panicked: None };
            return Box::into_raw(Box::new(kept)).cast();
        }
        Ok(Err(refused)) => refused,
        Err(panic) => Refused {
            flow: None,
            what: message(&*panic).to_string_lossy().into_owned(),
            help: "tell the author of the library".into(),
        },
    };
    refusal.flow = refused.flow.unwrap_or(abi::NO_FLOW);
    write(&mut refusal.what, &refused.what);
    write(&mut refusal.help, &refused.help);
    core::ptr::null_mut()
}

/// # Safety
/// `own` is a result of [`create`] for the same `D`, and nothing else accesses the instance during
/// the call.
unsafe fn kept<'a, D>(own: *mut c_void) -> &'a mut Kept<D> {
    // SAFETY: guaranteed by the caller.
    unsafe { &mut *own.cast::<Kept<D>>() }
}

unsafe extern "C" fn destroy<D: Discipline>(own: *mut c_void) {
    // SAFETY: the instance was made by `create`, and is not used any more.
    let kept = unsafe { Box::from_raw(own.cast::<Kept<D>>()) };
    // Dropping may panic too, and there is no later call to report it.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(kept)));
}

unsafe extern "C" fn ready<D: Discipline>(
    own: *mut c_void,
    queues: *const Queue,
    flow: u32,
    now: u64,
) {
    // SAFETY: nothing else accesses the instance during falaj's calls.
    unsafe { kept::<D>(own) }
        .with(queues, |discipline, queues| discipline.ready(queues, flow, now));
}

unsafe extern "C" fn next<D: Discipline>(
    own: *mut c_void,
    queues: *const Queue,
    now: u64,
    answer: *mut abi::Answer,
) -> u32 {
    // SAFETY: nothing else accesses the instance or the answer during falaj's calls.
    let (kept, answer) = unsafe { (kept::<D>(own), &mut *answer) };
    match kept.with(queues, |discipline, queues| discipline.next(queues, now)) {
        Some(Answer::Serve(flow)) => {
            answer.flow = flow;
            abi::SERVE
        }
        Some(Answer::Drop(flow)) => {
            answer.flow = flow;
            abi::DROP
        }
        Some(Answer::Wait(then)) => {
            answer.time = then;
            abi::WAIT
        }
        Some(Answer::Idle) => abi::IDLE,
        None => {
            answer.why = kept.panicked.as_ref().map_or(core::ptr::null(), |why| why.as_ptr());
            abi::FAILED
        }
    }
}

unsafe extern "C" fn take<D: Discipline>(
    own: *mut c_void,
    queues: *const Queue,
    flow: u32,
    sent: *const Sent,
) {
    // SAFETY: nothing else accesses the instance or `sent` during falaj's calls.
    let (kept, sent) = unsafe { (kept::<D>(own), &*sent) };
    kept.with(queues, |discipline, queues| discipline.take(queues, flow, sent));
}

unsafe extern "C" fn arrived<D: Discipline>(
    own: *mut c_void,
    queues: *const Queue,
    flow: u32,
    bytes: u32,
    now: u64,
) -> u64 {
    // SAFETY: nothing else accesses the instance during falaj's calls.
    let kept = unsafe { kept::<D>(own) };
    kept.with(queues, |discipline, queues| discipline.arrived(queues, flow, bytes, now))
        .unwrap_or(0)
}

unsafe extern "C" fn changed<D: Discipline>(
    own: *mut c_void,
    queues: *const Queue,
    flow: u32,
    now: u64,
) {
    // SAFETY: nothing else accesses the instance during falaj's calls.
    unsafe { kept::<D>(own) }
        .with(queues, |discipline, queues| discipline.changed(queues, flow, now));
}

unsafe extern "C" fn migrate_from<D: Discipline>(
    own: *mut c_void,
    old: *mut c_void,
    queues: *const Queue,
    now: u64,
) {
    // SAFETY: nothing else accesses either instance during falaj's calls, and they are not the
    // same.
    let (own, old) = unsafe { (kept::<D>(own), kept::<D>(old)) };
    own.panicked = old.panicked.take();
    own.with(queues, |discipline, queues| {
        discipline.migrate_from(&mut old.discipline, queues, now);
    });
}

unsafe extern "C" fn is_reusable<D: Discipline>(own: *const c_void, flow: u32, now: u64) -> c_int {
    // SAFETY: nothing else accesses the instance during falaj's calls.
    let kept = unsafe { &*own.cast::<Kept<D>>() };
    catch_unwind(AssertUnwindSafe(|| kept.discipline.is_reusable(flow, now)))
        .unwrap_or(false)
        .into()
}

unsafe extern "C" fn guarantee<D: Discipline>(
    own: *const c_void,
    flow: u32,
    guarantee: *mut abi::Guarantee,
) -> c_int {
    // SAFETY: nothing else accesses the instance or the guarantee during falaj's calls.
    let (kept, to) = unsafe { (&*own.cast::<Kept<D>>(), &mut *guarantee) };
    let guaranteed =
        catch_unwind(AssertUnwindSafe(|| kept.discipline.guarantee(flow))).unwrap_or(None);
    if let Some(guaranteed) = guaranteed {
        *to = guaranteed;
    }
    guaranteed.is_some().into()
}
