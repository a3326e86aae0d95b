//! A separate control group with low priority, if the kernel permits: a tenth of the usual weight
//! for the processor and for the disk.
//!
//! Nothing else on the host is changed. In version 2 of control groups, the new group is created
//! beside the process's present group, because a group with processes cannot have child groups with
//! controllers. In version 1 it is created below the present group. The new group has the
//! controllers that are delegated there, or none.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A tenth of the usual weight. The usual weight of the processor is 100 in version 2 and 1024 in
/// version 1; that of the disk is 100 in both.
const TENTH: [(&str, &str); 4] =
    [("cpu.weight", "10"), ("cpu.shares", "102"), ("io.weight", "10"), ("io.bfq.weight", "10")];
const DISK_1: (&str, &str) = ("blkio.bfq.weight", "10");

/// The control group, or the reason why there is none. Dropping it leaves and removes the group.
pub(super) struct Group {
    /// The group's directories, each with the directory of the group that the process was in
    /// before.
    at: Vec<(PathBuf, PathBuf)>,
    words: String,
}

/// The directory in which a group may be created, and the directory of the process's present group.
#[derive(Debug, PartialEq, Eq)]
struct CgroupPlace {
    above: PathBuf,
    now: PathBuf,
}

/// The place in version 2, and the places of processor and disk in version 1. They are found in the
/// kernel's lists of this process's groups and of mounts.
fn places(groups: &str, mounts: &str) -> (Option<CgroupPlace>, Vec<CgroupPlace>) {
    let mounted = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let [_, at, of, options] =
                line.split(' ').take(4).collect::<Vec<_>>().try_into().ok()?;
            (of == kind && options.split(',').any(|one| one == option)).then(|| PathBuf::from(at))
        })
    };
    let path = |wanted: &str| {
        groups.lines().find_map(|line| {
            let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>().try_into().ok()?;
            let path: &str = path;
            controllers
                .split(',')
                .any(|one: &str| one == wanted)
                .then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let second = path("").zip(mounted("cgroup2", "rw")).map(|(path, root)| {
        let now = root.join(&path);
        let above = if path.is_empty() { Some(root.as_path()) } else { now.parent() };
        CgroupPlace { above: above.unwrap_or(&root).to_owned(), now }
    });
    let first = ["cpu", "blkio"].into_iter().filter_map(|controller| {
        let now = mounted("cgroup", controller)?.join(path(controller)?);
        Some(CgroupPlace { above: now.clone(), now })
    });
    (second, first.collect())
}

impl Group {
    /// Creates and enters a group; the file `written` is on the disk that is loaded.
    pub(super) fn enter(written: &File) -> Group {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let (second, first) = places(&read("/proc/self/cgroup"), &read("/proc/self/mounts"));
        let mut group = Group { at: Vec::new(), words: String::new() };
        let mut failed = None;
        let mut set: Vec<String> = Vec::new();
        let mut version = 2;
        if let Some(place) = second {
            match group.make(&place, &TENTH) {
                Ok(limits) => set = limits,
                Err(error) => failed = Some(error),
            }
        }
        if set.is_empty() {
            group.leave();
            version = 1;
            for place in &first {
                match group.make(place, &[TENTH[1], DISK_1]) {
                    Ok(limits) => set.extend(limits),
                    Err(error) => failed = Some(error),
                }
            }
        }
        group.words = match (set.is_empty(), failed) {
            (false, _) => {
                let heeded = unheeded(&set, scheduler(written).as_deref());
                format!(
                    "in a control group of its own (version {version}): {}{heeded}",
                    set.join(", ")
                )
            }
            (true, Some(error)) => {
                format!("in no control group of its own, as none could be made ({error})")
            }
            (true, None) => {
                "in no control group of its own, as one could limit neither processor nor disk \
                 where it may be made"
                    .into()
            }
        };
        group
    }

    /// Creates a group at this place, and moves the process into it; returns the limits that were
    /// set. Without any limit, no group is created.
    fn make(&mut self, place: &CgroupPlace, limits: &[(&str, &str)]) -> io::Result<Vec<String>> {
        let directory = place.above.join(format!("falaj-disk-{}", std::process::id()));
        fs::create_dir(&directory)?;
        let has: Vec<_> = limits.iter().filter(|(file, _)| directory.join(file).exists()).collect();
        let set = has.iter().filter(|(file, value)| fs::write(directory.join(file), value).is_ok());
        let set: Vec<String> = set.map(|(file, value)| format!("{file} {value}")).collect();
        let entered = if set.is_empty() { Ok(()) } else { enter(&directory) };
        if set.is_empty() || entered.is_err() {
            let _ = fs::remove_dir(&directory);
            return entered.map(|()| Vec::new());
        }
        self.at.push((directory, place.now.clone()));
        Ok(set)
    }

    /// The directories of the group.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        self.at.iter().map(|(directory, _)| directory.clone()).collect()
    }

    fn leave(&mut self) {
        for (directory, before) in self.at.drain(..) {
            // If this fails, the process that waits for this one removes the directory.
            let _ = enter(&before);
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Moves this process into the group.
fn enter(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("cgroup.procs"), std::process::id().to_string())
}

/// A remark if the disk's scheduler may ignore the weight.
fn unheeded(set: &[String], scheduler: Option<&str>) -> String {
    let sets = |file: &str| set.iter().any(|limit| limit.starts_with(file));
    match scheduler {
        Some(name) if name != "bfq" && (sets("blkio.bfq.weight") || sets("io.bfq.weight")) => {
            format!(" (which {name}, the disk's scheduler, ignores)")
        }
        Some(name) if name != "bfq" && sets("io.weight") => {
            format!(
                " (the disk's scheduler is {name}; the weight has an effect if the kernel's cost \
                 model is on)"
            )
        }
        _ => String::new(),
    }
}

/// The I/O scheduler of the disk that holds a file.
fn scheduler(file: &File) -> Option<String> {
    let device = file.metadata().ok()?.dev();
    let device = format!(
        "/sys/dev/block/{}:{}",
        nix::sys::stat::major(device),
        nix::sys::stat::minor(device)
    );
    // A partition has the scheduler of its whole disk.
    let text = ["queue", "../queue"].iter().find_map(|queue| {
        fs::read_to_string(Path::new(&device).join(queue).join("scheduler")).ok()
    })?;
    let (_, name) = text.split_once('[')?;
    Some(name.split_once(']')?.0.to_owned())
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(above: &str, now: &str) -> CgroupPlace {
        CgroupPlace { above: above.into(), now: now.into() }
    }

    #[test]
    fn a_group_is_made_beside_or_below_ones_own() {
        // The layout of systemd.
        let session = "0::/user.slice/user-0.slice/session-1.scope\n";
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev 0 0\n";
        let slice = "/sys/fs/cgroup/user.slice/user-0.slice";
        let found = places(session, second);
        assert_eq!(found, (Some(place(slice, &format!("{slice}/session-1.scope"))), Vec::new()));
        // If the process is in the root group, the new group is created in the root. A read-only
        // mount does not count.
        assert_eq!(places("0::/\n", second).0, Some(place("/sys/fs/cgroup", "/sys/fs/cgroup/")));
        assert_eq!(places("0::/\n", &second.replace("rw", "ro")), (None, Vec::new()));
        // Version 1, with some controllers mounted together.
        let groups = "4:cpu,cpuacct:/a/b\n3:blkio:/\n1:name=systemd:/\n";
        let mounts = "cgroup /c/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\ncgroup /c/blkio \
                      cgroup rw,blkio 0 0\n";
        let below =
            [place("/c/cpu,cpuacct/a/b", "/c/cpu,cpuacct/a/b"), place("/c/blkio/", "/c/blkio/")];
        assert_eq!(places(groups, mounts), (None, below.into()));
        assert_eq!(places("", ""), (None, Vec::new()));
    }

    #[test]
    fn a_weight_that_nothing_heeds_is_told() {
        let set =
            |limits: &[&str]| limits.iter().map(|&limit| limit.to_owned()).collect::<Vec<_>>();
        let [bfq, io] = [
            set(&["cpu.shares 102", "blkio.bfq.weight 10"]),
            set(&["cpu.weight 10", "io.weight 10"]),
        ];
        assert!(unheeded(&bfq, Some("none")).contains("none, the disk's scheduler, ignores"));
        assert!(unheeded(&io, Some("none")).contains("cost model"));
        for (set, scheduler) in
            [(&bfq, Some("bfq")), (&io, None), (&set(&["cpu.weight 10"]), Some("none"))]
        {
            assert_eq!(unheeded(set, scheduler), "");
        }
    }

    #[test]
    fn where_nothing_can_be_limited_nothing_stays() {
        let mut group = Group { at: Vec::new(), words: String::new() };
        let above = tempfile::tempdir().unwrap();
        let there = CgroupPlace { above: above.path().into(), now: above.path().into() };
        assert_eq!(group.make(&there, &TENTH).unwrap(), Vec::<String>::new());
        assert!(group.at.is_empty() && fs::read_dir(&above).unwrap().next().is_none());
        let nowhere = CgroupPlace { above: "/proc/none".into(), now: "/proc".into() };
        assert!(group.make(&nowhere, &TENTH).is_err() && group.at.is_empty());
    }
}
