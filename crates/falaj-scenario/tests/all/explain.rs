//! Explanations of keys.

use expect_test::expect;
use falaj_scenario::keys::TABLES;
use falaj_scenario::reference::{explain, list};
use falaj_sched::registry::ENTRIES;

#[test]
fn a_key_of_the_file() {
    expect![[r#"
        link.delay: propagation, from one end to the other

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
        scheduler.tail: the end of a phase that is too short for the next packet passes, is skipped, or is added to the link's next phase

          in         scheduler = { … }
          value      one of `wait`, `skip`, `carry`
          default    wait
          taken by   virtual-links
          source     Fortuna and Chydzinski 2013
          example    scheduler = { kind = "virtual-links", tail = "skip" }
    "#]].assert_eq(&explain("scheduler.tail").unwrap());
}

#[test]
fn a_discipline() {
    expect![[r#"
        virtual-links: a phase for each flow in each cycle: partial isolation, bounded delay

          also       virtual link, partial isolation
          source     Fortuna and Chydzinski 2013
          scheduler  serve    a packet of each link in turn, or a whole phase of each link in turn; default packet-wise
                     tail     the end of a phase that is too short for the next packet passes, is skipped, or is added to the link's next phase; default wait
                     start    where a cycle's first round starts, packet-wise: behind the link served last, at the second link, one link further each cycle; default as the preset has it: clean `continue`, paper `second`
                     preset   packet-wise rules: plain, or those that give the paper's numbers; default clean
          flow       kind     A keeps its phase when idle, B gives it up; required
                     lend     packet-wise: while it is idle, links that are done for the cycle may send in its time; default no
                     phase    time on the link in each cycle, at most; at least one largest packet; required
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
