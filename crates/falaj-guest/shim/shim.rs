//! Two functions between the guest kernel and the C library, loaded by LD_PRELOAD.
//!
//! `ptrace`: guest kernels up to 6.13 pass 2,696 bytes for a process's vector registers. On a
//! processor with larger vector registers (AMX) the host refuses this size. The shim fills the
//! missing bytes with zeros. The header of the bytes states which registers they hold, and the
//! missing registers are not among these.
//!
//! `getrandom`: the guest kernel would mix the host's randomness into its own, so that no two runs
//! would be equal. The shim returns the error that the call is not implemented; the guest's init
//! supplies the randomness.
#![no_std]

use core::arch::asm;
use core::panic::PanicInfo;
use core::ptr;

/// PTRACE_SETREGSET and the set of all vector registers.
const SET_REGISTERS: usize = 0x4205;
const VECTOR_REGISTERS: usize = 0x202;
/// PTRACE_PEEKTEXT to PTRACE_PEEKUSER, whose result the C library returns by value.
const PEEKS: core::ops::RangeInclusive<usize> = 1..=3;
const SYS_PTRACE: isize = 101;
const NOT_IMPLEMENTED: i32 = 38;

/// Length of the buffer in bytes: larger than the vector registers of any processor.
const MOST: usize = 65_536;
/// One buffer suffices, because the guest kernel has one thread.
static mut REGISTERS: [u8; MOST] = [0; MOST];

#[repr(C)]
struct Memory {
    base: *mut u8,
    length: usize,
}

unsafe extern "C" {
    fn __errno_location() -> *mut i32;
}

fn fail(errno: i32) -> isize {
    // SAFETY: the C library returns this thread's own errno.
    unsafe { *__errno_location() = errno };
    -1
}

/// ptrace(2), with the interface of the C library.
///
/// # Safety
/// See ptrace(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: usize, pid: usize, address: usize, data: usize) -> isize {
    let mut whole = Memory { base: &raw mut REGISTERS as *mut u8, length: MOST };
    let mut word: usize = 0;
    let data = if request == SET_REGISTERS && address == VECTOR_REGISTERS {
        // SAFETY: the caller passes a description of its memory, and the buffer is ours; no other
        // thread exists that could use it.
        unsafe {
            let given = &*(data as *const Memory);
            ptr::copy_nonoverlapping(given.base, whole.base, given.length.min(MOST));
        }
        &raw mut whole as usize
    } else if PEEKS.contains(&request) {
        &raw mut word as usize
    } else {
        data
    };
    let done: isize;
    // SAFETY: the arguments are the caller's, or point to memory that outlives the call.
    unsafe {
        asm!("syscall", inlateout("rax") SYS_PTRACE => done, in("rdi") request, in("rsi") pid,
            in("rdx") address, in("r10") data, lateout("rcx") _, lateout("r11") _);
    }
    match done {
        ..0 => fail(-done as i32),
        _ if PEEKS.contains(&request) => word as isize,
        _ => done,
    }
}

/// getrandom(2), which reports to the guest that it is not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn getrandom(_to: *mut u8, _length: usize, _flags: u32) -> isize {
    fail(NOT_IMPLEMENTED)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
