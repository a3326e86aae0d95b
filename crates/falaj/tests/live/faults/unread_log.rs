//! The log is not read: standard error is a full pipe.

use super::hosts::Hosts;
use super::scene::{Sender, number, until};
use crate::netlink;
use crate::service::Service;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::pipe;
use serde_json::json;
use std::fs::File;
use std::io::Read;

/// Changes, and an interface that goes down and comes back, fill the pipe with messages. Packets of
/// other adapters pass, changes are answered, and the service ends on request.
pub(crate) fn stops_nothing() {
    let hosts = Hosts::new();
    let text = "[link.wire]\nrate = \"50mbit\"\nuplink = \"u1\"\nscheduler = { kind = \"wf2q+\" }\n\
                [link.wire.flow.a]\nadapter = \"a1\"\nqueue = \"50p\"\n[link.wire.flow.b]\nadapter = \"b1\"\nqueue = \"50p\"\n";
    let (reader, log) = pipe().expect("a pipe");
    let room = fcntl(&log, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small one");
    let service = Service::start_with("unread.toml", text, &[], |command| {
        command.stderr(log);
    });
    let _sender: Sender = hosts.send(1);
    let passed = || number(&service.adapter("b")["up"][0]["total"]["sent"]);
    // The message about a change is longer than forty bytes.
    for weight in 1..=room / 40 {
        netlink::set_up("a1", weight % 2 == 0);
        let answer = service.patch("/v1/adapters/b", &json!({ "weight": weight }));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let before = passed();
    until("packets pass", || passed() > before + 5);
    service.end();
    let mut said = String::new();
    File::from(reader).read_to_string(&mut said).expect("text");
    // A message that did not fit completely is omitted.
    assert!(said.len() > 3_500 && said.contains("changed by the API"), "{said}");
}
