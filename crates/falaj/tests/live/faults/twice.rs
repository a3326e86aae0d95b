//! Two processes for one resource: the second one is refused with a reason, and the first one is
//! not affected.

use super::scene::{Footprint, Link, LoggedService, Sender, scenario, until};
use crate::common::{Ran, program};
use crate::host::Host;
use crate::netlink;
use crate::service::THREE;
use std::fs::File;
use std::process::Command;

/// Commands request an interface in use, also while the first process's link is being changed: they
/// are refused.
pub(crate) fn interface() {
    let hosts =
        [("a1", "a0", "10.9.0.1"), ("b1", "b0", "10.9.0.2")].map(|(here, there, address)| {
            let mut host = Host::start();
            netlink::veth(here, there, host.pid());
            netlink::set_up(here, true);
            host.does(&format!("up {there} {address}"));
            host
        });
    let text = "[link.wire]\nrate = \"50mbit\"\nuplink = \"b1\"\nscheduler = { kind = \"wf2q+\" }\n\
                [link.wire.flow.only]\nadapter = \"a1\"\nqueue = \"50p\"\n";
    let told = LoggedService::start("twice", text, &[]);
    let sender = Sender::from(hosts[0].pid(), "10.9.0.2:9");
    told.passes("only");
    let held = Footprint::of(told.id());
    told.read_again(&text.replace("50mbit", "60mbit"));
    let other = scenario("twice-other.toml", text);
    let here = std::process::id().to_string();
    let elsewhere = [format!("a1@{here}"), format!("b1@{here}")];
    for words in [
        &["bridge", "a1", "b1"][..],
        &["bridge", "a1", "b1", "--via", "xdp"],
        &["bridge", &elsewhere[0], &elsewhere[1]],
        &["serve", &other],
    ] {
        let ran: Ran = program(words).output().expect("it starts").into();
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{words:?}: {ran:?}");
        let why = "cannot reserve the interface for this link: Device or resource busy (EBUSY); another falaj process forwards at this interface";
        assert!(ran.err.contains(why), "{words:?}: {ran:?}");
    }
    until("the changed scenario file takes effect", || told.rate("only") == 60_000_000);
    told.passes("only");
    told.adds_up();
    held.is_that_of(told.id());
    drop(sender);
    // A killed process has no claim to the interface.
    let mut told = told;
    told.service.kill();
    let said = File::create(std::env::temp_dir().join("bridge.said")).expect("ours");
    let mut bridge = program(&["bridge", "a1", "b1"]).stderr(said).spawn().expect("it starts");
    until("it forwards", || {
        std::fs::read_to_string(std::env::temp_dir().join("bridge.said"))
            .is_ok_and(|said| said.contains("forwarding between"))
    });
    crate::common::signal("INT", bridge.id());
    assert_eq!(bridge.wait().expect("it ends").code(), Some(0));
    drop(told);
    // Deleting one end of a pair removes the other at once; otherwise the kernel would remove the
    // pair later, with the host's namespace.
    ["a1", "b1"].iter().for_each(|here| netlink::delete(here));
    drop(hosts);
}

/// A second process requests a control socket in use, then a namespace in which falaj has already
/// created its interface. It is refused both times.
pub(crate) fn socket_and_namespace() {
    let link = Link::start("first", &["--rate", "10mbit", "--", "cat"]);
    let at = link.control.to_str().expect("UTF-8");
    link.set("link.rate=11mbit");
    let ran: Ran = program(&["run", "--internet", "none", "--control", at, "--", "true"])
        .output()
        .expect("it starts")
        .into();
    assert!(ran.status == Some(2) && ran.err.contains("in use"), "{ran:?}");
    link.adds_up();
    assert_eq!(link.end().status, Some(0));

    let mut there = Command::new("unshare").args(["-n", "sleep", "60"]).spawn().expect("unshare");
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    until("a namespace of its own", || {
        of(&there.id().to_string()).is_some_and(|own| Some(own) != of("self"))
    });
    let text = THREE.replacen(
        "\"namespace\"\nweight = 2",
        &format!("\"tap:{}\"\nweight = 2", there.id()),
        1,
    );
    let told = LoggedService::start("space", &text, &[]);
    let held = Footprint::of(told.id());
    let other = scenario("space-other.toml", &text);
    let ran: Ran = program(&["serve", &other]).output().expect("it starts").into();
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.err.contains("busy") || ran.err.contains("exists"), "{ran:?}");
    told.adds_up();
    held.is_that_of(told.id());
    told.end();
    there.kill().expect("it runs");
    there.wait().expect("it has ended");
}
