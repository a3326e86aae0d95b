//! Explanations of keys, disciplines and words.

use expect_test::expect;
use falaj_scenario::keys::TABLES;
use falaj_scenario::reference::{explain, list};
use falaj_sched::registry::ENTRIES;

#[test]
fn a_key_of_the_file() {
    expect![[r#"
        link.delay: propagation delay, from one end to the other

          in         [link.NAME]; [link.NAME.up], [link.NAME.down]
          value      a time: ns, us, ms, s, min, h
          default    0s
          example    [link.uplink]
                     delay = "40ms"
    "#]]
    .assert_eq(&explain("link.delay").unwrap());
}

#[test]
fn a_key_of_a_discipline() {
    expect![[r#"
        scheduler.tail: use of the end of a phase that is too short for the next packet: `wait` leaves the link idle, `skip` goes on to the next flow, `carry` also adds it to the flow's next phase (packet-wise only)

          in         scheduler = { … }
          value      one of `wait`, `skip`, `carry`
          default    wait
          used by    virtual-links
          source     Fortuna and Chydzinski 2013
          example    scheduler = { kind = "virtual-links", tail = "skip" }
    "#]].assert_eq(&explain("scheduler.tail").unwrap());
}

#[test]
fn a_discipline() {
    expect![[r#"
        virtual-links: each flow may use the link for a phase of each cycle: partial isolation from the other flows, bounded delay

          also       virtual link, partial isolation
          source     Fortuna and Chydzinski 2013
          scheduler  serve    `packet-wise`: flows with time left in their phase send one packet each in turn; `phase-wise`: each flow sends for its whole phase, then the next flow; default packet-wise
                     tail     use of the end of a phase that is too short for the next packet: `wait` leaves the link idle, `skip` goes on to the next flow, `carry` also adds it to the flow's next phase (packet-wise only); default wait
                     start    packet-wise only: flow at which the first round of a cycle starts: `continue` after the flow served last, `second` at the second flow, `rotate` one flow further in each cycle; default `continue` with the preset `clean`, `second` with `paper`
                     preset   packet-wise only: the rules that the paper leaves open: `clean` for the simplest ones, `paper` for those that reproduce its figures; default clean
          flow       kind     end of the flow's phase: `A` after its whole length even if the queue is empty, `B` as soon as the queue is empty; required
                     lend     packet-wise only: `yes` lets flows that have used up their phases send while this flow has time left but no packet; default no
                     phase    maximum time that the flow may use the link in each cycle, at least that of one largest packet, at most an hour; its share is its phase over the sum of all phases; required
          example    [link.uplink]
                     rate = "100mbit"
                     scheduler = { kind = "virtual-links" }

                     [link.uplink.flow.calls]
                     match = "udp dport 5004"
                     kind = "A"
                     phase = "200us"

                     [link.uplink.flow.rest]
                     match = "any"
                     kind = "B"
                     phase = "800us"
    "#]].assert_eq(&explain("virtual-links").unwrap());
}

#[test]
fn one_name_in_several_places() {
    let all = explain("kind").unwrap();
    assert!(all.contains("scheduler.kind: ") && all.contains("flow.kind: "), "{all}");
    let one = explain("flow.kind").unwrap();
    assert!(!one.contains("scheduler.kind: "), "{one}");
    assert_eq!(explain("link.uplink.flow.voice.phase"), explain("flow.phase"));
    assert_eq!(explain("virtual-links.phase"), explain("flow.phase"));
    assert_eq!(explain("link.uplink.flow.voice.requires.rate"), explain("requires.rate"));
}

#[test]
fn an_unknown_name() {
    for (asked, message) in [
        ("dealy", "there is no key, discipline or word `dealy`; did you mean `delay`?"),
        (
            "link.dealy",
            "there is no key, discipline or word `link.dealy`; did you mean `link.delay`?",
        ),
        (
            "flow.phse",
            "there is no key, discipline or word `flow.phse`; did you mean `flow.phase`?",
        ),
        (
            "link.uplink.rat",
            "there is no key, discipline or word `link.uplink.rat`; did you mean `rate`?",
        ),
        ("ddr", "there is no key, discipline or word `ddr`; did you mean `drr`?"),
        ("", "there is no key, discipline or word ``"),
        ("bandwith", "there is no key, discipline or word `bandwith`; did you mean `bandwidth`?"),
        ("flow.delay", "there is no key, discipline or word `flow.delay`"),
    ] {
        assert_eq!(explain(asked).unwrap_err().to_string(), message);
    }
}

#[test]
fn everything_is_listed_and_explained() {
    let listed = list();
    for table in TABLES {
        for key in table.keys {
            let path = if table.word.is_empty() {
                key.name.into()
            } else {
                format!("{}.{}", table.word, key.name)
            };
            assert!(listed.contains(&format!("  {path} ")), "{path}");
            assert!(explain(&path).unwrap().contains(key.doc), "{path}");
        }
    }
    for entry in ENTRIES {
        assert!(listed.contains(&format!("  {} ", entry.kind)));
        for (table, params) in [("scheduler", entry.scheduler), ("flow", entry.flow)] {
            for param in params {
                let text = explain(&format!("{table}.{}", param.name)).unwrap();
                assert!(text.contains(param.doc) && text.contains(entry.source), "{}", param.name);
            }
        }
    }
}
