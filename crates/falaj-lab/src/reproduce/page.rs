//! The common parts of the papers' pages: style and tables.

/// The style, for light and dark mode.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1c1c;--page:#fff;--line:#d8d8d8;--soft:#f4f4f2;--ok:#00674a;--bad:#a63c00}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e3;--page:#16181b;--line:#3a3d42;--soft:#202327;--ok:#4fd0a8;--bad:#ff9a5c}}
body{margin:0 auto;padding:2rem 1rem;max-width:72rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page)}
h1,h2,h3{line-height:1.2}h2{margin-top:3rem}h3{margin-top:2rem}
code,pre{font-family:ui-monospace,monospace;background:var(--soft);padding:.1em .3em;border-radius:3px}pre{padding:.8em;overflow-x:auto}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .55rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{background:var(--soft)}.words,th:first-child:nth-last-child(4){text-align:left;white-space:normal}
.why{text-align:left;white-space:normal;min-width:24em}
.first{border-left:1px solid var(--line)}.ok{color:var(--ok)}.MISSED{color:var(--bad);font-weight:600}
.differs{color:var(--bad)}a{color:inherit}small{opacity:.75}
.known,.footnote{opacity:.75}.footnote{font-size:.85rem}
figure{margin:1rem 0}figure svg{display:block;width:100%;height:auto;background:#fff;border-radius:6px}
figure.one svg{max-width:38rem}figcaption{font-size:.85rem;margin-top:.4rem}";

/// The beginning of every page.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    pub(super) source: &'a str,
    /// The assumptions for all results.
    pub(super) setting: &'a str,
    /// The command that made the page, and the seeds.
    pub(super) command: &'a str,
    pub(super) seeds: &'a str,
}

impl Head<'_> {
    /// The HTML from the beginning of the page.
    pub(super) fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>\n{STYLE}\n</style></head><body>\n\
             <h1>{title}</h1>\n<p>{}</p>\n<p>{} falaj {}.</p>\n<pre>{}</pre>\n<p>{}</p>\n",
            escape(self.source),
            escape(self.setting),
            env!("CARGO_PKG_VERSION"),
            escape(self.command),
            escape(self.seeds),
            title = escape(self.title),
        )
    }
}

/// The command line of this process.
pub(super) fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("falaj {}", words.join(" "))
}

/// Text as HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table of texts: the cells of its header, and rows of (class, text).
pub(super) fn table(
    header: &[&str],
    rows: impl Iterator<Item = Vec<(&'static str, String)>>,
) -> String {
    let escaped = |(class, text): (&'static str, String)| (class, escape(&text));
    html_table(header, rows.map(|row| row.into_iter().map(escaped).collect()))
}

/// A table whose cells are HTML: the cells of its header, and rows of (class, HTML). A column's
/// title is aligned like the texts below it.
pub(super) fn html_table(
    header: &[&str],
    rows: impl Iterator<Item = Vec<(&'static str, String)>>,
) -> String {
    let mut rows = rows.peekable();
    let class = |column| {
        let first = rows.peek().and_then(|row| row.get(column)).map_or("", |(class, _)| *class);
        if ["words", "why"].contains(&first) { first } else { "" }
    };
    let classes: Vec<&str> = (0..header.len()).map(class).collect();
    let title =
        |(title, class): (&&str, &str)| format!("<th class=\"{class}\">{}</th>", escape(title));
    let head: String = header.iter().zip(classes).map(title).collect();
    let body: String = rows
        .map(|row| {
            let cell =
                |(class, html): &(&str, String)| format!("<td class=\"{class}\">{html}</td>");
            format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>())
        })
        .collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )
}
