//! Learned source addresses of adapters, kept over restarts in a file beside the service's state.
//!
//! Without this file, the first sender after a restart could take over its neighbour's address. The
//! link's thread reports changes; a separate thread writes them to the file.

use anyhow::{Context, Result, bail};
use falaj_control::handler::{Handler, lock, replace, with_more};
use falaj_live::adapters::{Adapters, AddressChange, Mac};
use falaj_scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Version of the file's format.
const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressFile {
    version: u32,
    adapters: Vec<KeptAdapter>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptAdapter {
    name: String,
    /// The adapter's port. If the port has changed, the entry belongs to another adapter of the
    /// same name.
    port: String,
    /// Addresses in the usual notation, `02:00:00:00:00:01`.
    addresses: Vec<String>,
}

/// The learned addresses of an adapter at this port.
#[derive(Debug, Default, PartialEq, Eq)]
struct Owned {
    port: String,
    addresses: BTreeSet<Mac>,
}

/// Learned addresses by adapter.
type AddressBook = BTreeMap<String, Owned>;

/// An address in the usual notation.
pub(super) fn written(mac: Mac) -> String {
    mac.iter().enumerate().fold(String::new(), |mut text, (n, byte)| {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{byte:02x}", if n == 0 { "" } else { ":" });
        text
    })
}

fn parse_mac(text: &str) -> Result<Mac> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|byte| {
            let is_hex = byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
            u8::from_str_radix(byte, 16).ok().filter(|_| is_hex)
        })
        .collect();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .with_context(|| format!("`{text}` is no Ethernet address, such as 02:00:00:00:00:01"))
}

/// The path of the file, beside the state.
fn beside(state: &Path) -> PathBuf {
    with_more(state, ".addresses")
}

fn parse(text: &str) -> Result<AddressBook> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    // Files of other versions may have other keys.
    let Versioned { version } = serde_json::from_str(text)?;
    if version != VERSION {
        bail!("version {version} is another falaj's; this one reads version {VERSION}");
    }
    let file: AddressFile = serde_json::from_str(text)?;
    let owned = |adapter: KeptAdapter| {
        let addresses = adapter.addresses.iter().map(|text| parse_mac(text));
        Ok((
            adapter.name,
            Owned { port: adapter.port, addresses: addresses.collect::<Result<_>>()? },
        ))
    };
    file.adapters.into_iter().map(owned).collect()
}

fn text_of(book: &AddressBook) -> String {
    let kept = |(name, owned): (&String, &Owned)| KeptAdapter {
        name: name.clone(),
        port: owned.port.clone(),
        addresses: owned.addresses.iter().map(|mac| written(*mac)).collect(),
    };
    let file = AddressFile { version: VERSION, adapters: book.iter().map(kept).collect() };
    format!("{:#}\n", serde_json::json!(file))
}

/// Reads the file of the last run, if there is one. If the file cannot be read, the service does
/// not start: without the file, any adapter could take over any address.
fn read(file: &Path) -> Result<AddressBook> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(AddressBook::new()),
        text => text.with_context(|| file.display().to_string())?,
    };
    parse(&text).with_context(|| {
        format!(
            "{}: the addresses of adapters cannot be read; delete the file, and they are learned again",
            file.display()
        )
    })
}

/// Applies a change to the book; `port` returns the port of an adapter.
fn apply(book: &mut AddressBook, change: AddressChange, port: impl Fn(&str) -> Option<String>) {
    match change {
        AddressChange::Learned(name, mac) => {
            if let Some(owned) = book.get_mut(&name) {
                owned.addresses.insert(mac);
            } else if let Some(port) = port(&name) {
                book.insert(name, Owned { port, addresses: [mac].into() });
            }
        }
        AddressChange::Forgotten(name, mac) => {
            if let Some(owned) = book.get_mut(&name) {
                owned.addresses.remove(&mac);
            }
        }
        AddressChange::Gone(name) => drop(book.remove(&name)),
    }
}

/// The thread that writes addresses to the file.
pub(super) struct AddressKeeper(JoinHandle<()>);

impl AddressKeeper {
    /// Restores the adapters' addresses of the last run, and records changes from now on. It must
    /// be called before any packet is read.
    pub(super) fn begin(
        state: &Path,
        scenario: &Scenario,
        adapters: &Adapters,
        handler: Arc<Mutex<Handler>>,
    ) -> Result<AddressKeeper> {
        let file = beside(state);
        let mut book = read(&file)?;
        let ports: BTreeMap<&str, &str> =
            scenario.adapters().into_iter().map(|a| (&a.name[..], &a.port[..])).collect();
        book.retain(|name, owned| ports.get(&name[..]) == Some(&&owned.port[..]));
        for (name, owned) in &book {
            adapters.recall(name, owned.addresses.iter().copied());
        }
        let (report, reports) = channel();
        adapters.report_addresses(Some(report));
        let work = move || {
            while let Ok(first) = reports.recv() {
                for change in std::iter::once(first).chain(reports.try_iter()) {
                    // A change that adds an adapter holds the handler's lock until the change is
                    // complete.
                    apply(&mut book, change, |name| {
                        let scenario = lock(&handler).current().scenario;
                        let all = scenario.adapters();
                        Some(all.into_iter().find(|adapter| adapter.name == name)?.port.clone())
                    });
                }
                if let Err(error) = replace(&file, &text_of(&book)) {
                    note!(
                        "warning: {}: {error}; after a restart the newest addresses belong \
                         to their first users",
                        file.display()
                    );
                }
            }
        };
        Ok(AddressKeeper(std::thread::Builder::new().name("addresses".into()).spawn(work)?))
    }

    /// Writes the last changes to the file.
    pub(super) fn end(self, adapters: &Adapters) {
        adapters.report_addresses(None);
        let _ = self.0.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut book = AddressBook::new();
        let at = |name: &str| (name != "stranger").then(|| format!("tap:{name}"));
        let learned =
            |name: &str, n: u8| AddressChange::Learned(name.into(), [2, 0, 0, 0, 0xab, n]);
        for change in [
            learned("a b\n\"", 1),
            learned("a b\n\"", 2),
            learned("web", 3),
            learned("gone", 4),
            learned("stranger", 5),
            AddressChange::Forgotten("web".into(), [2, 0, 0, 0, 0xab, 9]),
            AddressChange::Forgotten("a b\n\"".into(), [2, 0, 0, 0, 0xab, 2]),
            AddressChange::Gone("gone".into()),
        ] {
            apply(&mut book, change, at);
        }
        let text = text_of(&book);
        assert!(text.contains("\"02:00:00:00:ab:03\"") && !text.contains("ab:02"), "{text}");
        assert_eq!(parse(&text).unwrap(), book);
        assert_eq!(book.len(), 2);
        assert_eq!(book["web"].port, "tap:web");
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let kept = |version: u32, mac: &str| {
            format!(
                "{{\"version\": {version}, \"adapters\": \
                 [{{\"name\": \"a\", \"port\": \"eth1\", \"addresses\": [\"{mac}\"]}}]}}"
            )
        };
        assert!(parse(&kept(1, "02:00:00:00:00:01")).is_ok());
        for (text, why) in [
            (kept(2, "02:00:00:00:00:01"), "version 2 is another falaj's"),
            (kept(1, "02:00:00:00:00"), "no Ethernet address"),
            (kept(1, "02:00:00:00:00:+1"), "no Ethernet address"),
            (kept(1, "2:0:0:0:0:1"), "no Ethernet address"),
            (String::new(), "EOF"),
            ("[]".into(), "invalid"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
