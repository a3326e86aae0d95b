//! Where the allocator of the C library has its memory.
#![allow(unsafe_code)]

/// All threads of this process allocate from one heap. glibc gives each its own, which grows to the
/// most that its thread ever had at once, and what is free in one is of no use in another: a
/// service that goes on for months would take the sum of all its threads' busiest moments. A thread
/// that must not wait for another one's turn at the heap allocates nothing: units keep
/// their memory. To be called before there are other threads; with another C library nothing
/// happens.
pub fn one_for_all() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes two numbers, and nobody allocates meanwhile.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}
