//! Reads netem's tables of distributions, in their original format.

use crate::files::place::{At, words};
use falaj_engine::impair::distribution::DelayTable;

/// Description of the format.
pub(crate) const FORM: &str = "whole numbers between blanks, in rising order as netem's `maketable` writes them; `#` begins a comment";

/// More samples than any tool writes.
const SAMPLES_MAX: usize = 1 << 16;

/// The samples of a file, each of the same probability. Their mean and deviation are ignored: these
/// are set where the table is used.
pub(crate) fn parse(text: &str) -> Result<DelayTable, At> {
    let mut samples = Vec::new();
    for (at, word) in words(text) {
        let number = word.parse::<i16>().map_err(|_| {
            at.says(format!(
                "{} is no whole number from {} to {}",
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
        .ok_or_else(|| At::START.says("a distribution has two numbers at least that differ"))
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
            ("", "1:1: a distribution has two numbers at least that differ"),
            ("5 5 5", "1:1: a distribution has two numbers at least that differ"),
            ("1 2\n3 4.5", "2:3: `4.5` is no whole number from -32768 to 32767"),
            ("1 2\n\n  99999", "3:3: `99999` is no whole number from -32768 to 32767"),
        ] {
            assert_eq!(
                parse(text).unwrap_err().in_file("x.dist"),
                format!("x.dist:{what}"),
                "{text}"
            );
        }
    }
}
