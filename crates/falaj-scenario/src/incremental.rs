//! Reads a scenario again after values of a single flow have changed. Only that flow is read,
//! however many other flows there are. The caller, which changes a running link, checks the
//! consequences for other flows (compatibility, guarantees).
//!
//! The reported problems are exactly those of [`parse`](crate::parse()): if a warning could depend
//! on several flows together, the whole scenario is read.

use crate::edit::Set;
use crate::model::{Direction, Scenario};
use crate::parse::parse;
use falaj_sched::units::time::Span;
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// Keys of a flow that define its packets or the number of flows. A change of these keys needs the
/// whole scenario.
const OTHERS: [&str; 7] = ["match", "adapter", "batches", "flow", "scheduler", "mask", "max-flows"];

/// A scenario in which values of one flow have changed.
pub struct FlowChange {
    /// The scenario with the new values.
    pub scenario: Scenario,
    /// Index of the flow, in both directions of the only link.
    pub flow: usize,
    /// The flow's text before the change.
    pub undo: Undo,
}

/// A flow's table before the change, and its place.
pub struct Undo {
    path: [String; 4],
    table: Item,
}

impl Undo {
    /// Restores the text.
    pub fn take_back(self, file: &mut DocumentMut) {
        if let Some(table) = table(file, &self.path) {
            *table = self.table;
        }
    }
}

fn table<'a>(file: &'a mut DocumentMut, path: &[String; 4]) -> Option<&'a mut Item> {
    path.iter().try_fold(file.as_item_mut(), |at, word| at.get_mut(word.as_str()))
}

/// Sets these values in the text of the scenario `before`, if they belong to a flow of the only
/// link, and reads that flow again. Returns `None`, and leaves the text unchanged, if the whole
/// scenario must be [edited](crate::edit::Edit) and [read](crate::parse()).
pub fn set_values(
    before: &Scenario,
    file: &mut DocumentMut,
    file_name: &str,
    sets: &[Set],
) -> Option<FlowChange> {
    let path: [String; 4] = sets.first()?.path.get(..4)?.to_vec().try_into().ok()?;
    let undo = Undo { table: table(file, &path)?.clone(), path };
    match read(before, file, file_name, sets) {
        Some((scenario, flow)) => Some(FlowChange { scenario, flow, undo }),
        None => {
            undo.take_back(file);
            None
        }
    }
}

fn read(
    before: &Scenario,
    file: &mut DocumentMut,
    file_name: &str,
    sets: &[Set],
) -> Option<(Scenario, usize)> {
    let [first, ..] = sets else { return None };
    let [of, link, flows, flow, _] = &first.path[..] else { return None };
    let one = |set: &Set| {
        set.path[..].split_last().is_some_and(|(key, table)| {
            table == &first.path[..4] && !OTHERS.contains(&key.as_str())
        })
    };
    if (of.as_str(), flows.as_str()) != ("link", "flow")
        || !sets.iter().all(one)
        || !is_simple(before, file, link)
    {
        return None;
    }
    let n = before.links[0].up.flows.iter().position(|known| known.name == *flow)?;
    let table =
        file.get_mut("link")?.get_mut(link)?.get_mut("flow")?.get_mut(flow)?.as_table_like_mut()?;
    for Set { path, value, .. } in sets {
        let key = path.last()?;
        match value {
            Some(value) => drop(table.insert(key, Item::Value(value.clone()))),
            None => drop(table.remove(key)),
        }
    }
    let (alone, warnings) = parse(&alone(file, link, flow)?, file_name).ok()?;
    if !warnings.is_empty() {
        return None;
    }
    let mut after = before.clone();
    let [to, from] = [&mut after.links[0], &mut alone.links.into_iter().next()?];
    for (to, from) in [(&mut to.up, &mut from.up), (&mut to.down, &mut from.down)] {
        if to.pipe.masks.of(n) != from.pipe.masks.of(0)
            || from.flows.len() != 1
            || from.pipe.setup.flows.len() != 1
        {
            return None;
        }
        to.flows[n] = from.flows.pop()?;
        to.pipe.setup.flows[n] = from.pipe.setup.flows.pop()?;
    }
    Some((after, n))
}

/// Returns true if the change can affect only the one flow. There must be one link without a mask,
/// whose directions share the same undivided flows, and neither rules nor sources. Values that are
/// checked for all flows together are not allowed either: a delay of the link, for which queues may
/// be too short, and a `tail` of phases.
fn is_simple(before: &Scenario, file: &DocumentMut, link: &str) -> bool {
    let tables = file.iter().all(|(key, _)| key == "link" || key == "run");
    let of_link = file.get("link").and_then(|links| links.get(link)?.as_table_like());
    let shared = |link: &dyn TableLike| !link.contains_key("up") && !link.contains_key("down");
    let [only] = &before.links[..] else { return false };
    let undivided = |way: &Direction| {
        let of_queues = way.pipe.setup.flows.len() == way.flows.len()
            && way.pipe.setup.flows.iter().all(|flow| flow.inner.is_none());
        let alone =
            way.pipe.delay == Span::ZERO && way.pipe.setup.scheduler.choice("tail").is_none();
        of_queues && alone && way.pipe.masks.link.is_none()
    };
    tables
        && of_link.is_some_and(shared)
        && only.name == link
        && undivided(&only.up)
        && undivided(&only.down)
}

