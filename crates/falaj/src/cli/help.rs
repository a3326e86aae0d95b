//! `--help` on one page, and `--help-all` with every option.
//!
//! A rare option has `hide_short_help` and appears only in `--help-all`. So do all paragraphs of a
//! doc comment after the first one.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command};
use falaj_terminal::COMMON_OPTIONS;
use std::fmt::Write;

/// The lines below `Common commands:` in `falaj --help`.
const COMMON_COMMANDS: &str = "
  falaj demo                                         the effect of isolation, in a minute
  falaj run --rate 10mbit --rtt 80ms -- curl URL     a command behind a slow link
  falaj run --preset lte --loss 1% -- bash           a shell behind a bad radio link
  falaj run --rate 5mbit --peer 'iperf3 -s' -- bash  with a server at the far end
  falaj relay --listen 9000 --to localhost:8000 --delay 40ms
                                                     a port, reached through a link
  falaj check FILE                                   errors of a scenario file, and their cures
  falaj sim FILE                                     simulate it: delay, loss, backlog
  falaj plan FILE                                    the guarantees of each flow
  falaj explain WORD                                 a key, a discipline, a word of the field
  falaj doctor                                       features that work on this host
";

/// The groups of `falaj --help`, with the names of their commands.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Emulate",
        &[
            "run",
            "relay",
            "bridge",
            "attach",
            "detach",
            "netconfig",
            "show",
            "set",
            "doctor",
            "kernel",
        ],
    ),
    ("Study", &["demo", "sim", "plan", "traffic", "compare", "sweep", "aggregate"]),
    ("Serve", &["serve", "top"]),
    (
        "Files",
        &["check", "fmt", "import", "choose", "explain", "presets", "schema", "completions", "man"],
    ),
    ("Reproduce", &["reproduce", "bench"]),
];

/// Returns the flags `--help` and `--help-all`, which every command has.
pub(super) fn flags() -> [Arg; 2] {
    let flag = |name, action, help| {
        let flag = Arg::new(name).long(name).action(action).help(help).global(true);
        flag.help_heading(COMMON_OPTIONS).display_order(1000)
    };
    [
        flag("help", ArgAction::HelpShort, "Print help on one page").short('h'),
        flag("help-all", ArgAction::HelpLong, "Print help with all options and details"),
    ]
}

/// Returns the command line with its commands listed in groups.
pub(super) fn grouped(command: Command) -> Command {
    let heading = *command.get_styles().get_header();
    let mut text = String::new();
    // Writing to a string never fails.
    let _ = write!(text, "{heading}Common commands:{heading:#}{COMMON_COMMANDS}");
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{heading}{group}:{heading:#}\n");
        // Some commands are missing unless all features are enabled.
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = below.get_about().map(StyledStr::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<11}  {about}", below.get_name());
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}\n\
         {heading}Options:{heading:#}\n{{options}}{{after-help}}"
    ))
}
