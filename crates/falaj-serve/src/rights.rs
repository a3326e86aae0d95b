//! Permanently drops the privileges that are not needed once everything is open.
//!
//! Later, a separate process opens interfaces ([`Opener`](falaj_live::adapters::Opener)); it reads
//! no packets and no requests. So the link's own process, which reads both, keeps no privileges.

use anyhow::{Context, Result};
use caps::CapSet;
use falaj_control::confinement::Confinement;
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// Bounds of two ranges of system calls that this file does not know. The range 335 to 423 is
/// between the older system calls and those with the same number on all processors. The range from
/// 463 on begins after `mseal` of Linux 6.10, and contains all calls of x32.
const UNKNOWN: [u32; 3] = [335, 424, 463];

/// System calls that a link never makes: starting programs, changing namespaces, inspecting other
/// processes, changing the kernel.
const NEVER: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
];

/// Flags that create a namespace for a new process or thread. A link starts threads only in its own
/// namespaces.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Drops all capabilities, access to files that the service does not use, and system calls that a
/// link never makes. Threads started later inherit the restrictions.
pub(super) fn give_up(confinement: &Confinement) -> Result<()> {
    // If the process may not change the bounding set, the set stays the same. The set only limits
    // programs that are started, and the service starts none.
    let _ = caps::clear(None, CapSet::Bounding);
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set)
            .with_context(|| format!("cannot give up the {set:?} capabilities"))?;
    }
    nix::sys::prctl::set_no_new_privs().context("cannot set no_new_privs")?;
    confinement.begin()?;
    filter()
}

/// Installs a filter of system calls for this thread and the threads that it starts.
fn filter() -> Result<()> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        note!("there is no filter of system calls for this processor architecture");
        return Ok(());
    };
    let mut never: BTreeMap<_, _> = NEVER.iter().map(|&call| (call, Vec::new())).collect();
    let elsewhere = |&flag: &libc::c_int| {
        let flag = flag as u64;
        let is_set =
            SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
        SeccompRule::new(vec![is_set])
    };
    let elsewhere: Result<_, _> = NAMESPACES.iter().map(elsewhere).collect();
    never.insert(libc::SYS_clone, elsewhere.context("the filter of system calls")?);
    // The flags of `clone3` are in memory, where a filter cannot read. If `clone3` is not
    // available, the C library starts threads by the older call.
    let unseen = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let refused = "the kernel rejects the filter of system calls";
    seccompiler::apply_filter(&unknown()).context(refused)?;
    for (rules, errno) in [(never, libc::EPERM), (unseen, libc::ENOSYS)] {
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            SeccompAction::Errno(errno as u32),
            arch,
        );
        let program: BpfProgram = filter
            .context("the filter of system calls")?
            .try_into()
            .context("the filter of system calls")?;
        seccompiler::apply_filter(&program).context(refused)?;
    }
    Ok(())
}

/// Returns the filter program that makes newer system calls fail as unknown.
fn unknown() -> BpfProgram {
    const ALLOW: u8 = 4;
    const REFUSE: u8 = 5;
    let [last, first, beyond] = UNKNOWN;
    let step = |code: u32, k: u32, at: u8, [then, or]: [u8; 2]| {
        // Jump offsets are relative to the next instruction.
        let [jt, jf] = [then, or].map(|to| to.saturating_sub(at + 1));
        sock_filter { code: code as u16, jt, jf, k }
    };
    let compare = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    vec![
        // The number of the system call is the first word of a filter's data.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, [0, 0]),
        step(compare, last, 1, [2, ALLOW]),
        step(compare, first, 2, [3, REFUSE]),
        step(compare, beyond, 3, [REFUSE, ALLOW]),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 4, [0, 0]),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 5, [0, 0]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};
    use std::process::Command;
    use std::thread;

    #[test]
    fn a_filtered_thread_begins_threads_and_nothing_else() {
        // A filter applies to its thread and to threads started by it.
        let filtered = thread::spawn(|| {
            nix::sys::prctl::set_no_new_privs().unwrap();
            filter().unwrap();
            let program = Command::new("/bin/true").status().map_err(|error| error.raw_os_error());
            assert_eq!(program.err(), Some(Some(libc::EPERM)), "no programs");
            // Without the filter the error would be EINVAL, because there are other threads.
            assert_eq!(unshare(CloneFlags::CLONE_NEWUSER), Err(Errno::EPERM));
            let new = thread::spawn(|| std::fs::read_to_string("/proc/thread-self/status"));
            let status = new.join().unwrap().unwrap();
            assert!(status.contains("Seccomp:\t2"), "{status}");
        });
        filtered.join().unwrap();
        assert!(Command::new("/bin/true").status().is_ok(), "others are as they were");
    }
}
