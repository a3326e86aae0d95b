//! The names of the files that a scenario uses, whether they exist or not.

use crate::keys::{Holds, Key, TABLES, of_scheduler};
use crate::parse::beside;
use falaj_sched::registry;
use std::collections::BTreeSet;
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Paths of the files that a scenario names by keys such as `library` or `capture`, relative to the
/// scenario. If the text has errors, the result may be incomplete.
pub fn files_named(text: &str, file_name: &str) -> BTreeSet<PathBuf> {
    let keys = keys();
    let mut names = BTreeSet::new();
    walk(DeTable::parse_recoverable(text).0.get_ref(), &keys, &mut names);
    names.iter().map(|name| beside(file_name).join(name)).collect()
}

/// Keys whose text may be the name of a file. Some are keys of tables that may be written as the
/// value of their first key alone.
fn keys() -> BTreeSet<&'static str> {
    let is_file = |key: &&Key| matches!(key.holds, Holds::File(_));
    let all = TABLES.iter().flat_map(|table| table.keys);
    let brief = |key: &&Key| match key.holds {
        Holds::Brief(keys) => {
            keys.first().is_some_and(|first| matches!(first.holds, Holds::File(_)))
        }
        _ => false,
    };
    let plugin = of_scheduler(registry::PLUGIN);
    all.clone()
        .filter(is_file)
        .chain(all.filter(brief))
        .chain(plugin.iter().filter(is_file))
        .map(|key| key.name)
        .collect()
}

fn walk(table: &DeTable<'_>, keys: &BTreeSet<&str>, names: &mut BTreeSet<String>) {
    for (key, value) in table {
        of_value(key.get_ref(), value.get_ref(), keys, names);
    }
}

fn of_value(key: &str, value: &DeValue<'_>, keys: &BTreeSet<&str>, names: &mut BTreeSet<String>) {
    match value {
        DeValue::String(text) if keys.contains(key) && !text.is_empty() => {
            names.insert(text.to_string());
        }
        DeValue::Table(inner) => walk(inner, keys, names),
        DeValue::Array(all) => {
            all.iter().for_each(|one| of_value(key, one.get_ref(), keys, names));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_way_to_name_a_file_is_known() {
        let text = r#"
            [link.a]
            rate = "1mbit"
            trace = "up.csv"
            profile = { file = "/far/wifi.profile" }
            delay = "eth0"
            jitter = { amount = "1ms", table = "../wifi.dist" }
            scheduler = { kind = "plugin", library = "./libmine.so" }
            [[traffic]]
            capture = "seen.pcap"
        "#;
        let found = files_named(text, "/scenarios/a.toml");
        let expected = [
            "/far/wifi.profile",
            "/scenarios/../wifi.dist",
            "/scenarios/./libmine.so",
            "/scenarios/seen.pcap",
            "/scenarios/up.csv",
        ];
        assert_eq!(found, expected.iter().map(Path::new).map(PathBuf::from).collect());
        assert!(files_named("[link", "a.toml").is_empty());
    }
}
