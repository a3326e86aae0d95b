//! Rights that are not needed once all is open: given up for good.
//!
//! What is opened later is opened by the process that was made for it ([`Opener`](falaj_live::adapters::Opener)), which no packet
//! and no request reaches. So the link's own process, which reads both, keeps none.

use crate::show::note;
use anyhow::{Context, Result};
use caps::CapSet;
use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// What a link does never: start programs, go elsewhere, look into others, change the kernel.
const NEVER: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
];

/// Gives all capabilities up, and system calls that a link never makes. Threads that begin later have as little.
pub(super) fn give_up() -> Result<()> {
    // Without the right to, the bounding set stays; it bounds programs, and none will be started.
    let _ = caps::clear(None, CapSet::Bounding);
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).with_context(|| format!("cannot give up the {set:?} capabilities"))?;
    }
    nix::sys::prctl::set_no_new_privs().context("cannot renounce new rights")?;
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        note!("no filter of system calls for this processor");
        return Ok(());
    };
    let rules = NEVER.iter().map(|&call| (call, Vec::new())).collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), arch);
    let program: BpfProgram =
        filter.context("the filter of system calls")?.try_into().context("the filter of system calls")?;
    seccompiler::apply_filter(&program).context("the kernel takes no filter of system calls")
}
