//! Every option of the manual pages of tc and ipfw, as a row of `table.toml`; each row is tested.
//! The commands of a row become a scenario with the keys of the row, and packets through that
//! scenario behave as the row expects; or the commands are refused with the message of the row. A
//! page of the reference is generated from the same rows.

mod packets;

use falaj_import::{Host, Imported, ipfw, tc};
use falaj_scenario::{Diagnostics, parse, parse_rate};
use packets::Ran;
use std::fmt::Write;
use toml::de::{DeTable, DeValue};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/table.toml");

/// A row of the table.
struct Row<'a> {
    /// The option, as the manual page writes it.
    option: &'a str,
    /// `yes`, `better` or `no`.
    here: &'a str,
    /// The way in which falaj is better, or the reason why the option is refused.
    how: &'a str,
    /// The commands of a script.
    lines: String,
    /// Rate of the device, if it matters.
    rate: Option<&'a str>,
    /// Texts that the scenario must contain.
    has: Vec<&'a str>,
    /// Texts that the messages about the lines must contain.
    says: Vec<&'a str>,
    /// Packets to send, and the expected results.
    send: Vec<&'a str>,
    then: Vec<&'a str>,
}

fn text<'a>(table: &'a DeTable<'_>, key: &str) -> Option<&'a str> {
    table.get(key).map(|v| v.get_ref().as_str().unwrap_or_else(|| panic!("{key} is a text: {v:?}")))
}

fn texts<'a>(table: &'a DeTable<'_>, key: &str) -> Vec<&'a str> {
    match table.get(key).map(|v| v.get_ref()) {
        None => Vec::new(),
        Some(DeValue::String(one)) => vec![one],
        Some(DeValue::Array(all)) => {
            all.iter().map(|v| v.get_ref().as_str().expect("a text")).collect()
        }
        Some(other) => panic!("{key} is a list: {other:?}"),
    }
}

fn row<'a>(table: &'a DeTable<'_>) -> Row<'a> {
    const KEYS: &[&str] =
        &["option", "here", "how", "lines", "rate", "has", "says", "send", "then"];
    let odd = table.keys().find(|k| !KEYS.contains(&k.get_ref().as_ref()));
    assert_eq!(odd, None);
    Row {
        option: text(table, "option").expect("an option"),
        here: text(table, "here").expect("what becomes of it here"),
        how: text(table, "how").unwrap_or(""),
        lines: texts(table, "lines").join("\n"),
        rate: text(table, "rate"),
        has: texts(table, "has"),
        says: texts(table, "says"),
        send: texts(table, "send"),
        then: texts(table, "then"),
    }
}

/// A manual page: its name, the tool, its rows.
type Page = (String, String, Vec<DeTable<'static>>);

fn pages() -> Vec<Page> {
    let file: &str = std::fs::read_to_string(TABLE).expect("the table can be read").leak();
    let table = DeTable::parse(file).unwrap_or_else(|e| panic!("{e}")).into_inner();
    let page = |page: &toml::Spanned<DeValue<'static>>| {
        let page = page.get_ref().as_table().expect("a table");
        let rows = page["rows"].get_ref().as_array().expect("rows").iter();
        let rows = rows.map(|row| row.get_ref().as_table().expect("a row").clone()).collect();
        let named = |key: &str| text(page, key).expect("a text").to_owned();
        (named("name"), named("tool"), rows)
    };
    table["page"].get_ref().as_array().expect("pages").iter().map(page).collect()
}

fn imported(tool: &str, row: &Row<'_>) -> Result<Imported, Diagnostics> {
    let rate = row.rate.map(|rate| parse_rate(rate).expect("a rate"));
    match tool {
        "tc" => tc(&row.lines, "script", &Host { rate, down: None }),
        _ => ipfw(&row.lines, "script", None),
    }
}

