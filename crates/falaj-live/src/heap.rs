//! Configuration of the C library's allocator.
#![allow(unsafe_code)]

/// Makes all threads of this process allocate from one heap. By default glibc gives each thread its
/// own heap, which grows to the maximum that the thread ever needed; free memory of one heap is not
/// available to other threads. A service that runs for months would take the sum of these maxima.
/// The forwarding thread, which must not wait for the heap's lock, hardly allocates: the memory of
/// units is reused. Call this before starting other threads; with another C library it has no
/// effect.
pub fn one_for_all() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes two numbers, and nothing is allocated meanwhile.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}
