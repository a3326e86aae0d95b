//! The schema accepts the files that the parser accepts, and the page in `docs` is up to date.

use regex_lite::Regex;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// A validator for the keywords of JSON Schema that falaj's schema uses. It panics at any other
/// keyword.
struct Validator {
    root: Value,
}

impl Validator {
    fn new() -> Validator {
        Validator { root: falaj_scenario::reference::schema() }
    }

    /// The errors of the value `it`, with their places.
    fn errors(&self, it: &Value) -> Vec<String> {
        let mut out = Vec::new();
        self.check(&self.root, it, "", &mut out);
        out
    }

    fn fits(&self, schema: &Value, it: &Value) -> bool {
        let mut out = Vec::new();
        self.check(schema, it, "", &mut out);
        out.is_empty()
    }

    fn check(&self, schema: &Value, it: &Value, at: &str, out: &mut Vec<String>) {
        let list = |v: &Value| v.as_array().expect("a list").clone();
        let object = |v: &Value| v.as_object().expect("an object").clone();
        let known = schema.get("properties").map(object).unwrap_or_default();
        for (word, rule) in object(schema) {
            let good = match word.as_str() {
                "$schema" | "title" | "$defs" | "description" | "default" | "then" => true,
                "$ref" => {
                    let name =
                        rule.as_str().unwrap().strip_prefix("#/$defs/").expect("a definition");
                    let to = self.root["$defs"]
                        .get(name)
                        .unwrap_or_else(|| panic!("no definition {name}"));
                    self.check(to, it, at, out);
                    true
                }
                "type" => match rule.as_str().unwrap() {
                    "object" => it.is_object(),
                    "array" => it.is_array(),
                    "string" => it.is_string(),
                    "integer" => it.is_u64() || it.is_i64(),
                    other => panic!("type {other}"),
                },
                "enum" => list(&rule).contains(it),
                "const" => *it == rule,
                "pattern" => it
                    .as_str()
                    .is_none_or(|s| Regex::new(rule.as_str().unwrap()).unwrap().is_match(s)),
                "minLength" => {
                    it.as_str().is_none_or(|s| s.chars().count() as u64 >= rule.as_u64().unwrap())
                }
                "maxLength" => {
                    it.as_str().is_none_or(|s| s.chars().count() as u64 <= rule.as_u64().unwrap())
                }
                "minimum" => it.as_i64().is_none_or(|n| n >= rule.as_i64().unwrap()),
                "maximum" => it.as_i64().is_none_or(|n| n <= rule.as_i64().unwrap()),
                "minItems" => {
                    it.as_array().is_none_or(|a| a.len() as u64 >= rule.as_u64().unwrap())
                }
                "minProperties" => {
                    it.as_object().is_none_or(|o| o.len() as u64 >= rule.as_u64().unwrap())
                }
                "items" => {
                    it.as_array().into_iter().flatten().for_each(|i| self.check(&rule, i, at, out));
                    true
                }
                "required" => it.as_object().is_none_or(|o| {
                    list(&rule).iter().all(|k| o.contains_key(k.as_str().unwrap()))
                }),
                "propertyNames" => {
                    it.as_object().is_none_or(|o| o.keys().all(|k| self.fits(&rule, &json!(k))))
                }
                "properties" => {
                    for (key, rule) in object(&rule) {
                        if let Some(value) = it.get(&key) {
                            self.check(&rule, value, &format!("{at}.{key}"), out);
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let others = it.as_object().cloned().unwrap_or_default();
                    for (key, value) in others.iter().filter(|(k, _)| !known.contains_key(*k)) {
                        match &rule {
                            Value::Bool(false) => out.push(format!("{at}.{key}: unknown")),
                            rule => self.check(rule, value, &format!("{at}.{key}"), out),
                        }
                    }
                    true
                }
                "allOf" => {
                    list(&rule).iter().for_each(|s| self.check(s, it, at, out));
                    true
                }
                "anyOf" => list(&rule).iter().any(|s| self.fits(s, it)),
                "oneOf" => list(&rule).iter().filter(|s| self.fits(s, it)).count() == 1,
                "not" => !self.fits(&rule, it),
                "if" => {
                    if self.fits(&rule, it) {
                        self.check(&schema["then"], it, at, out);
                    }
                    true
                }
                other => panic!("the schema has a word that this test does not know: {other}"),
            };
            if !good {
                out.push(format!("{at}: {word} {rule}"));
            }
        }
    }
}

fn to_json(table: &DeTable<'_>) -> Value {
    let value = |v: &DeValue<'_>| -> Value {
        fn of(v: &DeValue<'_>) -> Value {
            match v {
                DeValue::String(s) => json!(s),
                DeValue::Integer(n) => json!(n.to_string().parse::<i64>().unwrap()),
                DeValue::Array(a) => a.iter().map(|v| of(v.get_ref())).collect(),
                DeValue::Table(t) => to_json(t),
                other => panic!("{other:?} has no place in a scenario"),
            }
        }
        of(v)
    };
    let pairs = table.iter().map(|(k, v)| (k.get_ref().to_string(), value(v.get_ref())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn json_of(text: &str) -> Value {
    to_json(DeTable::parse(text).expect("TOML").get_ref())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn files_that_are_right_fit_the_schema() {
    let mut texts = vec![("whole.toml".to_owned(), include_str!("../whole.toml").to_owned())];
    for entry in std::fs::read_dir(root().join("examples")).expect("there are examples") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            texts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(texts.len() > 1, "there are examples");
    let validator = Validator::new();
    for (name, text) in texts {
        falaj_scenario::parse(&text, &name).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(validator.errors(&json_of(&text)), [] as [String; 0], "{name}");
    }
}

#[test]
fn the_schema_knows_the_disciplines() {
    let validator = Validator::new();
    let flows = |scheduler: &str, flow: &str| {
        format!(
            "[link.a]\nrate = \"1gbit\"\n{scheduler}\n[link.a.flow.x]\nmatch = \"any\"\n{flow}\n"
        )
    };
    let (drr, phases) =
        ("scheduler = { kind = \"drr\" }", "scheduler = { kind = \"virtual-links\" }");
    for (text, right) in [
        (flows(drr, "quantum = \"1514B\""), true),
        (flows(drr, "phase = \"1ms\""), false),
        (flows(phases, "phase = \"1ms\"\nkind = \"A\""), true),
        (flows(phases, "phase = \"1ms\"\nkind = \"C\""), false),
        (flows(phases, "phase = \"1ms\""), false),
        (flows("", ""), true),
        (
            "[link.a]\nrate = \"1gbit\"\nscheduler = { kind = \"drr\", tail = \"wait\" }".into(),
            false,
        ),
        ("[link.a]\nrate = \"1gbit\"\nscheduler = { kind = \"virtual-links\" }".into(), false),
        ("[link.a.up]\nrate = \"1gbit\"\n[link.a.down]\nrate = \"1mbit\"".into(), true),
        ("[link.a.up]\nrate = \"1gbit\"".into(), false),
        ("[link.a]\nrate = \"1gbit\"\ndealy = \"1ms\"".into(), false),
        ("[link.a]\nrate = 100".into(), false),
        (
            "[link.a]\nrate = \"1gbit\"\nloss = \"1%\"\njitter = \"1ms\"\ndelay = \"1ms\"".into(),
            true,
        ),
        ("[link.a]\nrate = \"1gbit\"\nloss = { probability = \"1%\" }".into(), true),
        (
            "[link.a]\nrate = \"1gbit\"\nloss = { kind = \"list\", packets = \"1, 3-9\" }".into(),
            true,
        ),
        ("[link.a]\nrate = \"1gbit\"\nloss = 1".into(), false),
        ("[link.a]\ntrace = \"tests/lte.trace\"".into(), true),
        ("[link.a.up]\ntrace = \"tests/lte.trace\"\n[link.a.down]\nrate = \"1gbit\"".into(), true),
        ("[link.a]\ndelay = \"1ms\"".into(), false),
        ("[link.a]\nrate = \"1gbit\"\noverhead = \"-14 B\"\ncells = \"atm\"".into(), true),
        ("[link.a]\nrate = \"1gbit\"\noverhead = \"-14\"".into(), false),
        ("[link.a]\nrate = \"1gbit\"\npaced-by = \"device\"\nbacklog = \"20p\"".into(), true),
        ("[link.a]\nrate = \"1gbit\"\npaced-by = \"device\"\nbacklog = \"20\"".into(), false),
        ("[link.a]\nrate = \"1gbit\"\nloss = \"1ms\"".into(), false),
        ("[link.a]\nrate = \"1gbit\"\nreorder = { gap = 3 }".into(), false),
        ("[run]\nseed = 1".into(), false),
    ] {
        let parsed = falaj_scenario::parse(&text, "a.toml");
        assert_eq!(parsed.is_ok(), right, "the parser, of\n{text}");
        let errors = validator.errors(&json_of(&text));
        assert_eq!(errors.is_empty(), right, "the schema, of\n{text}\n{errors:?}");
    }
}

#[test]
fn patterns_read_what_the_parser_reads() {
    let schema = falaj_scenario::reference::schema();
    let pattern = |at: &str| Regex::new(schema.pointer(at).expect(at).as_str().unwrap()).unwrap();
    let direction = "/$defs/direction/properties";
    let rate = pattern(&format!("{direction}/rate/pattern"));
    let delay = pattern(&format!("{direction}/delay/pattern"));
    let size = pattern(&format!("{direction}/mtu/pattern"));
    let queue = pattern("/$defs/flow/properties/queue/anyOf/0/pattern");
    let finite = pattern("/properties/traffic/additionalProperties/properties/rate/pattern");
    let numbers = ["1", "1.5", "02", "", ".5", "5.", "-1", "1 2"];
    let units = [
        "", "ns", "us", "µs", "μs", "ms", "s", "min", "h", "m", "bit", "kbit", "Mbit/s", "MBITS",
        "Gbps", "bps", "kBps", "tbit", "B/s", "kB/s", "KB/s", "MiB/s", "TB/s", "bytes/s", "B",
        "byte", "bytes", "kB", "KB", "KiB", "kiB", "MB", "mB", "TiB", "p", "packet", "packets",
        "P", "bit/S",
    ];
    for number in numbers {
        for unit in units {
            for text in [format!("{number}{unit}"), format!(" {number} {unit} ")] {
                // A pattern cannot check that a value is a whole number of the smallest unit.
                let form = |r: Result<(), falaj_scenario::Unreadable>| {
                    r.is_ok() || r.is_err_and(|e| e.what.contains("is not a whole number of"))
                };
                assert_eq!(
                    delay.is_match(&text),
                    form(falaj_scenario::parse_span(&text).map(drop)),
                    "time `{text}`"
                );
                assert_eq!(
                    rate.is_match(&text),
                    form(falaj_scenario::parse_rate(&text).map(drop)),
                    "rate `{text}`"
                );
                assert_eq!(
                    finite.is_match(&text),
                    form(falaj_scenario::parse_rate(&text).map(drop)),
                    "rate `{text}`"
                );
                assert_eq!(
                    size.is_match(&text),
                    form(falaj_scenario::parse_size(&text).map(drop)),
                    "size `{text}`"
                );
                assert_eq!(
                    queue.is_match(&text),
                    form(falaj_scenario::parse_limit(&text).map(drop)),
                    "queue `{text}`"
                );
            }
        }
    }
    assert!(rate.is_match("unlimited") && !finite.is_match("unlimited"));
    let sizes = pattern("/properties/traffic/additionalProperties/properties/size/pattern");
    for text in [
        "500B",
        "80B-740B",
        "80B - 740B",
        "-740B",
        "74B x 7, 590B x 4, 1514B x 1",
        "74B*7,590B",
        "74B x",
        "74B,",
        "x 7",
        "imix",
        " imix-ip ",
        "imix x 7",
        "imix, 74B",
        "imix-tcp",
        "IMIX",
    ] {
        assert_eq!(
            sizes.is_match(text),
            falaj_scenario::parse_sizes(text).is_ok(),
            "sizes `{text}`"
        );
    }
}

/// Compares the pages with the generated ones; `UPDATE_EXPECT=1 cargo test -p falaj-scenario`
/// writes them.
#[test]
fn the_reference_pages_are_up_to_date() {
    use falaj_scenario::reference::{disciplines, markdown};
    for (name, page) in [("scenario.md", markdown()), ("disciplines.md", disciplines())] {
        let path = root().join("docs/reference").join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == page,
            "docs/reference/{name} is out of date: run this test with UPDATE_EXPECT=1"
        );
    }
}
