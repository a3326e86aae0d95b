//! Large pieces of memory lie on large pages, where the kernel lets them.

use falaj_live::memory::LargePages;
use std::fs::read_to_string;

#[global_allocator]
static MEMORY: LargePages = LargePages;

/// Kilobytes of this process on large pages.
fn on_large_pages() -> u64 {
    let text = read_to_string("/proc/self/smaps").expect("Linux");
    let of = |line: &str| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    text.lines().filter_map(of).sum()
}

#[test]
fn what_is_large_lies_on_large_pages_and_keeps_what_is_in_it() {
    const MIB: usize = 1 << 20;
    let setting = read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let before = on_large_pages();
    // Zeros, as they come; then longer, in a place of its own perhaps.
    let mut piece = vec![0u8; 16 * MIB];
    assert!(piece.iter().step_by(509).all(|byte| *byte == 0));
    let pattern: Vec<u8> = (0..=255).cycle().take(MIB).collect();
    piece.chunks_exact_mut(MIB).for_each(|part| part.copy_from_slice(&pattern));
    piece.resize(32 * MIB, 7);
    assert!(piece.chunks_exact(MIB).take(16).all(|part| part == pattern));
    assert!(piece[16 * MIB..].chunks_exact(MIB).all(|part| part == vec![7; MIB]));
    let after = on_large_pages();
    // What was there before moves with the small pages that the kernel makes of it, until it puts them together again.
    if setting.contains("[madvise]") || setting.contains("[always]") {
        assert!(after >= before + 12 * 1024, "{before} kB, then {after} kB of 32,768");
    }
    drop(piece);
    assert!(on_large_pages() < after || after == before);
    let mut small: Vec<Vec<u8>> = (0..1000).map(|n| vec![n as u8; 3000]).collect();
    small.iter_mut().enumerate().for_each(|(n, piece)| piece.resize(3 * MIB / 1000 * (n % 3 + 1), n as u8));
    assert!(small.iter().enumerate().all(|(n, piece)| piece.iter().all(|byte| *byte == n as u8)));
}
