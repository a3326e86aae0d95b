//! The C ABI of `falaj_discipline.h`, which documents the meaning of each item.
#![allow(missing_docs)]

use core::ffi::{c_char, c_int, c_void};

/// A magic number, with the version in the last two bytes.
pub const ABI: u32 = 0xfa1a_0001;
/// The discipline does not wait while any flow has a packet.
pub const WORK_CONSERVING: u32 = 1;

pub const IDLE: u32 = 0;
pub const SERVE: u32 = 1;
pub const WAIT: u32 = 2;
pub const DROP: u32 = 3;
pub const FAILED: u32 = 4;

pub const TEXT: u32 = 0;
pub const NUMBER: u32 = 1;
pub const RATE: u32 = 2;
pub const SPAN: u32 = 3;
pub const BYTES: u32 = 4;
pub const PACKETS: u32 = 5;

pub const NO_FLOW: u32 = u32::MAX;
pub const UNBOUNDED: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: *const c_char,
    pub text: *const c_char,
    pub number: u64,
    pub unit: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub params: *const Param,
    pub max_bytes: u64,
    pub max_packets: u32,
    pub param_count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub flows: *const Flow,
    pub params: *const Param,
    pub rate: u64,
    pub flow_count: u32,
    pub param_count: u32,
    pub largest: u32,
    pub reserved: u32,
}

/// Bytes of a text in a [`Refusal`], including the terminating zero.
pub const TEXT_BYTES: usize = 256;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    pub flow: u32,
    pub what: [c_char; TEXT_BYTES],
    pub help: [c_char; TEXT_BYTES],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub tag: u64,
    pub bytes: u64,
    pub head: u32,
    pub packets: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub time: u64,
    pub why: *const c_char,
    pub flow: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub start: u64,
    pub end: u64,
    pub bytes: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guarantee {
    pub rate: u64,
    pub latency: u64,
    pub delay: u64,
}

pub type Create = unsafe extern "C" fn(*const Setup, *mut Refusal) -> *mut c_void;
pub type Destroy = unsafe extern "C" fn(*mut c_void);
pub type Ready = unsafe extern "C" fn(*mut c_void, *const Queue, u32, u64);
pub type Next = unsafe extern "C" fn(*mut c_void, *const Queue, u64, *mut Answer) -> u32;
pub type Take = unsafe extern "C" fn(*mut c_void, *const Queue, u32, *const Sent);
pub type Arrived = unsafe extern "C" fn(*mut c_void, *const Queue, u32, u32, u64) -> u64;
pub type Changed = unsafe extern "C" fn(*mut c_void, *const Queue, u32, u64);
pub type MigrateFrom = unsafe extern "C" fn(*mut c_void, *mut c_void, *const Queue, u64);
pub type IsReusable = unsafe extern "C" fn(*const c_void, u32, u64) -> c_int;
pub type Guarantees = unsafe extern "C" fn(*const c_void, u32, *mut Guarantee) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    pub abi: u32,
    pub flags: u32,
    pub name: *const c_char,
    pub create: Option<Create>,
    pub destroy: Option<Destroy>,
    pub ready: Option<Ready>,
    pub next: Option<Next>,
    pub take: Option<Take>,
    pub arrived: Option<Arrived>,
    pub changed: Option<Changed>,
    pub migrate_from: Option<MigrateFrom>,
    pub is_reusable: Option<IsReusable>,
    pub guarantee: Option<Guarantees>,
}

// SAFETY: the table is constant: a name that is never written to, and functions.
unsafe impl Sync for Discipline {}
// SAFETY: as above.
unsafe impl Send for Discipline {}
