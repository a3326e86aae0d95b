//! Names in messages: quotes names, lists them, and finds the name that was probably meant.

/// `text` in backquotes, without control characters, and shortened if long.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("`");
    for (n, c) in text.chars().enumerate() {
        if n == 40 {
            out.push('…');
            break;
        }
        // Plain letters of any script are kept; characters that would not print are escaped.
        if c.is_control() || c.escape_debug().len() > 2 {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out.push('`');
    out
}

/// The candidate that is most similar to `word`, if any is similar enough: it differs only in
/// letter case, or in at most a third of its letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word is not a typing error, and the time to compute the distance grows with the
    // square of the length.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|c| *c != word && c.len() <= 64)
        .map(|c| (strsim::damerau_levenshtein(&lower, &c.to_lowercase()), c))
        .filter(|(distance, c)| {
            *distance <= c.chars().count().max(3) / 3 && *distance < c.chars().count()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// All words, quoted and with commas between them.
pub fn every<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// The names as a list for messages, `` `a`, `b`, `c` ``; after 28 names an ellipsis replaces the
/// rest.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for (n, name) in names.into_iter().enumerate() {
        if n == 28 {
            out.push_str(", …");
            break;
        }
        if n > 0 {
            out.push_str(", ");
        }
        out.push_str(&quoted(name));
    }
    out
}
