//! A way out to the Internet without privilege: a program takes packets from the far side and sends
//! their contents through sockets of its own. These packets come from the near side, whose address
//! the program learns from them.

use super::{Caretaker, FarSide, NAMES, NatMethod, OWN, OWN_NET};
use crate::process;
use crate::sandbox::NAT_INTERFACE;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program, and its arguments.
pub(super) struct UserMode {
    program: OsString,
    arguments: Vec<OsString>,
    /// The far side's network namespace, for a program that may not open it by itself.
    namespace: Option<OwnedFd>,
    child: Option<Child>,
    /// The program's output, which is reported if the program fails.
    said: Option<File>,
}

impl UserMode {
    pub(super) fn pasta(program: &Path, far: &FarSide) -> Result<UserMode, String> {
        // No port is forwarded in either direction, and packets to the gateway's address do not
        // reach the host's loopback interface.
        let fixed = "--foreground --quiet --config-net --no-map-gw --tcp-ports none --udp-ports \
                     none --tcp-ns none --udp-ns none --ns-ifname";
        let mut arguments: Vec<OsString> = fixed.split_whitespace().map(Into::into).collect();
        arguments.push(NAT_INTERFACE.into());
        let [own, router] = OWN.map(|address| address.to_string());
        for (option, value) in
            [("--address", own.as_str()), ("--netmask", "255.255.255.0"), ("--gateway", &router)]
        {
            arguments.extend([option.into(), value.into()]);
        }
        // Only if `/etc/resolv.conf` is replaced: otherwise a process that queries the host's
        // resolver at the resolver's own address would get answers from another address.
        if super::resolver(&NatMethod::Pasta(program.into())).is_some() {
            arguments.extend(["--dns-forward".into(), NAMES.to_string().into()]);
        }
        if nix::unistd::Uid::effective().is_root() {
            arguments.extend(["--runas".into(), "0".into()]);
        }
        let mut namespace = None;
        if far.own_users {
            arguments.push(far.pid.to_string().into());
        } else {
            // pasta gives up the privilege to open other processes' namespaces, but keeps inherited
            // descriptors.
            let path = far.namespace("net");
            let file =
                File::open(&path).map_err(|e| format!("cannot open {}: {e}", path.display()))?;
            let inherited = inheritable(file.into())?;
            arguments.extend(["--netns-only".into(), "--netns".into()]);
            arguments.push(format!("/proc/self/fd/{}", inherited.as_raw_fd()).into());
            namespace = Some(inherited);
        }
        Ok(UserMode { program: program.into(), arguments, namespace, child: None, said: None })
    }

    pub(super) fn slirp4netns(program: &Path, far: &FarSide) -> UserMode {
        let mut arguments: Vec<OsString> =
            vec!["--configure".into(), "--mtu=65520".into(), "--disable-host-loopback".into()];
        arguments.push(format!("--cidr={OWN_NET}").into());
        if far.own_users {
            arguments.push(format!("--userns-path={}", far.namespace("user").display()).into());
        }
        arguments.extend([far.pid.to_string().into(), NAT_INTERFACE.into()]);
        UserMode { program: program.into(), arguments, namespace: None, child: None, said: None }
    }
}

/// Makes programs inherit a descriptor.
fn inheritable(fd: OwnedFd) -> Result<OwnedFd, String> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::empty()))
        .map_err(|e| format!("cannot pass a descriptor on: {e}"))?;
    Ok(fd)
}

impl Caretaker for UserMode {
    fn open(&mut self) -> Result<(), String> {
        let said = memfd_create("said", MFdFlags::MFD_CLOEXEC)
            .map(File::from)
            .map_err(|e| e.to_string())?;
        let stderr = said.try_clone().map_err(|e| e.to_string())?;
        self.said = Some(said);
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        process::end_with_this_thread(&mut command);
        let child = command.spawn().map_err(|e| format!("cannot be started: {e}"))?;
        self.namespace = None;
        self.child = Some(child);
        Ok(())
    }

    fn over(&mut self) -> Option<String> {
        let status = match self.child.as_mut()?.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let mut said = String::new();
        if let Some(file) = &mut self.said {
            let _ = file.rewind().and_then(|()| file.read_to_string(&mut said));
        }
        // If there is no system log, the program reports that too; these lines are skipped.
        let mut said = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.ends_with("to syslog"));
        Some(said.next_back().map_or(status, str::to_owned))
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.namespace.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn close(&mut self) {
        if let Some(mut child) = self.child.take() {
            // This fails if the program has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
