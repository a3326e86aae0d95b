//! The JSON Schema of the scenario file, for editors and other programs.

use crate::keys::{self, CARRIES, Fallback, Holds, Key};
use crate::units::pattern;
use falaj_sched::contract::params::Kind;
use falaj_sched::registry;
use serde_json::{Map, Value, json};

/// JSON Schema (draft 2020-12) of the scenario file, generated from the same keys as its parser.
/// The schema does not check that names exist, that values fit the link, or that each discipline
/// accepts its setup; only the parser checks these.
pub fn schema() -> Value {
    let mut defs = Map::new();
    defs.insert("link".into(), link());
    defs.insert("direction".into(), direction());
    defs.insert("scheduler".into(), scheduler());
    for (word, keys) in [("flow", keys::FLOW), ("part", keys::PART)] {
        defs.insert(word.into(), any_flow(keys));
        for entry in registry::all() {
            let own: Vec<Key> = keys.iter().copied().chain(keys::of_flow(entry)).collect();
            let mut flow = table(&own);
            flow["description"] = json!(format!("a flow of `{}`", entry.kind));
            by_discipline(&mut flow, "part", None);
            defs.insert(flow_of(word, entry.kind), flow);
        }
    }
    let mut file = table(keys::FILE);
    file["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    file["title"] = json!("falaj scenario");
    file["$defs"] = Value::Object(defs);
    file
}

fn flow_of(word: &str, kind: &str) -> String {
    format!("{word}-{kind}")
}

/// The schema of a table with these keys and no others.
fn table(of: &[Key]) -> Value {
    let properties: Map<String, Value> =
        of.iter().map(|k| (k.name.to_owned(), property(k))).collect();
    let required: Vec<&str> =
        of.iter().filter(|k| k.fallback == Fallback::Required).map(|k| k.name).collect();
    let mut out =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        out["required"] = json!(required);
    }
    out
}

/// The schema of tables whose names users choose.
fn named(inner: &Value) -> Value {
    json!({
        "type": "object",
        "propertyNames": { "minLength": 1, "maxLength": 64 },
        "additionalProperties": inner,
    })
}

fn property(key: &Key) -> Value {
    let mut out = match key.holds {
        Holds::Scheduler => json!({ "$ref": "#/$defs/scheduler" }),
        Holds::Table(keys::DIRECTION) => json!({ "$ref": "#/$defs/direction" }),
        Holds::Table(inner) => table(inner),
        Holds::Tables(inner) => {
            let inner = table(inner);
            json!({ "anyOf": [inner, { "type": "array", "items": inner, "minItems": 1 }] })
        }
        Holds::Named(keys::LINK) => {
            let mut links = named(&json!({ "$ref": "#/$defs/link" }));
            links["minProperties"] = json!(1);
            links
        }
        Holds::Named(keys::FLOW) => named(&json!({ "$ref": "#/$defs/flow" })),
        Holds::Parts => named(&json!({ "$ref": "#/$defs/part" })),
        Holds::Named(keys::LOOKED_UP) => named(&json!({
            "type": "object",
            "propertyNames": { "minLength": 1 },
            "additionalProperties": { "type": "string" },
        })),
        Holds::Named(inner) => named(&table(inner)),
        Holds::LinkName | Holds::FlowName => name(),
        Holds::LinkNames => {
            json!({
                "anyOf": [name(), {
                    "type": "array", "items": name(), "minItems": 1, "uniqueItems": true,
                }],
            })
        }
        Holds::File(_) | Holds::Name | Holds::Headers => {
            json!({ "type": "string", "minLength": 1 })
        }
        Holds::Entries => json!({ "type": "string" }),
        Holds::Given => {
            let given =
                json!({ "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 0 }] });
            json!({ "type": "object", "additionalProperties": given })
        }
        Holds::Settings => json!({ "type": "object", "minProperties": 1 }),
        Holds::Target => {
            let name = json!({ "type": "string", "minLength": 1 });
            json!({
                "anyOf": [name, { "type": "array", "items": name, "minItems": 1 }, table(keys::TO)],
            })
        }
        Holds::Overhead => text(pattern::OVERHEAD),
        Holds::Numbers => text(pattern::NUMBERS),
        Holds::Sizes => text(pattern::SIZES),
        Holds::Decimal => json!({ "type": "number" }),
        Holds::Rows => {
            json!({
                "type": "array", "items": { "type": "array", "items": { "type": "number" } },
                "minItems": 1,
            })
        }
        Holds::Brief(inner) => {
            let brief = inner.first().map_or(json!(true), property);
            json!({ "anyOf": [brief, table(inner)] })
        }
        Holds::Rules => {
            let rule = json!({ "type": "string", "minLength": 1 });
            json!({ "anyOf": [rule, { "type": "array", "items": rule, "minItems": 1 }] })
        }
        Holds::Mask => json!({ "type": "string", "minLength": 1 }),
        Holds::PositiveSpan => text(pattern::SPAN),
        Holds::FiniteRate => text(pattern::FINITE_RATE),
        Holds::BytesIn { .. } => text(pattern::SIZE),
        Holds::Value(kind) => match kind {
            Kind::Span => text(pattern::SPAN),
            Kind::Rate => text(pattern::RATE),
            Kind::Bytes => text(pattern::SIZE),
            Kind::Limit => text(pattern::LIMIT),
            Kind::Probability => text(pattern::PROBABILITY),
            Kind::Count { min, max } => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Kind::Choice(words) => json!({ "enum": words }),
        },
    };
    let more = match key.fallback {
        Fallback::Otherwise(words) => format!("; default: {words}"),
        _ => String::new(),
    };
    let range = match key.holds {
        Holds::BytesIn { min, max } => format!("; {min}B to {max}B"),
        Holds::PositiveSpan => "; above zero".to_owned(),
        _ => String::new(),
    };
    out["description"] = json!(format!("{}{range}{more}", key.doc));
    if let Fallback::Value(text) = key.fallback {
        out["default"] = match key.holds {
            Holds::Value(Kind::Count { .. }) => {
                text.parse::<u64>().map_or(Value::Null, Value::from)
            }
            Holds::Scheduler => json!({ "kind": text }),
            _ => json!(text),
        };
    }
    out
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 64 })
}

