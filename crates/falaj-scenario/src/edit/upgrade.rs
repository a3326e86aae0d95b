//! Replaces former names of keys in the text of a scenario by the present names.

use super::place::renamed;
use toml_edit::{Document, TomlError};

/// Replaces the [former names](crate::keys::RENAMED) of keys; the rest of the text does not change,
/// and need not be valid. A table that has a key under both names keeps both.
///
/// # Errors
/// The text is not TOML.
pub fn upgrade(text: &str) -> Result<String, TomlError> {
    let mut text = text.to_owned();
    loop {
        let file = Document::parse(text.as_str())?;
        let renamed = renamed(file.as_table());
        if renamed.is_empty() {
            return Ok(text);
        }
        for (at, new) in renamed.into_iter().rev() {
            text.replace_range(at, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::upgrade;

    #[test]
    fn former_names_are_replaced_where_they_are_keys_and_nowhere_else() {
        let old = "# each account needs its pace\n[link.need]\nrate = \"1mbit\"\naccount = \"ip\"\n\
                   up = { pace = \"device\", each = \"src\" }\n\
                   down.profile = { file = \"x\", occupies = \"no\" }\n\
                   [link.need.flow.each]\nmatch = \"any\"\nneed.delay = \"1s\"\n\
                   [link.need.flow.account]\n\"need\".rate = \"1kbit\"\nneed.delay = \"1s\"\n\
                   flow.pace.need = { rate = \"1kbit\" }\nflow.rest = {}\n";
        let new = "# each account needs its pace\n[link.need]\nrate = \"1mbit\"\nlayer = \"ip\"\n\
                   up = { paced-by = \"device\", mask = \"src\" }\n\
                   down.profile = { file = \"x\", holds-link = \"no\" }\n\
                   [link.need.flow.each]\nmatch = \"any\"\nrequires.delay = \"1s\"\n\
                   [link.need.flow.account]\nrequires.rate = \"1kbit\"\nrequires.delay = \"1s\"\n\
                   flow.pace.requires = { rate = \"1kbit\" }\nflow.rest = {}\n";
        assert_eq!(upgrade(old).unwrap(), new);
        assert_eq!(upgrade(new).unwrap(), new);
    }

    #[test]
    fn a_table_with_both_names_keeps_both() {
        let both = "[link.a]\nrate = \"1mbit\"\nlayer = \"ip\"\naccount = \"l2\"\n";
        assert_eq!(upgrade(both).unwrap(), both);
        let message = crate::parse(both, "x.toml").unwrap_err().to_string();
        assert!(message.contains("its name is now `layer`, which the table has, too"), "{message}");
    }
}
