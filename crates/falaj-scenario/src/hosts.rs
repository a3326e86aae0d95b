//! Reads hosts, and the links to which they are connected.

use crate::diagnostics::Problem;
use crate::keys;
use crate::model::{Host, ROUTER};
use crate::read::{Datum, Fields, Got, fields, get};
use crate::suggest::{self, quoted};
use std::ops::Range;
use toml::de::DeTable;

/// Names that no host may have, because they mean something else.
const TAKEN: [&str; 2] = [ROUTER, "localhost"];

/// Reads the tables `[host.NAME]` one after another.
pub(crate) struct Reader<'a> {
    /// Names of the links.
    names: &'a [&'a str],
    /// The hosts read so far; `None` for a host with an error, which was reported.
    hosts: Vec<Option<Host>>,
    /// The hosts at the ends of each link.
    ends: Vec<Vec<String>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(names: &'a [&'a str]) -> Reader<'a> {
        Reader { names, hosts: Vec::new(), ends: vec![Vec::new(); names.len()] }
    }

    pub(crate) fn host<'t>(
        &mut self,
        name: &str,
        table: &'t DeTable<'t>,
        at: Range<usize>,
        problems: &mut Vec<Problem>,
    ) {
        let fields =
            fields(table, at.clone(), format!("host {}", quoted(name)), keys::HOST, &[], problems);
        let mut whole = name_is_fit(name, &at, problems);
        let mut links = Vec::new();
        let Got::Given(Datum::Names(given)) = get(&[&fields], &keys::HOST[0], problems) else {
            return self.hosts.push(None);
        };
        for (link, at) in given {
            match self.link(name, link, &at, &links, problems) {
                Some(link) => links.push(link),
                None => whole = false,
            }
        }
        self.hosts.push(whole.then(|| Host { name: name.to_owned(), links }));
    }

    /// Reads one link of `host`; reports an error if the link does not exist, has no free end, or
    /// was read for this host already.
    fn link(
        &mut self,
        host: &str,
        link: &str,
        at: &Range<usize>,
        before: &[usize],
        problems: &mut Vec<Problem>,
    ) -> Option<usize> {
        let Some(found) = self.names.iter().position(|name| *name == link) else {
            let mut problem =
                Problem::error(at.clone(), format!("there is no link {}", quoted(link)));
            if let Some(near) = suggest::nearest(link, self.names.iter().copied()) {
                problem = problem.label(format!("did you mean {}?", quoted(near)));
            }
            problems.push(
                problem.help(format!("links: {}", suggest::list(self.names.iter().copied()))),
            );
            return None;
        };
        let ends = &mut self.ends[found];
        let problem = if before.contains(&found) {
            Problem::error(
                at.clone(),
                format!("host {} is at both ends of link {}", quoted(host), quoted(link)),
            )
            .help("write each link once; a link leads to another host, or to the router")
        } else if let [first, second] = &ends[..] {
            Problem::error(at.clone(), format!("link {} has a third end", quoted(link))).help(
                format!(
                    "it lies between {} and {}; give {} a link of its own",
                    quoted(first),
                    quoted(second),
                    quoted(host)
                ),
            )
        } else {
            ends.push(host.to_owned());
            return Some(found);
        };
        problems.push(problem);
        None
    }

    /// Returns all hosts. If there are hosts, each link must be connected to one at least.
    pub(crate) fn all(self, file: &Fields<'_>, problems: &mut Vec<Problem>) -> Option<Vec<Host>> {
        let alone = self.names.iter().zip(&self.ends).find(|(_, ends)| ends.is_empty());
        let hosts = self.hosts.into_iter().collect::<Option<Vec<_>>>()?;
        if let (Some(field), Some((link, _)), false) = (file.field("host"), alone, hosts.is_empty())
        {
            problems.push(
                Problem::error(field.at.clone(), format!("link {} has no host", quoted(link)))
                    .help("if there are hosts, each link must be connected to one or two of them"),
            );
        }
        // A `host` that is not a table of tables was reported when it was read.
        file.field("host").is_none_or(|field| field.datum.is_some()).then_some(hosts)
    }
}

/// Returns true if the name can be a host name, and a part of an environment variable's name;
/// otherwise reports an error.
fn name_is_fit(name: &str, at: &Range<usize>, problems: &mut Vec<Problem>) -> bool {
    if TAKEN.contains(&name) {
        problems.push(
            Problem::error(at.clone(), format!("no host can be called {}", quoted(name))).help(
                format!(
                    "`{ROUTER}` is the router in the middle, and `localhost` is each host itself"
                ),
            ),
        );
        return false;
    }
    let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_fit = (1..=63).contains(&name.len())
        && name.chars().all(fit)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !is_fit {
        let title = format!("{} cannot be the name of a host", quoted(name));
        problems.push(Problem::error(at.clone(), title).help(
            "a host is found by its name: 1 to 63 lower-case letters, digits and `-`, with no `-` at either end",
        ));
    }
    is_fit
}