/// The text of the scenario with this flow alone.
fn alone(file: &DocumentMut, link: &str, flow: &str) -> Option<String> {
    let of_link = file.get("link")?.get(link)?.as_table_like()?;
    let mut own = Table::new();
    for (key, item) in of_link.iter().filter(|(key, _)| *key != "flow") {
        own.insert(key, item.clone());
    }
    let table = |key: &str, item: Item| {
        let mut table = Table::new();
        table.insert(key, item);
        Item::Table(table)
    };
    own.insert("flow", table(flow, of_link.get("flow")?.get(flow)?.clone()));
    let mut text = DocumentMut::new();
    if let Some(run) = file.get("run") {
        text.insert("run", run.clone());
    }
    text.insert("link", table(link, Item::Table(own)));
    Some(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::parse_set_or_unset;

    const TEXT: &str = "[run]\nseed = 7\n[link.up-link]\nrate = \"100mbit\"\nuplink = \"eth0\"\nscheduler = { kind = \"wf2q+\" }\n\
        [link.up-link.flow.a]\nadapter = \"eth1\"\nweight = 3\nqueue = \"50p\"\n\
        [link.up-link.flow.b]\nadapter = \"eth2\"\nmask = \"src\"\nmax-flows = 9\nrequires = { rate = \"1mbit\" }\n";

    fn again(text: &str, sets: &[&str]) -> Option<(Scenario, String)> {
        let before = parse(text, "x").unwrap().0;
        let mut file: DocumentMut = text.parse().unwrap();
        let sets: Vec<Set> = sets.iter().map(|set| parse_set_or_unset(set).unwrap()).collect();
        let Some(again) = set_values(&before, &mut file, "x", &sets) else {
            assert_eq!(file.to_string(), text, "nothing is left of it");
            return None;
        };
        let (after, set) = (again.scenario.clone(), file.to_string());
        again.undo.take_back(&mut file);
        assert_eq!(file.to_string(), text, "it is taken back");
        Some((after, set))
    }

    /// A flow that is read alone equals the flow read with the whole scenario.
    #[test]
    fn it_is_the_whole_that_was_read() {
        for sets in [
            &["link.up-link.flow.a.weight=9"][..],
            &["link.up-link.flow.a.weight="],
            &[
                "link.up-link.flow.a.queue={ policy = \"codel\", limit = \"70p\" }",
                "link.up-link.flow.a.weight=2",
            ],
            &[
                "link.up-link.flow.b.requires={ rate = \"2mbit\", delay = \"90ms\" }",
                "link.up-link.flow.b.queue=64kB",
            ],
            &["link.up-link.flow.b.envelope={ rate = \"1mbit\", burst = \"9kB\" }"],
        ] {
            let (after, text) = again(TEXT, sets).unwrap_or_else(|| panic!("{sets:?}"));
            let whole = parse(&text, "x").unwrap().0;
            assert_eq!(format!("{after:?}"), format!("{whole:?}"), "{sets:?}");
            assert_ne!(
                format!("{after:?}"),
                format!("{:?}", parse(TEXT, "x").unwrap().0),
                "{sets:?}"
            );
        }
    }

    #[test]
    fn all_else_is_read_as_a_whole() {
        for sets in [
            &[][..],
            &["link.up-link.flow.a.weight=0"],
            &["link.up-link.flow.a.waight=1"],
            &["link.up-link.flow.a.match=udp"],
            &["link.up-link.flow.b.max-flows=10"],
            &["link.up-link.flow.c.weight=1"],
            &["a.weight=1"],
            &["link.up-link.rate=1mbit"],
            &["link.up-link.flow.a.weight=1", "link.up-link.flow.b.weight=1"],
            &["link.up-link.flow.a="],
        ] {
            assert!(again(TEXT, sets).is_none(), "{sets:?}");
        }
        let set = &["link.up-link.flow.a.weight=9"][..];
        for more in
            ["rate = \"100mbit\"\ndelay = \"5ms\"", "rate = \"100mbit\"\nup = { mtu = \"1400B\" }"]
        {
            assert!(again(&TEXT.replace("rate = \"100mbit\"", more), set).is_none(), "{more}");
        }
        let sources = format!(
            "{TEXT}[traffic.t]\nflow = \"a\"\nmodel = \"poisson\"\nrate = \"1mbit\"\nsize = \"500B\"\n"
        );
        assert!(again(&sources, set).is_none());
    }
}
