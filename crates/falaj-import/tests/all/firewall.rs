//! Chains of iptables that mark packets for filters, and the rules made from them.

use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::network::Network;
use falaj_import::{Host, tc};
use falaj_sched::units::time::Time;
use proptest::prelude::*;
use std::fmt::Write;
use std::net::SocketAddr;

/// Chains in the order in which each leads to those behind it.
const CHAINS: [&str; 4] = ["POSTROUTING", "FIRST", "SECOND", "THIRD"];
const PORTS: [u16; 3] = [53, 80, 443];

#[derive(Debug, Clone, Copy)]
enum Action {
    Mark(u32, u32),
    /// Leads to a chain further on, which is no chain behind the last one; with `-g` if true.
    Chain(usize, bool),
    Return,
    Accept,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    chain: usize,
    port: Option<u16>,
    /// The bits of the mark that are compared, and their value.
    mark: Option<(u32, u32)>,
    action: Action,
}

fn rule() -> impl Strategy<Value = Rule> {
    let action = prop_oneof![
        4 => (0u32..4, 1u32..4).prop_map(|(value, mask)| Action::Mark(value & mask, mask)),
        4 => (1usize..4, any::<bool>()).prop_map(|(by, leaves)| Action::Chain(by, leaves)),
        1 => Just(Action::Return),
        1 => Just(Action::Accept),
    ];
    let port = proptest::option::of(proptest::sample::select(&PORTS[..]));
    let mark = proptest::option::of((0u32..4, 1u32..4).prop_map(|(value, mask)| (value, mask)));
    (0..CHAINS.len(), port, mark, action).prop_map(|(chain, port, mark, action)| Rule {
        chain,
        port,
        mark,
        action,
    })
}

/// The command of a rule; `None` if it would lead to no chain.
fn command(rule: &Rule) -> Option<String> {
    let mut line = format!("iptables -t mangle -A {}", CHAINS[rule.chain]);
    let port = rule.port.map(|port| format!(" -p udp --dport {port}"));
    let mark =
        rule.mark.map(|(value, mask)| format!(" -m mark --mark {:#x}/{mask:#x}", value & mask));
    line.extend(port.into_iter().chain(mark));
    line += &match rule.action {
        Action::Mark(value, mask) => format!(" -j MARK --set-xmark {value:#x}/{mask:#x}"),
        Action::Chain(by, leaves) => {
            format!(" -{} {}", if leaves { 'g' } else { 'j' }, CHAINS.get(rule.chain + by)?)
        }
        Action::Return => " -j RETURN".to_owned(),
        Action::Accept => " -j ACCEPT".to_owned(),
    };
    Some(line)
}

/// Lets a packet with this port pass a chain, as the kernel does. Returns true if it was accepted.
fn pass(rules: &[Rule], chain: usize, port: u16, mark: &mut u32) -> bool {
    for rule in rules.iter().filter(|rule| rule.chain == chain) {
        let is_marked = rule.mark.is_none_or(|(value, mask)| *mark & mask == value & mask);
        if rule.port.is_some_and(|own| own != port) || !is_marked {
            continue;
        }
        match rule.action {
            Action::Mark(value, mask) => *mark = *mark & !mask | value,
            Action::Chain(by, true) => return pass(rules, chain + by, port, mark),
            Action::Chain(by, false) => {
                if pass(rules, chain + by, port, mark) {
                    return true;
                }
            }
            Action::Return => return false,
            Action::Accept => return true,
        }
    }
    false
}

proptest! {
    #[test]
    fn packets_get_the_marks_of_the_kernel(rules in proptest::collection::vec(rule(), 1..14)) {
        let rules: Vec<Rule> = rules.into_iter().filter(|rule| command(rule).is_some()).collect();
        let mut script = String::from("tc qdisc add dev e root handle 1: htb default 10\n");
        for class in 0..4 {
            let lines = [
                format!("tc class add dev e parent 1: classid 1:1{class} htb rate 1mbit\n"),
                format!("tc filter add dev e parent 1: handle {class}/3 fw flowid 1:1{class}\n"),
            ];
            script.extend(lines);
        }
        for line in rules.iter().filter_map(command) {
            writeln!(script, "{line}").expect("a text takes all");
        }
        let imported = tc(&script, "a", &Host::default());
        let imported = imported.unwrap_or_else(|e| panic!("{e}\n{script}"));
        let (scenario, _) = falaj_scenario::parse(&imported.scenario, "b")
            .unwrap_or_else(|e| panic!("{e}\n{}", imported.scenario));
        let mut network = Network::new(&scenario.network()).expect("a network");
        for port in PORTS {
            let mut mark = 0;
            pass(&rules, 0, port, &mut mark);
            let near = SocketAddr::from(([10, 9, 9, 9], 4000));
            let far = SocketAddr::from(([10, 0, 0, 1], port));
            let key = Key::of_ordinary(Protocol::UDP, near, far, 100);
            let entry = network.route(&key, 0, 100, Time::ZERO).expect("a class takes it");
            let flow = &scenario.links[0].up.flows[entry.flow.0 as usize].name;
            prop_assert!(
                *flow == format!("1-1{mark}"),
                "{flow}, and not mark {mark}, port {port}\n{script}\n{}",
                imported.scenario
            );
        }
    }
}
