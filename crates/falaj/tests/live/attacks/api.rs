//! Attackers who reach the API without a token: over TCP, from a page in a browser, with as many
//! connections as possible.

use crate::common::directory;
use crate::service::{Service, THREE, up};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrLike, UnixAddr, connect, socket,
};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

pub(super) const ATTACKS: &[super::Attack] = &[
    ("without_the_token_no_route_answers", routes),
    ("a_page_from_elsewhere_reads_and_does_nothing", pages),
    ("idle_connections_take_neither_memory_nor_descriptors", idle),
];

const SECRET: &str = "a token that is long enough";

/// Starts a service with a TCP address, where [`SECRET`] is the token.
fn over_tcp(name: &str) -> (Service, SocketAddr) {
    let secret = directory().join(format!("{name}.token"));
    std::fs::write(&secret, SECRET).unwrap();
    // A free port, found by binding it for a moment.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let words = ["--tcp", &address.to_string(), "--token-file", secret.to_str().unwrap()];
    (Service::start_with(&format!("{name}.toml"), THREE, &words, |_| {}), address)
}

/// Returns the answer to a request with these header lines.
fn ask(address: SocketAddr, request: &str, lines: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: falaj\r\nConnection: close\r\n{lines}\r\n")
        .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    all
}

fn routes() {
    let (service, address) = over_tcp("attack-routes");
    let description = service.get("/v1/openapi.json").json();
    let mut asked = 0;
    for (path, methods) in description["paths"].as_object().expect("paths") {
        let path = path.replace("{name}", "wild");
        for method in methods.as_object().expect("methods").keys() {
            let request = format!("{} {path}", method.to_uppercase());
            for lines in [
                String::new(),
                "Authorization: Bearer \r\n".to_owned(),
                "Authorization: Bearer a token\r\n".to_owned(),
                format!("Authorization: Basic {SECRET}\r\n"),
                format!("Cookie: token={SECRET}\r\n"),
                format!("X-Token: {SECRET}\r\n"),
            ] {
                let answer = ask(address, &request, &lines);
                assert!(answer.starts_with("HTTP/1.1 401"), "{request}, {lines:?}: {answer}");
                asked += 1;
            }
            let in_path = format!("{request}?token={}", SECRET.replace(' ', "%20"));
            let answer = ask(address, &in_path, "");
            assert!(answer.starts_with("HTTP/1.1 401"), "{in_path}: {answer}");
        }
    }
    assert!(asked > 60, "{asked}");
    assert!(service.get("/v1/adapters/wild").status == 200, "it is as it was");
    service.end();
}

/// Pages in a browser send requests and preflight requests without the token; there is no cookie.
/// The pages come from another origin, from a `null` origin, and from the service's own origin. No
/// answer allows the browser to read or to send.
fn pages() {
    let (service, address) = over_tcp("attack-pages");
    for origin in ["http://evil.example", "null", &format!("http://{address}")] {
        for request in ["GET /v1/adapters", "PATCH /v1/adapters/wild", "OPTIONS /v1/adapters/wild"]
        {
            let lines = format!(
                "Origin: {origin}\r\nAccess-Control-Request-Method: PATCH\r\n\
                 Access-Control-Request-Headers: authorization\r\n"
            );
            let answer = ask(address, request, &lines).to_lowercase();
            assert!(!answer.contains("access-control-allow"), "{request} of {origin}: {answer}");
            assert!(answer.starts_with("http/1.1 4"), "{request} of {origin}: {answer}");
        }
    }
    let page = ask(address, "GET /", "").to_lowercase();
    for stands in ["default-src 'none'", "frame-ancestors 'none'", "nosniff"] {
        assert!(page.contains(stands), "{stands}: {page}");
    }
    // A name with markup stays a name: no answer has a content type that a browser executes.
    let name = "/v1/adapters/%3Cimg%20src=x%20onerror=alert(1)%3E";
    let authorized = format!("Authorization: Bearer {SECRET}\r\n");
    let answer = ask(address, &format!("GET {name}"), &authorized);
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(!answer.to_lowercase().contains("content-type: text/html"), "{answer}");
    service.end();
}

/// Opens almost as many connections as this process may have, but at most 10,000: a third of them
/// to each of the three sockets.
fn idle() {
    let (service, address) = over_tcp("attack-idle");
    let control = service.api.with_extension("sock");
    let process = service.child.id();
    let of = |what: &str| std::fs::read_dir(format!("/proc/{process}/{what}")).unwrap().count();
    let memory = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().split(' ').next().unwrap().parse().unwrap()
    };
    let (files, threads, before) = (of("fd"), of("task"), memory());
    let (own, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(10_000), most).unwrap();
    let IpAddr::V4(ip) = address.ip() else { unreachable!("it is 127.0.0.1") };
    let tcp = SockaddrIn::from(SocketAddrV4::new(ip, address.port()));
    let [api, control] = [&service.api, &control].map(|path| UnixAddr::new(path).unwrap());
    let mut connections = Vec::new();
    for _ in 0..(most.min(10_000) - 100) / 3 {
        connections.extend(connection(AddressFamily::Inet, &tcp));
        connections.extend(connection(AddressFamily::Unix, &api));
        connections.extend(connection(AddressFamily::Unix, &control));
    }
    println!("{} connections", connections.len());
    assert!(connections.len() > 300, "{}", connections.len());
    service.send("calm", 1_000, 100, 200).wait().unwrap();
    assert!(of("fd") <= files + 3 * 140, "{} descriptors, before {files}", of("fd"));
    assert!(of("task") <= threads + 140, "{} threads, before {threads}", of("task"));
    assert!(memory() <= before + 8 * 1_024, "{} kB, before {before}", memory());
    drop(connections);
    setrlimit(Resource::RLIMIT_NOFILE, own, most).unwrap();
    service.until("all packets have left", |service| {
        up(&service.adapter("calm"))["total"]["sent"].as_u64() >= Some(200)
    });
    assert_eq!(up(&service.adapter("calm"))["total"]["dropped"]["queue_full"], 0);
    service.end();
}

/// Begins a connection, whether or not it is ever accepted; returns `None` if the queue of pending
/// connections is full.
fn connection(family: AddressFamily, to: &impl SockaddrLike) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None).ok()?;
    let begun = connect(socket.as_raw_fd(), to);
    matches!(begun, Ok(()) | Err(Errno::EINPROGRESS)).then_some(socket)
}
