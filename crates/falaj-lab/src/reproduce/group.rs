//! A control group of one's own, second to all others as far as the kernel lets it be: a tenth of
//! the usual weight for the processor, and for the disk.
//!
//! Nothing of the host is changed for it: a group is made beside the one that the process is in
//! (version 2, where a group with processes has no groups below that count), or below it (version
//! 1), and has the controllers that are handed down there, or none.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of the usual weight, which is 100 in version 2 and for the disk, 1024 for the processor in
/// version 1.
const TENTH: [(&str, &str); 4] =
    [("cpu.weight", "10"), ("cpu.shares", "102"), ("io.weight", "10"), ("io.bfq.weight", "10")];
const DISK_1: (&str, &str) = ("blkio.bfq.weight", "10");

/// It, or why there is none; it is left and removed with this.
pub(super) struct Group {
    /// Directories, and those that the process was in before.
    at: Vec<(PathBuf, PathBuf)>,
    words: String,
}

/// Where a group may be made, and the one that the process is in.
#[derive(Debug, PartialEq, Eq)]
struct CgroupPlace {
    above: PathBuf,
    now: PathBuf,
}

/// Of the kernel's lists of this process's groups and of what is mounted: the place in version 2,
/// and those of processor and disk in version 1.
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
    /// A new one for this process, whose file `written` lies on the disk that is meant.
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

    /// Makes one there, has the process enter it, and says what is limited. Without anything to
    /// limit there is none.
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

    /// The directories that are it.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        self.at.iter().map(|(directory, _)| directory.clone()).collect()
    }

    fn leave(&mut self) {
        for (directory, before) in self.at.drain(..) {
            // Where that fails it is removed by whoever waits for this process.
            let _ = enter(&before);
            let _ = fs::remove_dir(directory);
        }
    }
}

/// This process.
fn enter(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("cgroup.procs"), std::process::id().to_string())
}

/// What is to be said where the weight for the disk is not sure to be heeded.
fn unheeded(set: &[String], scheduler: Option<&str>) -> String {
    let sets = |file: &str| set.iter().any(|limit| limit.starts_with(file));
    match scheduler {
        Some(name) if name != "bfq" && (sets("blkio.bfq.weight") || sets("io.bfq.weight")) => {
            format!(" (which {name}, the disk's scheduler, does not heed)")
        }
        Some(name) if name != "bfq" && sets("io.weight") => {
            format!(
                " (the disk's scheduler is {name}; it is heeded where the kernel's cost model is \
                 on)"
            )
        }
        _ => String::new(),
    }
}

/// What orders the requests of the disk that a file lies on.
fn scheduler(file: &File) -> Option<String> {
    let device = file.metadata().ok()?.dev();
    let device = format!(
        "/sys/dev/block/{}:{}",
        nix::sys::stat::major(device),
        nix::sys::stat::minor(device)
    );
    // Of a partition it is that of the whole.
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
        // As systemd has it.
        let session = "0::/user.slice/user-0.slice/session-1.scope\n";
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev 0 0\n";
        let slice = "/sys/fs/cgroup/user.slice/user-0.slice";
        let found = places(session, second);
        assert_eq!(found, (Some(place(slice, &format!("{slice}/session-1.scope"))), Vec::new()));
        // At the root there is nothing above, and what may only be read is none.
        assert_eq!(places("0::/\n", second).0, Some(place("/sys/fs/cgroup", "/sys/fs/cgroup/")));
        assert_eq!(places("0::/\n", &second.replace("rw", "ro")), (None, Vec::new()));
        // Version 1, with some controllers together.
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
        assert!(unheeded(&bfq, Some("none")).contains("none, the disk's scheduler, does not heed"));
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
