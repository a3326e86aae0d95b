//! Configuration of the C library's allocator.
#![allow(unsafe_code)]

/// Makes all threads of this process allocate from one heap. glibc gives each thread its own, which
/// grows to the maximum that the thread ever needed, and free memory of one is not available to
/// another. A service that runs for months would take the sum of the maxima of all its threads. A
/// thread that must not wait for the heap's lock allocates nothing: units keep their memory. Call
/// this before starting other threads; with another C library it has no effect.
pub fn one_for_all() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes two numbers, and nothing is allocated meanwhile.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}
