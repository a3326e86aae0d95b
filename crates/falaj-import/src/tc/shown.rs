//! The lines that `tc qdisc show` and `tc class show` print: they have the options of commands, in
//! another order.

use crate::args::{Args, no_equal_phrase};
use crate::lines::Word;
use falaj_scenario::Problem;

/// Returns the words of the command that creates the object shown in a line, from `dev` on; `None`
/// if the line is a command itself. `args` has the words after the object.
pub(super) fn command(
    words: &[Word],
    mut args: Args<'_>,
    object: &str,
) -> Result<Option<Vec<Word>>, Problem> {
    let (Some(kind), Some(id)) = (args.next(), args.next()) else { return Ok(None) };
    let is_command = |w: &Word| w.text.chars().all(char::is_alphabetic) && !w.text.contains(':');
    if !id.text.contains(':') || is_command(id) || args.peek().is_none() {
        return Ok(None);
    }
    if object == "filter" || kind.text == "parent" {
        let why = "write the commands that made them, `tc filter add …`";
        return Err(no_equal_phrase(words[0].at.clone(), "the output of `tc filter show`", why));
    }
    if kind.text == "noqueue" {
        return Ok(Some(Vec::new()));
    }
    let word = |text: &str| Word { text: text.to_owned(), at: id.at.clone() };
    let (mut place, mut options) = (Vec::new(), Vec::new());
    if id.text != "0:" {
        place.extend([word(if object == "class" { "classid" } else { "handle" }), id.clone()]);
    }
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "dev" | "parent" => place.extend([word.clone(), args.value("a name")?.clone()]),
            "root" => place.push(word.clone()),
            "offloaded" => {}
            "refcnt" | "direct_packets_stat" | "leaf" => _ = args.value("a value")?,
            "lat" => options.push(Word { text: "latency".to_owned(), at: word.at.clone() }),
            text if text.starts_with("----") => {}
            text => {
                let count = text.strip_suffix('p').unwrap_or("");
                let packets = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
                let text = if packets { count } else { text };
                options.push(Word { text: text.to_owned(), at: word.at.clone() });
            }
        }
    }
    place.push(kind.clone());
    // The bands of `pfifo_fast` are shown, and cannot be set.
    if kind.text != "pfifo_fast" {
        place.extend(options);
    }
    Ok(Some(place))
}
