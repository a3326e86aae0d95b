//! Finds the programs of a guest that are computing, for the message that explains why the guest's
//! clock stands still.
//!
//! Each process of the guest is also a process of the host, which the guest's kernel traces. The
//! processor time of a process on the host shows if the process is computing. The name of its
//! program is at the top of its stack, where the guest's kernel writes it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Interval over which processor times are compared.
const WATCHED: Duration = Duration::from_millis(300);
/// Maximum number of names returned.
const MOST: usize = 5;

/// The names of programs that are computing in a guest, at most [`MOST`], sorted; takes
/// [`WATCHED`]. `kernel` is the host's process number of the guest's kernel, `image` the kernel's
/// file.
pub(crate) fn computing(kernel: u32, image: &Path) -> Vec<String> {
    let before = processor_times(kernel);
    sleep(WATCHED);
    let mut names: Vec<String> = processor_times(kernel)
        .into_iter()
        .filter(|(pid, time)| before.get(pid).is_none_or(|before| time > before))
        .map(|(pid, _)| {
            program(pid, Some(image)).unwrap_or_else(|| "a process of the command".into())
        })
        .collect();
    names.sort();
    names.dedup();
    names.truncate(MOST);
    names
}

/// The processor time of each process of the guest so far, in clock ticks, by process number.
fn processor_times(kernel: u32) -> BTreeMap<u32, u64> {
    let children = format!("/proc/{kernel}/task/{kernel}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    let time = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The third field begins after the name, which may contain any characters, `)` too.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(ticks(14)? + ticks(15)?)
    };
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.filter_map(|pid| Some((pid, time(pid)?))).collect()
}

/// The name of a process's program, from its stack. The highest stack is the one with which the
/// guest's kernel started the process: it holds the kernel's own name, and is skipped.
fn program(pid: u32, kernel: Option<&Path>) -> Option<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    // The program's stack is the highest of its own mappings. The mappings above it belong to the
    // guest's kernel.
    maps.lines().rev().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        if !rest.starts_with("rw") {
            return None;
        }
        let end = u64::from_str_radix(range.split_once('-')?.1, 16).ok()?;
        let mut page = [0; 4096];
        memory.read_exact_at(&mut page, end.checked_sub(4096)?).ok()?;
        name_at_the_top(&page).filter(|name| kernel != Some(Path::new(name)))
    })
}

/// The program's name from the last page of a stack, which ends with the name, a zero byte, and
/// eight zero bytes.
fn name_at_the_top(page: &[u8]) -> Option<String> {
    let text = page.strip_suffix(&[0; 8])?.strip_suffix(&[0])?;
    let begin = text.iter().rposition(|byte| *byte == 0)? + 1;
    let name = std::str::from_utf8(&text[begin..]).ok()?;
    (name.len() > 1 && name.chars().all(|c| !c.is_control())).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_last_text_of_a_stack() {
        let page = [b"HOME=/\0".as_slice(), b"/bin/sh\0", &[0; 8]].concat();
        assert_eq!(name_at_the_top(&page).as_deref(), Some("/bin/sh"));
        assert_eq!(name_at_the_top(b"/bin/sh\0"), None);
        assert_eq!(name_at_the_top(&[0; 64]), None);
        assert_eq!(name_at_the_top(b""), None);
    }

    #[test]
    fn this_programs_stack_has_its_name() {
        let name = program(std::process::id(), None);
        // A process can read its own memory; the program's name may be relative to a directory.
        let file = std::env::current_exe().unwrap();
        let file = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.as_ref().is_some_and(|name| name.ends_with(&file)), "{name:?}");
    }
}
