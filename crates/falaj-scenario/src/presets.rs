//! Presets: well-known links by name, each with the source of its numbers.

use std::sync::LazyLock;
use toml::de::DeTable;

/// A well-known link with a name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The preset's name, as the value of `preset` in a scenario.
    pub name: &'static str,
    /// The link's description, in one line.
    pub doc: &'static str,
    /// The source of its numbers.
    pub source: &'static str,
    /// The keys of the link in TOML, with the tables `up` and `down` if the directions differ.
    pub keys: &'static str,
}

const WEBPAGETEST: &str = "profile of WebPageTest, with half of its round-trip time in each \
                           direction";

/// All presets, by kind: telephone line, mobile networks, fixed lines, satellites. Within each
/// kind, the slowest link is first.
pub const PRESETS: [Preset; 11] = [
    Preset {
        name: "dial",
        doc: "dial-up modem over a telephone line",
        source: WEBPAGETEST,
        keys: "delay = '60ms'\nup = { rate = '30kbit' }\ndown = { rate = '49kbit' }",
    },
    Preset {
        name: "edge",
        doc: "mobile network, EDGE",
        source: WEBPAGETEST,
        keys: "delay = '420ms'\nup = { rate = '200kbit' }\ndown = { rate = '240kbit' }",
    },
    Preset {
        name: "2g",
        doc: "mobile network, second generation, at its best",
        source: WEBPAGETEST,
        keys: "delay = '400ms'\nup = { rate = '256kbit' }\ndown = { rate = '280kbit' }",
    },
    Preset {
        name: "3g",
        doc: "mobile network, third generation",
        source: WEBPAGETEST,
        keys: "delay = '150ms'\nup = { rate = '768kbit' }\ndown = { rate = '1.6mbit' }",
    },
    Preset {
        name: "3g-fast",
        doc: "mobile network, third generation, at its best; Lighthouse calls it slow 4G",
        source: "Lighthouse, docs/throttling.md: 1.6 Mbit/s, 750 kbit/s, round-trip time 150 ms",
        keys: "delay = '75ms'\nup = { rate = '750kbit' }\ndown = { rate = '1.6mbit' }",
    },
    Preset {
        name: "4g",
        doc: "mobile network, fourth generation",
        source: WEBPAGETEST,
        keys: "delay = '85ms'\nrate = '9mbit'",
    },
    Preset {
        name: "lte",
        doc: "mobile network, fourth generation, at its best",
        source: WEBPAGETEST,
        keys: "delay = '35ms'\nrate = '12mbit'",
    },
    Preset {
        name: "dsl",
        doc: "DSL over a telephone line",
        source: WEBPAGETEST,
        keys: "delay = '25ms'\nup = { rate = '384kbit' }\ndown = { rate = '1.5mbit' }",
    },
    Preset {
        name: "cable",
        doc: "cable modem",
        source: WEBPAGETEST,
        keys: "delay = '14ms'\nup = { rate = '1mbit' }\ndown = { rate = '5mbit' }",
    },
    Preset {
        name: "geo",
        doc: "geostationary satellite",
        source: "delay from its orbit: 239 ms to 278 ms up and down at the speed of light; rates \
                 from the FCC's definition of broadband from 2015 on, 25 and 3 Mbit/s",
        keys: "delay = '260ms'\nup = { rate = '3mbit' }\ndown = { rate = '25mbit' }",
    },
    Preset {
        name: "leo",
        doc: "satellites in low orbit, such as Starlink",
        source: "Ookla's medians for Starlink in the USA, first quarter of 2023: 104.7 and 14.8 \
                 Mbit/s, round-trip time from 38 ms",
        keys: "delay = '20ms'\nup = { rate = '14.8mbit' }\ndown = { rate = '104.7mbit' }",
    },
];

/// The names of all presets.
pub(crate) const NAMES: [&str; PRESETS.len()] = {
    let mut names = [""; PRESETS.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = PRESETS[n].name;
        n += 1;
    }
    names
};

/// A link's table, as parsed from TOML.
type Whole = toml::Spanned<DeTable<'static>>;

/// The link's table of a preset; it has `up` and `down` if the directions differ.
pub(crate) fn table(name: &str) -> Option<&'static DeTable<'static>> {
    static TABLES: LazyLock<Vec<Option<Whole>>> =
        LazyLock::new(|| PRESETS.iter().map(|preset| DeTable::parse(preset.keys).ok()).collect());
    let n = PRESETS.iter().position(|preset| preset.name == name)?;
    Some(TABLES.get(n)?.as_ref()?.get_ref())
}

/// A list of the presets for a terminal: for each a line with its name and description, and below
/// it the keys and the source.
pub fn presets() -> String {
    let lines = |p: &Preset| {
        let keys = p.keys.replace('\'', "\"").replace('\n', ", ");
        format!("{}: {}\n  {keys}\n  source: {}\n", p.name, p.doc, p.source)
    };
    PRESETS.iter().map(lines).collect::<Vec<_>>().join("\n")
}
