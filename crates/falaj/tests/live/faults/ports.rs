//! Removed interfaces.

use super::hosts::Hosts;
use super::scene::{Footprint, LoggedService, Sender, until};
use crate::netlink;
use crate::service::{THREE, within};

/// The interface of an adapter, then that of the uplink, is removed: the loss is reported, the new
/// interface is used, and the other adapters are not affected.
pub(crate) fn comes_back() {
    let mut hosts = Hosts::new();
    let text = "[link.wire]\nrate = \"50mbit\"\nuplink = \"u1\"\nscheduler = { kind = \"wf2q+\" }\n\
                [link.wire.flow.a]\nadapter = \"a1\"\nqueue = \"50p\"\n[link.wire.flow.b]\nadapter = \"b1\"\nqueue = \"50p\"\n";
    let told = LoggedService::start("ports", text, &[]);
    let senders = [hosts.send(0), hosts.send(1)];
    told.passes("a");
    told.passes("b");
    let held = Footprint::of(told.id());
    netlink::delete("a1");
    told.says("adapter a is gone: waiting for it");
    told.read_again(&text.replace("50mbit", "60mbit"));
    until("the changed scenario file takes effect", || told.rate("a") == 30_000_000);
    told.passes("b");
    hosts.join(0);
    told.says("adapter a is up");
    told.passes("a");

    netlink::rename("a1", "other");
    told.says("adapter a: its interface was renamed to other, and still belongs to adapter a");
    until("its name is known", || told.service.adapter("a")["interface"] == "other");
    told.passes("a");
    netlink::rename("other", "a1");
    until("its name is known", || told.service.adapter("a")["interface"].is_null());
    assert_eq!(told.said().matches("adapter a is gone").count(), 1, "{}", told.said());

    netlink::set_up("u1", false);
    told.says("the uplink is down: waiting for it");
    netlink::set_up("u1", true);
    told.says("the uplink is up");
    netlink::delete("u1");
    told.says("the uplink is gone: waiting for it");
    told.read_again(&text.replace("50mbit", "70mbit"));
    until("the changed scenario file takes effect", || told.rate("a") == 35_000_000);
    hosts.join(2);
    until("it is up again", || told.said().matches("the uplink is up").count() == 2);
    told.passes("a");
    told.passes("b");
    drop(senders);
    told.adds_up();
    held.is_that_of(told.id());
    told.end();
}

/// An interface that the service created is removed: it cannot come back, which is reported once.
/// The other adapters are not affected.
pub(crate) fn for_good() {
    let told = LoggedService::start("for-good", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let process = told.service.processes["wild"].as_i64().expect("it is in a namespace");
    let mut command = within(process);
    assert!(command.args(["--fault", "remove", "falaj0"]).status().expect("nsenter").success());
    told.says("adapter wild: its interface is gone for good");
    until("it is known", || told.service.adapter("wild")["gone"] == true);
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    told.adds_up();
    assert_eq!(told.said().matches("gone for good").count(), 1, "{}", told.said());
    told.end();
}
