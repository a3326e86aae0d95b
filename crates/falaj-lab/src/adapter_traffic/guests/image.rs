//! The boot files of a guest: a packaged kernel, its modules for a virtio-net card, a static
//! busybox, and this program.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The machine's emulator, from the package qemu-system-x86.
pub(super) const QEMU: &str = "qemu-system-x86_64";
/// File name of the archive that the kernel unpacks.
pub(super) const ARCHIVE: &str = "initrd";
/// Kernel modules in the order of loading; a missing one is built into the kernel.
const MODULES: [&str; 9] = [
    "net/core/failover",
    "drivers/net/net_failover",
    "lib/dim/dimlib",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "drivers/net/virtio_net",
];
/// Commands of busybox that `INIT` uses.
const APPLETS: [&str; 11] =
    ["sh", "mount", "insmod", "stty", "ip", "arp", "cut", "ls", "grep", "cat", "poweroff"];
const INIT: &str = include_str!("init.sh");

/// The files found on this machine.
pub(super) struct GuestFiles {
    pub(super) kernel: PathBuf,
    modules: PathBuf,
    busybox: PathBuf,
}

impl GuestFiles {
    /// Finds the files below this directory, at the paths of the packages.
    ///
    /// # Errors
    /// The missing file, and the package that has it.
    pub(super) fn below(root: &Path) -> Result<GuestFiles> {
        let mut versions: Vec<String> = names(&root.join("lib/modules"));
        versions.retain(|version| root.join(format!("boot/vmlinuz-{version}")).is_file());
        // Any version is suitable; the last one by name is chosen.
        versions.sort();
        let Some(version) = versions.pop() else {
            bail!(
                "there is no kernel with its modules (boot/vmlinuz-*, lib/modules) below {}: \
                 install the package linux-image-cloud-amd64; or unpack the one that it depends on \
                 (`apt-get download`, `dpkg -x`) into a directory DIR, and pass --guests=DIR",
                root.display()
            );
        };
        let busybox = ["bin/busybox", "usr/bin/busybox"]
            .map(|name| root.join(name))
            .into_iter()
            .find(|at| at.is_file());
        let Some(busybox) = busybox else {
            bail!(
                "there is no bin/busybox below {}: install the package busybox-static, or unpack it there",
                root.display()
            );
        };
        Ok(GuestFiles {
            kernel: root.join(format!("boot/vmlinuz-{version}")),
            modules: root.join(format!("lib/modules/{version}/kernel")),
            busybox,
        })
    }

    /// Writes the archive that the kernel unpacks to this directory.
    pub(super) fn pack(&self, work: &Path) -> Result<PathBuf> {
        let base = work.join("base");
        for name in ["bin", "lib", "proc", "sys", "dev", "tmp", "modules"] {
            fs::create_dir_all(base.join(name))?;
        }
        put(&self.busybox, &base.join("bin/busybox"))?;
        for applet in APPLETS {
            symlink("busybox", base.join("bin").join(applet))?;
        }
        put(
            &std::env::current_exe().context("cannot find this program's own file")?,
            &base.join("bin/falaj"),
        )?;
        for library in libraries(&fs::read_to_string("/proc/self/maps")?) {
            let name = library.file_name().context("a library has a name")?;
            // The dynamic loader is started under a fixed name.
            let loads = name.to_string_lossy().starts_with("ld-");
            put(
                &library,
                &if loads { base.join("lib/loader") } else { base.join("lib").join(name) },
            )?;
        }
        for (n, module) in MODULES.iter().enumerate() {
            self.module(module, &base.join(format!("modules/{n}.ko")))?;
        }
        let init = base.join("init");
        fs::write(&init, INIT)?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        let archive = work.join(ARCHIVE);
        // Not compressed: an emulated processor copies faster than it unpacks.
        let busybox = fs::canonicalize(&self.busybox)?;
        let packed = Command::new(&busybox)
            .args(["sh", "-c", "\"$0\" find . | \"$0\" cpio -o -H newc"])
            .arg(&busybox)
            .current_dir(&base)
            .stdout(fs::File::create(&archive)?)
            .stderr(Stdio::null())
            .status()?;
        if !packed.success() {
            bail!(
                "{} makes no cpio archives: take Debian's busybox-static",
                self.busybox.display()
            );
        }
        fs::remove_dir_all(&base)?;
        Ok(archive)
    }

    fn module(&self, name: &str, to: &Path) -> Result<()> {
        let plain = self.modules.join(format!("{name}.ko"));
        if plain.is_file() {
            return put(&plain, to);
        }
        let packed = self.modules.join(format!("{name}.ko.xz"));
        if !packed.is_file() {
            return Ok(());
        }
        let unpacked = Command::new(&self.busybox)
            .args(["xz", "-dc"])
            .arg(&packed)
            .stdout(fs::File::create(to)?)
            .status()?;
        if !unpacked.success() {
            bail!("cannot unpack {}", packed.display());
        }
        Ok(())
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn put(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The libraries among the mapped files of a process.
fn libraries(maps: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.find('/').map(|at| line[at..].to_owned());
    let is_library =
        |path: &String| path.rsplit('/').next().is_some_and(|name| name.contains(".so"));
    let mut all: Vec<PathBuf> =
        maps.lines().filter_map(path).filter(is_library).map(PathBuf::from).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(root: &Path) -> String {
        GuestFiles::below(root).err().expect("something is missing").to_string()
    }

    #[test]
    fn what_is_missing_is_told_with_its_package() {
        let root = tempfile::tempdir().unwrap();
        assert!(refused(root.path()).contains("linux-image-cloud-amd64"));
        fs::create_dir_all(root.path().join("lib/modules/6.1.0-1-amd64/kernel")).unwrap();
        // Modules alone, without their kernel, do not suffice.
        assert!(refused(root.path()).contains("linux-image-cloud-amd64"));
        fs::create_dir_all(root.path().join("boot")).unwrap();
        fs::write(root.path().join("boot/vmlinuz-6.1.0-1-amd64"), "").unwrap();
        assert!(refused(root.path()).contains("busybox-static"));
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::write(root.path().join("usr/bin/busybox"), "").unwrap();
        let found = GuestFiles::below(root.path()).unwrap();
        assert_eq!(found.kernel, root.path().join("boot/vmlinuz-6.1.0-1-amd64"));
    }

    #[test]
    fn libraries_are_what_is_mapped_and_named_so() {
        let maps = "55d0-55d1 r-xp 0 08:01 7 /usr/bin/falaj\n\
                    7f00-7f01 r--p 0 08:01 9 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f01-7f02 r-xp 0 08:01 9 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02-7f03 rw-p 0 00:00 0 [heap]\n\
                    7f03-7f04 r-xp 0 08:01 8 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n";
        let names = ["ld-linux-x86-64.so.2", "libc.so.6"]
            .map(|n| Path::new("/usr/lib/x86_64-linux-gnu").join(n));
        assert_eq!(libraries(maps), names);
    }
}
