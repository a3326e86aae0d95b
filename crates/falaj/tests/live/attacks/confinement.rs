//! Attacks by code that runs within the service, such as that of a library or of an intruder.

use crate::common::{directory, signal};
use crate::libraries::{drr, library};
use crate::service::{Service, up};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub(super) const ATTACKS: &[super::Attack] = &[
    ("confined_a_service_opens_its_own_files_alone", files),
    ("confined_a_service_reads_again_what_took_its_files_place", read_again),
    ("confined_a_service_has_what_access_names", access),
];

/// Returns a scenario with one adapter, and a discipline from a library.
fn by_library(library: &str) -> String {
    format!(
        "[link.uplink]\nrate = \"20mbit\"\nuplink = \"namespace\"\n\
         scheduler = {{ kind = \"plugin\", library = \"{library}\" }}\n\
         [link.uplink.flow.calm]\nadapter = \"namespace\"\n"
    )
}

/// Returns a directory for this test alone, separate from those of the scenarios and sockets.
fn elsewhere(name: &str) -> PathBuf {
    let elsewhere = directory().with_file_name(format!("attacks-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&elsewhere);
    fs::create_dir(&elsewhere).unwrap();
    elsewhere
}

/// Sends some packets through the library's discipline, and returns the library's messages.
fn trespassed(service: &Service, log: &Path) -> String {
    service.send("calm", 1_000, 100, 20).wait().unwrap();
    service.until("packets pass", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(20)
    });
    fs::read_to_string(log).unwrap()
}

fn files() {
    let elsewhere = elsewhere("secret");
    let secret = elsewhere.join("secret");
    fs::write(&secret, "a secret").unwrap();
    let source = Path::new("crates/falaj-plugin/tests/c/trespasser.c");
    library("libtrespasser.so", source, &[&format!("-DSECRET=\"{}\"", secret.display())]);
    let (log, text) = (directory().join("trespasser.log"), by_library("libtrespasser.so"));
    let service = Service::start_with("confined.toml", &text, &[], |command| {
        command.stderr(File::create(&log).unwrap());
    });
    let said = trespassed(&service, &log);
    let ended = |what: &str| {
        let line = said.lines().find_map(|line| {
            line.strip_prefix("trespasser: ")?.strip_prefix(what)?.strip_prefix(": ")
        });
        line.unwrap_or_else(|| panic!("{what}: {said}")).to_owned()
    };
    for what in [
        "reads a secret",
        "writes a secret",
        "reads passwords",
        "writes the kernel's settings",
        "writes what root runs",
        "removes a secret",
    ] {
        assert_eq!(ended(what), "EACCES", "{what}: {said}");
    }
    for call in [
        "setxattrat",
        "open_tree_attr",
        "file_getattr",
        "file_setattr",
        "of the future",
        "beyond all numbers",
    ] {
        assert_eq!(ended(call), "ENOSYS", "{call}: {said}");
    }
    // Several mechanisms refuse this read; which one does depends on the kernel.
    assert_ne!(ended("reads what others have open"), "done", "{said}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "a secret");
    service.end();
    fs::remove_dir_all(elsewhere).unwrap();
}

/// Replaces a file as editors and key-renewal tools do: writes another file, and renames it.
fn replace(file: &Path, text: &str) {
    let beside = file.with_extension("beside");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, file).unwrap();
}

fn read_again() {
    let (token, state) = (directory().join("confined-token"), directory().join("confined.state"));
    fs::write(&token, "the first of the tokens").unwrap();
    let _ = fs::remove_file(&state);
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = address.to_string();
    let words = ["--tcp", &address, "--token-file", token.to_str().unwrap()];
    let words = [&words[..], &["--state", state.to_str().unwrap()]].concat();
    let service = Service::start_with("confined-again.toml", crate::service::THREE, &words, |_| {});
    let rate = |service: &Service| up(&service.adapter("calm"))["guarantee"]["rate"].as_u64();
    assert_eq!(rate(&service), Some(10_000_000));
    // Changes made through the API are kept.
    assert_eq!(service.patch("/v1/adapters/wild", &json!({ "queue": "60p" })).status, 200);
    assert!(fs::read_to_string(&state).unwrap().contains("60p"));
    replace(&service.file, &crate::service::THREE.replace("20mbit", "40mbit"));
    replace(&token, "the second of the tokens");
    signal("HUP", service.child.id());
    service.until("the file that took its place", |service| rate(service) == Some(20_000_000));
    let asks = |token: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "GET /v1 HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all.split(' ').nth(1).map(str::to_owned)
    };
    assert_eq!(asks("the second of the tokens").as_deref(), Some("200"));
    assert_eq!(asks("the first of the tokens").as_deref(), Some("401"));
    service.end();
}

fn access() {
    let elsewhere = elsewhere("access");
    let there = elsewhere.join("libdrr.so");
    drr("libconfined-drr.so");
    fs::copy(directory().join("libconfined-drr.so"), &there).unwrap();
    let text = by_library("libconfined-drr.so");
    let other = by_library(there.to_str().unwrap());
    let put = |service: &Service| {
        let answer = service.ask("PUT", "/v1/scenario", "application/toml", &other);
        (answer.status, answer.body)
    };
    let service = Service::start("confined-without.toml", &text);
    let (status, body) = put(&service);
    assert!(status >= 400 && body.contains("Permission denied"), "{status} {body}");
    service.end();
    let words = ["--access", elsewhere.to_str().unwrap()];
    let service = Service::start_with("confined-access.toml", &text, &words, |_| {});
    let (status, body) = put(&service);
    assert_eq!(status, 200, "{body}");
    service.end();
    fs::remove_dir_all(elsewhere).unwrap();
}
