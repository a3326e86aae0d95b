//! The body of a request as settings of the scenario. They can only change the flow of one adapter.

use serde_json::{Map, Value};

/// The path of an adapter's flow in the scenario.
///
/// # Errors
/// The name is not a valid name of a flow.
pub(super) fn place(link: &str, name: &str) -> Result<String, String> {
    let parts: Vec<&str> = name.split('/').collect();
    if !parts.iter().all(|part| is_fit(part)) {
        return Err("a name has letters, digits, `-` and `_`; a part is named `FLOW/PART`".into());
    }
    Ok(format!("link.{}.flow.{}", quoted(link), parts.join(".flow.")))
}

/// Returns the keys of an adapter's flow as settings; null removes a key.
///
/// # Errors
/// The name is not a valid name of a flow, there is no key, a key is not valid in any scenario, or
/// there is a null or an invalid key within a value.
pub(super) fn sets(
    link: &str,
    name: &str,
    keys: &Map<String, Value>,
) -> Result<Vec<String>, String> {
    let place = place(link, name)?;
    let one = |(key, value): (&String, &Value)| {
        if !key.split('.').all(is_fit) {
            return Err(format!("{} is not a key of a flow", quoted(key)));
        }
        let value = if value.is_null() { Some(String::new()) } else { toml(value) };
        let value =
            value.ok_or_else(|| format!("{key}: a null, or an invalid key, within the value"))?;
        Ok(format!("{place}.{key}={value}"))
    };
    if keys.is_empty() {
        return Err("no key is given; an example: {\"weight\": 3}".into());
    }
    keys.iter().map(one).collect()
}

/// Returns true if the word is valid in a name or key.
fn is_fit(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Returns a string in TOML notation: the same as in JSON, except for one character that TOML
/// requires to be escaped.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns a value in TOML notation, or `None` if it is null, contains null, or contains an invalid
/// key.
fn toml(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => quoted(text),
        Value::Array(all) => {
            format!("[{}]", all.iter().map(toml).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Object(all) => {
            let one = |(key, value): (&String, &Value)| {
                Some(format!("{key} = {}", toml(value).filter(|_| is_fit(key))?))
            };
            format!("{{ {} }}", all.iter().map(one).collect::<Option<Vec<_>>>()?.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    })
}

/// Checks the settings of any body: they are those of the body, they belong to the adapter's flow,
/// and the link's rate and the other flow stay the same.
#[cfg_attr(not(test), allow(dead_code, reason = "for tests and fuzzers"))]
pub(super) fn hostile(body: &str) {
    use falaj_scenario::edit::{Edit, parse_set_or_unset};
    use toml_edit::DocumentMut;

    const SCENARIO: &str = "[link.x]\nrate = \"10mbit\"\n\n[link.x.flow.a]\nadapter = \"tap:1\"\nweight = 1\n\n\
                            [link.x.flow.other]\nadapter = \"tap:2\"\nweight = 2\n";
    let Ok(keys) = serde_json::from_str::<Map<String, Value>>(body) else { return };
    let Ok(sets) = sets("x", "a", &keys) else { return };
    assert_eq!(sets.len(), keys.len());
    let mut file: DocumentMut = SCENARIO.parse().expect("a scenario");
    let before = file.clone();
    let mut edit = Edit::new(&mut file);
    for (set, (key, given)) in sets.iter().zip(&keys) {
        let Ok(read) = parse_set_or_unset(set) else {
            assert!(
                key.split('.').count() > 60,
                "a key that is fit, and no deeper than any may be: {set}"
            );
            return;
        };
        let words: Vec<&str> = read.path.iter().map(String::as_str).collect();
        assert_eq!(
            words,
            [&["link", "x", "flow", "a"][..], &key.split('.').collect::<Vec<_>>()].concat(),
            "{set}"
        );
        match given {
            Value::Null => assert!(read.value.is_none(), "{set}"),
            Value::String(text) => {
                assert_eq!(read.value.as_ref().and_then(|v| v.as_str()), Some(&text[..]), "{set}");
            }
            Value::Array(all) => {
                let array = read.value.as_ref().and_then(|v| v.as_array());
                // A whole number beyond TOML's range becomes a string, which the scenario then
                // rejects.
                assert!(array.is_none_or(|array| array.len() == all.len()), "{set}");
            }
            _ => assert!(read.value.is_some(), "{set}"),
        }
        let _ = edit.set(&read.path, read.value.as_ref());
    }
    edit.finish();
    let text = file.to_string();
    let after: DocumentMut = text.parse().expect("TOML");
    let other = |file: &DocumentMut| {
        (file["link"]["x"]["rate"].to_string(), file["link"]["x"]["flow"]["other"].to_string())
    };
    assert_eq!(other(&after), other(&before), "{body}");
    assert!(after.iter().all(|(table, _)| matches!(table, "link" | "rule")), "{body}");
    let _ = falaj_scenario::parse(&text, "a.toml");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~\n\t\u{7f}]{0,12}".prop_map(Value::from),
            "[\"'\\\\#={}\\[\\]\u{7f}\n]{1,4}".prop_map(Value::from),
            prop::sample::select(vec!["1mbit", "5ms", "tap:3", "udp", "64KB", "drop"])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key(), inner, 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    fn key() -> impl Strategy<Value = String> {
        let known = vec![
            "weight",
            "cap",
            "requires",
            "queue",
            "queue.limit",
            "adapter",
            "match",
            "flow.b.weight",
            "up.weight",
            "phase",
        ];
        prop_oneof![
            20 => prop::sample::select(known).prop_map(str::to_owned),
            1 => "[ -~]{0,8}",
            1 => any::<String>(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_body_sets_what_it_says_and_nothing_else(
            keys in prop::collection::btree_map(key(), anything(), 0..5),
        ) {
            hostile(&Value::Object(keys.into_iter().collect()).to_string());
        }

        #[test]
        fn a_body_may_be_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            hostile(&String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn bodies_that_fuzzers_begin_with() {
        let all = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/body"))
            .expect("it is there");
        for file in all {
            hostile(&std::fs::read_to_string(file.expect("a file").path()).expect("a text"));
        }
    }

    /// Each of these strings was changed by an earlier version of the conversion, or could be
    /// changed.
    #[test]
    fn texts_stay_what_they_are() {
        for text in [
            "\u{7f}",
            "a\u{7f}=\"b\"",
            "\\",
            "\"\"\"",
            "'",
            "\r\n[link.y]",
            "\u{0}",
            "\u{2028}",
            "#",
            "{}",
            "7",
        ] {
            hostile(&serde_json::json!({ "match": text, "queue": { "limit": text } }).to_string());
        }
    }

    #[test]
    fn what_is_wrong_with_a_body() {
        let why = |name: &str, body: &str| {
            sets("x", name, &serde_json::from_str(body).expect("an object"))
                .expect_err("it is wrong")
        };
        assert_eq!(why("a b", "{}"), place("x", "a b").expect_err("a space"));
        assert_eq!(why("a", "{}"), "no key is given; an example: {\"weight\": 3}");
        assert_eq!(why("a", r#"{"a=b": 1}"#), r#""a=b" is not a key of a flow"#);
        assert_eq!(
            why("a", r#"{"queue": [null]}"#),
            "queue: a null, or an invalid key, within the value"
        );
        assert_eq!(
            why("a", r#"{"queue": {"a b": 1}}"#),
            "queue: a null, or an invalid key, within the value"
        );
    }
}