/// All faults of a row.
fn wrong(tool: &str, row: &Row<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let said;
    match (imported(tool, row), row.here) {
        (Ok(made), "yes" | "better") => {
            if row.send.is_empty() || row.then.is_empty() {
                wrong.push(
                    "a row that is supported sends packets and says what becomes of them"
                        .to_owned(),
                );
            }
            said = made.notes.to_string();
            for has in row.has.iter().filter(|has| !made.scenario.contains(**has)) {
                wrong.push(format!("it has no `{has}`:\n{}", made.scenario));
            }
            let (scenario, _) =
                parse(&made.scenario, "the scenario").expect("an import is a scenario");
            // Bytes are counted as the tool counts them.
            let header = if tool == "tc" { 14 } else { 0 };
            let ran = Ran::new(&scenario, &row.send, header);
            for then in &row.then {
                wrong.extend(
                    ran.differs(then).map(|how| format!("`{then}`: {how}\n{}", made.scenario)),
                );
            }
            let (plain, _) =
                parse("[link.plain]\nrate = \"unlimited\"", "a plain link").expect("a scenario");
            let plain = Ran::new(&plain, &row.send, header);
            if row.has.is_empty()
                && row.says.is_empty()
                && row.then.iter().all(|then| plain.differs(then).is_none())
            {
                wrong.push(
                    "packets behave the same on a plain link: this row cannot fail".to_owned(),
                );
            }
        }
        (Ok(made), _) => return vec![format!("it is not refused:\n{}", made.scenario)],
        (Err(errors), "no") => {
            if row.says.is_empty() {
                wrong.push("a row that is refused has a message".to_owned());
            }
            let lines = row.lines.lines().count();
            for problem in errors.problems() {
                if !(1..=lines).contains(&problem.line) || problem.column == 0 {
                    wrong.push(format!(
                        "a place that is not there: {}:{}",
                        problem.line, problem.column
                    ));
                }
            }
            said = errors.to_string();
        }
        (Err(errors), _) => return vec![format!("it is refused:\n{errors}")],
    }
    wrong.extend(
        row.says
            .iter()
            .filter(|says| !said.contains(**says))
            .map(|says| format!("it does not say `{says}`:\n{said}")),
    );
    if row.here != "yes" && row.how.is_empty() {
        wrong.push("how is it better, or why refused?".to_owned());
    }
    wrong
}

#[test]
fn every_row_is_true() {
    let (mut failed, mut tried) = (String::new(), 0);
    for (page, tool, rows) in pages() {
        for table in &rows {
            let row = row(table);
            tried += 1;
            for wrong in wrong(&tool, &row) {
                writeln!(failed, "{page}, {}: {wrong}", row.option).expect("a text takes all");
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(tried > 150, "{tried} rows");
}

/// The page of the reference.
fn reference() -> String {
    let mut out = String::from(
        "# Options of tc and ipfw\n\n\
         <!-- Made of crates/falaj-import/tests/conformance/table.toml; a test tries every row. -->\n\n\
         Every option of the manual pages that concern links, and its counterpart in a scenario of [`falaj import`](../how-to/import.md): ✓ the same, except for the remark, ★ better, with the difference, ✗ refused, with the reason.\n\
         A test tries each row. Its lines become a scenario, and packets pass that scenario in simulated time as the row says, to\n\
         the nanosecond if nothing is random. Lines that are refused are refused with a message at their place.\n",
    );
    let mut counts = [0; 3];
    let mut tables = String::new();
    for (page, _, rows) in pages() {
        writeln!(tables, "\n## {page}\n\n| option | | how, or why |\n|---|---|---|")
            .expect("a text takes all");
        for table in &rows {
            let row = row(table);
            let (n, sign) = match row.here {
                "yes" => (0, "✓"),
                "better" => (1, "★"),
                _ => (2, "✗"),
            };
            counts[n] += 1;
            let cell = |text: &str| text.replace('|', "\\|");
            writeln!(tables, "| `{}` | {sign} | {} |", cell(row.option), cell(row.how))
                .expect("a text takes all");
        }
    }
    let [same, better, refused] = counts;
    writeln!(
        out,
        "\n{same} of {} rows are the same, {better} better, {refused} refused.",
        same + better + refused
    )
    .expect("a text takes all");
    out + &tables
}

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/conformance.md");
    let page = reference();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == page,
        "docs/reference/conformance.md is out of date: run this test with UPDATE_EXPECT=1"
    );
}