/// The schema of a scheduler: one of the disciplines, with its own keys.
fn scheduler() -> Value {
    let one = |entry: &falaj_sched::contract::manifest::Manifest| {
        let own = keys::of_scheduler(entry);
        let mut out = table(&own);
        out["properties"]["kind"] = json!({ "const": entry.kind });
        out["required"] = json!(
            ["kind"]
                .into_iter()
                .chain(own.iter().filter(|k| k.fallback == Fallback::Required).map(|k| k.name))
                .collect::<Vec<_>>()
        );
        out["description"] = json!(format!("{} ({})", entry.doc, entry.source));
        out
    };
    json!({ "type": "object", "oneOf": registry::all().map(one).collect::<Vec<_>>() })
}

/// The schema of a flow that both directions may share. It accepts the keys of all disciplines.
fn any_flow(keys: &[Key]) -> Value {
    let mut out = table(keys);
    let mut own: Vec<Key> = registry::all().flat_map(keys::of_flow).collect();
    own.sort_by_key(|p| p.name);
    for same in own.chunk_by(|a, b| a.name == b.name) {
        let mut all: Vec<Value> = same.iter().map(property).collect();
        out["properties"][same[0].name] =
            if all.len() == 1 { all.swap_remove(0) } else { json!({ "anyOf": all }) };
    }
    out
}

/// Adds a rule for each discipline: if the table's scheduler has that kind, and `unless` does not
/// hold, then each flow of the table must match the definition of a `word` for that kind.
fn by_discipline(out: &mut Value, word: &str, unless: Option<&Value>) {
    let rules: Vec<Value> = registry::all()
        .map(|entry| {
            let kind = json!({ "properties": { "kind": { "const": entry.kind } } });
            let kind = json!({ "properties": { "scheduler": kind } });
            let flows = named(&json!({ "$ref": format!("#/$defs/{}", flow_of(word, entry.kind)) }));
            let mut flows = json!({ "properties": { "flow": flows } });
            // If a flow has required keys, the table must have flows.
            if keys::of_flow(entry).iter().any(|key| key.fallback == Fallback::Required) {
                flows["required"] = json!(["flow"]);
            }
            let mut all = vec![kind, json!({ "required": ["scheduler"] })];
            all.extend(unless.map(|unless| json!({ "not": unless })));
            json!({ "if": { "allOf": all }, "then": flows })
        })
        .collect();
    out["allOf"] = json!(rules);
}

fn link() -> Value {
    let mut out = table(keys::LINK);
    let carries = CARRIES.map(|key| json!({ "required": [key] }));
    // Instead of the link, both its directions may have the required keys.
    let both = json!({
        "required": ["up", "down"],
        "properties": { "up": { "anyOf": carries }, "down": { "anyOf": carries } },
    });
    if let Some(out) = out.as_object_mut() {
        out.remove("required");
    }
    out["anyOf"] = carries.into_iter().chain([both]).collect();
    let own = |side: &str| {
        ["scheduler", "flow"]
            .map(|key| json!({ "required": [side], "properties": { side: { "required": [key] } } }))
    };
    let any = [own("up"), own("down")].concat();
    let unless = json!({ "anyOf": any });
    by_discipline(&mut out, "flow", Some(&unless));
    out
}

fn direction() -> Value {
    let mut out = table(keys::DIRECTION);
    if let Some(out) = out.as_object_mut() {
        out.remove("required");
    }
    // A direction may use the link's flows, or the link's scheduler.
    let unless = json!({ "not": { "required": ["flow"] } });
    by_discipline(&mut out, "flow", Some(&unless));
    // The schema cannot check flows that are defined outside of this table.
    out
}
