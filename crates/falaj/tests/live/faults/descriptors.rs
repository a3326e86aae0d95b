//! The process has no free file descriptors.

use super::scene::{Footprint, LoggedService, Sender, until};
use crate::service::THREE;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Packets pass. The scenario file cannot be read again, which is reported, and new adapters are
/// refused with a reason. Once descriptors are free again, everything works as before.
pub(crate) fn used_up() {
    let told = LoggedService::start("descriptors", THREE, &[]);
    let _calm = Sender::calm(&told, "calm");
    told.passes("calm");
    let held = Footprint::of(told.id());
    // Descriptor numbers may have gaps. The limit is two above the lowest free number, so at most
    // two more can be opened.
    let taken =
        |number: u64| std::fs::symlink_metadata(format!("/proc/{}/fd/{number}", told.id())).is_ok();
    let below = (0..).find(|number| !taken(*number)).expect("some are free") + 2;
    let limit = |files: u64| {
        let status = Command::new("prlimit")
            .args(["--pid", &told.id().to_string(), &format!("--nofile={files}:")])
            .status();
        assert!(status.expect("there is prlimit").success());
    };
    // One connection to the API already has a descriptor before none is left.
    let mut asking = UnixStream::connect(&told.service.api).expect("it listens");
    let ask = |asking: &mut UnixStream, request: &str| {
        asking.write_all(request.as_bytes()).expect("it reads");
        let mut answer = [0; 65_536];
        let length = asking.read(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    let get = "GET /v1 HTTP/1.1\r\nHost: falaj\r\n\r\n";
    assert!(ask(&mut asking, get).starts_with("HTTP/1.1 200"));
    limit(below);
    let control = told.service.api.with_extension("sock");
    let mut waiting: Vec<UnixStream> = Vec::new();
    until("none is left", || {
        waiting.extend(UnixStream::connect(if waiting.len().is_multiple_of(2) {
            &told.service.api
        } else {
            &control
        }));
        (0..below).all(taken)
    });
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    told.says("Too many open files (os error 24); nothing is changed");
    let body = "{\"adapter\": \"tap:1\"}";
    let put = format!(
        "PUT /v1/adapters/late HTTP/1.1\r\nHost: falaj\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = ask(&mut asking, &put);
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    let before = answered(&mut asking);
    until("packets pass", || answered(&mut asking) > before + 5);
    limit(1_024);
    drop((waiting, asking));
    told.read_again(&THREE.replace("20mbit", "40mbit"));
    until("the changed scenario file takes effect", || told.rate("calm") == 20_000_000);
    told.passes("calm");
    told.adds_up();
    held.is_that_of(told.id());
    told.end();
}

/// Returns the number of packets of `calm` sent, over an existing connection.
fn answered(asking: &mut UnixStream) -> u64 {
    asking.write_all(b"GET /v1/adapters/calm HTTP/1.1\r\nHost: falaj\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    while !answer.ends_with("\n}")
        && serde_json::from_str::<serde_json::Value>(body(&answer)).is_err()
    {
        let mut piece = [0; 65_536];
        let length = asking.read(&mut piece).expect("it answers");
        answer.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    let adapter: serde_json::Value = serde_json::from_str(body(&answer)).expect("JSON");
    super::scene::number(&adapter["up"][0]["total"]["sent"])
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
