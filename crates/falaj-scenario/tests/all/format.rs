//! A file in the uniform layout has the same contents as before, including the comments.

use expect_test::expect;
use falaj_scenario::{WIDTH, format, parse};
use proptest::prelude::*;
use std::fmt::Write;
use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

const WHOLE: &str = include_str!("../whole.toml");
const EXAMPLE: &str = include_str!("../../../../examples/tenants.toml");

fn formatted(text: &str) -> String {
    format(text, "a.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// Writes the contents of a value, without its place and its quotes.
fn said(value: &DeValue<'_>, out: &mut String) {
    match value {
        DeValue::Table(table) => said_by_table(table, out),
        DeValue::Array(array) => {
            out.push('[');
            for value in array {
                said(value.get_ref(), out);
                out.push(',');
            }
            out.push(']');
        }
        DeValue::String(text) => write!(out, "{text:?}").unwrap(),
        DeValue::Integer(n) => write!(out, "{n}").unwrap(),
        DeValue::Float(n) => write!(out, "{n}").unwrap(),
        DeValue::Boolean(b) => write!(out, "{b}").unwrap(),
        DeValue::Datetime(t) => write!(out, "{t}").unwrap(),
    }
}

fn said_by_table(table: &DeTable<'_>, out: &mut String) {
    out.push('{');
    for (key, value) in table {
        write!(out, "{:?}=", key.get_ref()).unwrap();
        said(value.get_ref(), out);
        out.push(',');
    }
    out.push('}');
}

fn meaning(text: &str) -> String {
    let mut out = String::new();
    said_by_table(DeTable::parse(text).expect("TOML").get_ref(), &mut out);
    out
}

fn comments(text: &str) -> Vec<&str> {
    let source = Source::new(text);
    let comments = source.lex().filter(|token| token.kind() == TokenKind::Comment);
    comments.map(|token| source.get(token).expect("in the text").as_str().trim_end()).collect()
}

/// Formats `text` and checks the documented properties of the result. A text that is not TOML must
/// be refused.
fn check(text: &str) {
    let Ok(out) = format(text, "a.toml") else {
        assert!(DeTable::parse(text).is_err(), "good TOML is refused: {text:?}");
        return;
    };
    assert_eq!(meaning(text), meaning(&out), "{text:?}\n{out}");
    assert_eq!(comments(text), comments(&out), "{text:?}\n{out}");
    assert_eq!(formatted(&out), out, "again: {text:?}");
    assert!(out.is_empty() || out.ends_with('\n') && !out.ends_with("\n\n"), "{out:?}");
    assert!(!out.starts_with('\n'));
    let of_texts = ["\"\"\"", "'''", "\r"];
    if !of_texts.iter().any(|t| text.contains(t)) {
        assert!(out.lines().all(|line| line.trim_end() == line), "{out:?}");
        assert!(!out.contains("\n\n\n"), "{out:?}");
    }
    match (parse(text, "a.toml"), parse(&out, "a.toml")) {
        (Ok((before, _)), Ok((after, _))) => {
            assert_eq!(std::format!("{before:?}"), std::format!("{after:?}"));
        }
        (Err(before), Err(after)) => {
            assert_eq!(before.problems().len(), after.problems().len(), "{text:?}");
        }
        (before, after) => panic!("{before:?} became {after:?}"),
    }
}

#[test]
fn a_file_of_any_layout() {
    expect![[r##"
        # A link.

        # It has a name.
        [link.uplink]  # the only one
        rate = "100mbit"
        scheduler = { kind = "virtual-links", serve = "packet-wise" }
        delay = "200ms"  # there
        mtu = "1500B"    # as everywhere
        layer = "l2"

        [link.uplink.flow."a b"]
        match = ["udp dport 5001", "tcp"]
        requires = { rate = "1mbit", delay = "5ms" }
        # about the next one

        [[odd]]
        when = 1979-05-27 07:32:00
        how = [
            # first
            1,
            +2.5e3,  # and so on
            { a.b = 1, c = [] },
            # last
        ]
        no = 'C:\dir "x"'
        text = """
          as it	is  
        """
        none = {}
    "##]]
    .assert_eq(&formatted(concat!(
        "\n\n# A link.   \n\n\n# It has a name.\n  [ link . uplink ]# the only one\n",
        "rate='100mbit'\nscheduler={kind=\"virtual-links\" ,serve  = 'packet-wise'}\n",
        "delay = \"200ms\" # there\n\tmtu = \"1500B\"           # as everywhere\nlayer = \"l2\"\n",
        "[link.uplink.flow.'a b']\nmatch = [\n  \"udp dport 5001\",\n\n  \"tcp\",\n]\n",
        "requires = { rate = \"1mbit\",\n  delay = \"5ms\", }\n# about the next one\n\n",
        "[[odd]]\nwhen = 1979-05-27 07:32:00\nhow = [ # first\n1\n, +2.5e3, # and so on\n {a . b=1,c=[ ]}\n# last\n]\n",
        "no = 'C:\\dir \"x\"'\ntext = \"\"\"\n  as it\tis  \n\"\"\"\nnone = {  }\n\n\n"
    )));
}

#[test]
fn long_arrays_have_a_line_for_each_element() {
    let rule = "\"udp dport 5001 src 10.0.0.0/8\"";
    let fits = std::format!("match = [{}]", [rule; 2].join(", "));
    assert!(fits.len() <= WIDTH, "{}", fits.len());
    assert_eq!(formatted(&fits), fits.clone() + "\n");
    let long = std::format!("match = [{}]", [rule; 3].join(","));
    assert_eq!(
        formatted(&long),
        std::format!("match = [\n{}]\n", std::format!("    {rule},\n").repeat(3))
    );
    // A comment behind the array does not count for the width.
    let comment = "# ".to_owned() + &"why ".repeat(30);
    assert_eq!(
        formatted(&std::format!("{fits} {comment}")),
        std::format!("{fits}  {}\n", comment.trim_end())
    );
}

#[test]
fn the_order_stays() {
    let text = "a.b = 1\nc = 2\na.d = 3\n\n[z.y]\n\n[x]\n\n[z]\n\n[\"z\".w]\n";
    assert_eq!(formatted(text), text);
}

#[test]
fn what_is_no_toml_is_refused() {
    for text in
        ["a = ", "[link", "a = 1\na = 2", "rate = 100mbit", "a = [1", "a = 1 b = 2", "[[a]]\n[a]\n"]
    {
        let errors = format(text, "a.toml").expect_err(text);
        assert!(errors.has_errors() && errors.to_string().contains("--> a.toml:"), "{errors}");
    }
}

#[test]
fn whole_files_and_systems_endings() {
    assert_eq!(formatted(EXAMPLE), EXAMPLE, "the example is laid out as falaj does it");
    for text in [WHOLE, EXAMPLE, "", "\n", "#", "# x", "[a]", "a=1", "\u{feff}a=1"] {
        check(text);
        check(&text.replace('\n', "\r\n"));
        check(&text.replace('=', "\t=  "));
        check(&text.replace('\n', "   \n\n\n"));
    }
}

/// Possible text between the elements of an array.
const GAPS: &[&str] = &[
    "",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\n\n \n",
    " # one\n",
    "# ] } \" ' #\n",
    "\n  # two\n # three\n",
    " #four \r\n#five\n",
];
/// Possible text within a line.
const SPACES: &[&str] = &["", " ", "\t", "   "];
/// Possible ends of a line.
const ENDS: &[&str] = &[
    "\n",
    "  \n",
    " # why\n",
    "#\n",
    "\r\n",
    "\n\n\n",
    "\n# own\n",
    " # a\n\n#b\n \n# c\n\n",
    "\n\t# in\n",
];
const SCALARS: &[&str] = &[
    "1",
    "-2.5e3",
    "+1_000",
    "0xff",
    "inf",
    "true",
    "1979-05-27",
    "1979-05-27 07:32:00",
    "07:32:00.5",
    "\"100mbit\"",
    "'l2'",
    "'a\"b'",
    "'a\\b'",
    "\"a # b\"",
    "''",
    "\"\"\"a\n\n  b\"\"\"",
    "'''\n# c \n'''",
    "\"\\u00e9\\\"\"",
];
const KEYS: &[&str] = &["k", "rate", "'l t'", "\"q.q\"", "-_9"];

fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(GAPS)
}
fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(SPACES)
}

/// A key made unique by the number at its end.
fn dotted(n: usize, parts: &[(&str, &str)], space: &str) -> String {
    let parts: Vec<String> =
        parts.iter().map(|(key, gap)| std::format!("{key}{gap}.{space}")).collect();
    std::format!("{}n{n}", parts.concat())
}

fn value() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(SCALARS).prop_map(str::to_owned);
    scalar.prop_recursive(3, 24, 6, |value| {
        let elements = || prop::collection::vec((value.clone(), gap(), gap(), space()), 0..6);
        let array = (elements(), gap(), any::<bool>()).prop_map(|(elements, first, comma)| {
            let count = elements.len();
            let element = |(n, (value, before, behind, _)): (usize, (String, &str, &str, &str))| {
                let comma = if comma || n + 1 < count { "," } else { "" };
                std::format!("{value}{before}{comma}{behind}")
            };
            std::format!(
                "[{first}{}]",
                elements.into_iter().enumerate().map(element).collect::<String>()
            )
        });
        let table = (elements(), gap()).prop_map(|(elements, first)| {
            let count = elements.len();
            let element =
                |(n, (value, before, behind, space)): (usize, (String, &str, &str, &str))| {
                    let comma = if n + 1 < count { "," } else { "" };
                    std::format!("n{n}{space}={space}{value}{before}{comma}{behind}")
                };
            std::format!(
                "{{{first}{}}}",
                elements.into_iter().enumerate().map(element).collect::<String>()
            )
        });
        prop_oneof![array, table]
    })
}

fn line(n: usize) -> impl Strategy<Value = String> {
    let parts = || prop::collection::vec((prop::sample::select(KEYS), space()), 0..3);
    let end = || prop::sample::select(ENDS);
    let pair = (space(), parts(), space(), value(), end()).prop_map(
        move |(before, parts, space, value, end)| {
            std::format!("{before}{}{space}={space}{value}{end}", dotted(n, &parts, space))
        },
    );
    let header = (space(), parts(), space(), any::<bool>(), end()).prop_map(
        move |(before, parts, space, many, end)| {
            let (open, close) = if many { ("[[", "]]") } else { ("[", "]") };
            std::format!("{before}{open}{space}{}{space}{close}{end}", dotted(n, &parts, space))
        },
    );
    prop_oneof![3 => pair, 1 => header]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_layout(
        lines in (0..8usize).prop_flat_map(|n| (0..n).map(line).collect::<Vec<_>>()),
        start in prop::sample::select(ENDS),
    ) {
        let text = start.to_owned() + &lines.concat();
        check(&text);
        check(text.trim_end());
    }

    #[test]
    fn comments_anywhere_in_a_scenario(
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(ENDS)),
            1..12,
        ),
    ) {
        let mut lines: Vec<String> = WHOLE.lines().map(|line| line.to_owned() + "\n").collect();
        for (place, end) in edits {
            let n = place.index(lines.len());
            if !lines[n].contains('#') {
                lines[n] = lines[n].trim_end().to_owned() + end;
            }
        }
        let text = lines.concat();
        prop_assert!(parse(&text, "a.toml").is_ok());
        check(&text);
    }

    #[test]
    fn any_text(
        parts in prop::collection::vec(
            prop_oneof![
                gap(),
                space(),
                prop::sample::select(SCALARS),
                prop::sample::select(KEYS),
                prop::sample::select(vec![
                    "[", "]", "{", "}", "=", ",", ".", "#", "\"", "'", "\\", "\0", "é",
                    "\u{202e}"
                ])
            ],
            0..24,
        ),
    ) {
        check(&parts.concat());
    }
}

#[test]
fn much_of_everything() {
    check(&std::format!("a = {}", "[".repeat(100_000)));
    check(&std::format!("a = {}{}", "[".repeat(70), "]".repeat(70)));
    check(&std::format!("a = [{}]", "1,".repeat(50_000)));
    check(&"# x\n\n\n".repeat(20_000));
    check(&(0..5_000).map(|n| std::format!("k{n}=1#{n}\n")).collect::<String>());
}
