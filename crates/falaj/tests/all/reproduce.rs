//! Tests the arguments of `falaj reproduce`, and short parts of some papers. Whole papers take
//! minutes.

use crate::common::{falaj, file, number};

#[test]
fn a_row_is_a_scenario() {
    let row = falaj(&["reproduce", "fortuna", "--scenario", "14"]);
    assert_eq!((row.status, row.err.as_str()), (Some(0), ""));
    let ran = falaj(&[
        "sim",
        file("row14.toml", &row.out),
        "--duration",
        "50ms",
        "--replications",
        "2",
        "--json",
    ]);
    let json = ran.json();
    let links = json["flows"].as_array().expect("flows");
    assert_eq!(links.len(), 3, "BAB");
    // The virtual link is saturated: it has 28 us of each 66.67 us.
    assert!((number(&links[0]["delivered_rate"]) / 420e6 - 1.0).abs() < 0.02, "{json}");
}

#[test]
fn what_there_is_not_is_said() {
    for (args, told) in [
        (["fortuna", "--scenario", "16"], "there is no row 16: 1 to 15"),
        (["fortuna", "--figure", "4"], "there is no figure 4: 5 to 13"),
        (["fortuna", "--out", "/dev/null/report"], "cannot make the directory /dev/null/report"),
        (["xen", "--figure", "3"], "there is no figure 3 to be reproduced: 4 to 9"),
        (["rizzo", "--figure", "13"], "there is no figure 13: 1 to 12"),
        (["rizzo", "--figure", "11"], "figure 11 is measured on this machine: add --live"),
        (["xen", "--scenario", "1"], "leave out --beyond, --live, --tables and --scenario"),
        (["l4s", "--scenario", "193"], "there is no row 193: 1 to 192"),
        (["l4s", "--scenario", "1"], "is not judged: falaj has no TCP Prague"),
        (["dualq", "--figure", "2"], "dualq is one table, simulated"),
        (["dualq", "--only", "red"], "no cell has a name that begins with red"),
        (["rizzo", "--only", "red"], "--only is for tcp, l4s, dualq and cebinae: leave it out"),
    ] {
        let ran = falaj(&[&["reproduce"][..], &args[..]].concat());
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.err.contains(told) && ran.out.is_empty(), "{ran:?}");
    }
}

#[test]
fn quick_is_for_some() {
    let ran = falaj(&["reproduce", "zhang", "--quick"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(
        ran.err.contains(
            "--quick is for xen, rizzo, tcp, l4s, dualq and cebinae, and for aggregation with \
             --live: leave it out"
        ),
        "{ran:?}"
    );
}

#[test]
fn commands_of_dummynet_do_what_the_talk_says() {
    let ran = falaj(&["reproduce", "rizzo", "--figure", "3", "--json"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["summary"]["reproduced"], 4, "{json}");
    assert_eq!(json["summary"]["comparisons"], 4, "{json}");
    let overtaken = &json["figures"][0]["curves"][0]["points"];
    let at = |gap: f64| {
        overtaken.as_array().expect("points").iter().find(|p| p["x"] == gap).expect("a gap")["y"]
            .clone()
    };
    // 30 % of the packets take the pipe whose delay is 90 ms longer. With packets 30 ms apart, such
    // a packet is overtaken unless the next two packets take the long pipe too. The third packet
    // follows 90 ms later and does not overtake.
    assert!((number(&at(30.0)) - 30.0 * (1.0 - 0.3 * 0.3)).abs() < 1.0, "{json}");
    assert_eq!(at(120.0), 0.0);
}

/// The rates of one cell of the grid are reproduced. `--scenario` prints the cell's row of the
/// table as a scenario, which `sim` reads. In that simulation the first connection has the same
/// rate as in the reproduction's first run.
#[test]
fn a_shared_link_is_reproduced_and_can_be_simulated() {
    let name = "10mbit-dualpi2-cubic20-cubic20";
    let ran = falaj(&["reproduce", "l4s", "--quick", "--only", name, "--json"]);
    let json = ran.json();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(json["summary"]["reproduced"], 3, "{json}");
    assert_eq!(json["cells"][0]["runs"].as_array().map(Vec::len), Some(4), "{json}");
    let first = number(&json["cells"][0]["runs"][0][0]);
    let row = falaj(&["reproduce", "l4s", "--scenario", "106"]);
    assert!(row.out.contains(name), "{}", row.out);
    let path = file("row106.toml", &row.out);
    let ran = falaj(&["sim", path, "--warm-up", "118s", "--json"]);
    let json = ran.json();
    // In the paper, a segment of 1460 B has a timestamp option of 12 B and a payload of 1448 B.
    let goodput = number(&json["connections"][0]["goodput"]) / 1e6 * 1448.0 / 1460.0;
    assert!((goodput / first - 1.0).abs() < 1e-6, "{goodput} {first}");
}
