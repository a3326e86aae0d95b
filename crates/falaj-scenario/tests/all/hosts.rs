//! Hosts at the ends of links: valid files, and the messages for wrong files.

use expect_test::{Expect, expect};

/// A file with two links, followed by `rest`.
fn of_links(rest: &str) -> String {
    format!("[link.x]\nrate = \"1mbit\"\n[link.y]\nrate = \"1mbit\"\n{rest}")
}

fn errors(rest: &str, expected: Expect) {
    let problems =
        falaj_scenario::parse(&of_links(rest), "a.toml").map(drop).expect_err("no error was found");
    expected.assert_eq(&format!("{problems}\n"));
}

#[test]
fn hosts_name_their_links() {
    let read = |rest: &str| {
        let (scenario, warnings) =
            falaj_scenario::parse(&of_links(rest), "a.toml").unwrap_or_else(|e| panic!("{e}"));
        assert!(warnings.is_empty(), "{warnings}");
        scenario.hosts.into_iter().map(|host| (host.name, host.links)).collect::<Vec<_>>()
    };
    assert_eq!(read(""), []);
    assert_eq!(
        read("[host.b]\nlink = \"y\"\n[host.a]\nlink = [\"y\", \"x\"]\n"),
        [("b".to_owned(), vec![1]), ("a".to_owned(), vec![1, 0])]
    );
}

#[test]
fn a_link_that_there_is_not() {
    errors(
        "[host.a]\nlink = [\"x\", \"z\"]\n[host.b]\nlink = \"y\"\n",
        expect![[r#"
        error: there is no link `z`
         --> a.toml:6:14
          |
        6 | link = ["x", "z"]
          |              ^^^
          |
          = help: links: `x`, `y`
    "#]],
    );
}

#[test]
fn a_third_end() {
    errors(
        "[host.a]\nlink = \"x\"\n[host.b]\nlink = [\"x\", \"y\"]\n[host.c]\nlink = \"x\"\n",
        expect![[r#"
        error: link `x` has a third end
          --> a.toml:10:8
           |
        10 | link = "x"
           |        ^^^
           |
           = help: it lies between `a` and `b`; give `c` a link of its own
    "#]],
    );
}

#[test]
fn both_ends_at_one_host() {
    errors(
        "[host.a]\nlink = [\"x\", \"x\", \"y\"]\n",
        expect![[r#"
        error: host `a` is at both ends of link `x`
         --> a.toml:6:14
          |
        6 | link = ["x", "x", "y"]
          |              ^^^
          |
          = help: write each link once; a link leads to another host, or to the router
    "#]],
    );
}

#[test]
fn a_link_of_no_host() {
    errors(
        "[host.a]\nlink = \"x\"\n",
        expect![[r#"
        error: link `y` has no host
         --> a.toml:5:2
          |
        5 | [host.a]
          |  ^^^^
          |
          = help: if there are hosts, each link must be connected to one or two of them
    "#]],
    );
}

#[test]
fn names_that_would_not_be_found() {
    errors(
        "[host.Web]\nlink = \"x\"\n[host.router]\nlink = \"y\"\n[host.-a]\nlink = \"y\"\n",
        expect![[r#"
        error: `Web` cannot be the name of a host
         --> a.toml:5:1
          |
        5 | [host.Web]
          | ^^^^^^^^^^
          |
          = help: a host is found by its name: 1 to 63 lower-case letters, digits and `-`, with no `-` at either end

        error: no host can be called `router`
         --> a.toml:7:1
          |
        7 | [host.router]
          | ^^^^^^^^^^^^^
          |
          = help: `router` is the router in the middle, and `localhost` is each host itself

        error: `-a` cannot be the name of a host
         --> a.toml:9:1
          |
        9 | [host.-a]
          | ^^^^^^^^^
          |
          = help: a host is found by its name: 1 to 63 lower-case letters, digits and `-`, with no `-` at either end
    "#]],
    );
}

#[test]
fn what_is_no_name_of_a_link() {
    errors(
        "[host.a]\nlink = 7\n[host.b]\nlink = []\n[host.c]\n[host.d]\nlink = [\"x\", 7]\n",
        expect![[r#"
        error: `link`: a whole number is not allowed here
         --> a.toml:6:8
          |
        6 | link = 7
          |        ^
          |
          = help: write the name of a link in quotes, or a list of them, as in `"uplink"`

        error: `link`: an empty list names nothing
         --> a.toml:8:8
          |
        8 | link = []
          |        ^^
          |
          = help: write the name of a link in quotes, or a list of them, as in `"uplink"`

        error: host `c` lacks `link`
         --> a.toml:9:1
          |
        9 | [host.c]
          | ^^^^^^^^
          |
          = help: `link`: links with an end at this host; a link that two hosts name connects them, and its `up` leads away from the host that comes first in the file; a link that one host names leads `up` to a router in the middle; write the name of a link in quotes, or a list of them, as in `"uplink"`

        error: `link`: a whole number is not allowed here
          --> a.toml:11:14
           |
        11 | link = ["x", 7]
           |              ^
           |
           = help: write the name of a link in quotes, or a list of them, as in `"uplink"`
    "#]],
    );
}
