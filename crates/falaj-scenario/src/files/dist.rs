//! Reads netem's tables of distributions, in their original format.

use crate::files::place::{At, words};
use falaj_engine::impair::distribution::DelayTable;

/// Description of the format, for help texts.
pub(crate) const FORM: &str = "whole numbers separated by blanks, in ascending order as netem's `maketable` writes them; `#` begins a comment";

/// Maximum number of samples; the usual tools write fewer.
const SAMPLES_MAX: usize = 1 << 16;

/// Parses the samples of a file, all of the same probability. Their mean and standard deviation do
/// not matter: the scenario sets both where it uses the table.
pub(crate) fn parse(text: &str) -> Result<DelayTable, At> {
    let mut samples = Vec::new();
    for (at, word) in words(text) {
        let number = word.parse::<i16>().map_err(|_| {
            at.says(format!(
                "{} is not a whole number from {} to {}",
                crate::suggest::quoted(word),
                i16::MIN,
                i16::MAX
            ))
        })?;
        if samples.len() == SAMPLES_MAX {
            return Err(at.says(format!("there are more than {SAMPLES_MAX} numbers")));
        }
        samples.push(i32::from(number));
    }
    DelayTable::new(&samples)
        .ok_or_else(|| At::START.says("a distribution must have at least two different numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_table_or_refused(text in "[0-9 \n#-]{0,60}|\\PC{0,40}") {
            match parse(&text) {
                Ok(_) => prop_assert!(words(&text).count() > 1),
                Err(at) => prop_assert!(at.in_file("a").starts_with("a:")),
            }
        }
    }

    #[test]
    fn a_table_of_netem() {
        assert!(parse("# made by maketable\n -32768 -100 0\n100 32767 # the end\n").is_ok());
        for (text, what) in [
            ("", "1:1: a distribution must have at least two different numbers"),
            ("5 5 5", "1:1: a distribution must have at least two different numbers"),
            ("1 2\n3 4.5", "2:3: `4.5` is not a whole number from -32768 to 32767"),
            ("1 2\n\n  99999", "3:3: `99999` is not a whole number from -32768 to 32767"),
        ] {
            assert_eq!(
                parse(text).unwrap_err().in_file("x.dist"),
                format!("x.dist:{what}"),
                "{text}"
            );
        }
    }
}
