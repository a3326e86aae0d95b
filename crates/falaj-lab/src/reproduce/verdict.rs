//! The verdict on a paper: one row for each statement, table cell and figure, in one form for all
//! papers.

use super::page::{escape, html_table};
use falaj_terminal::text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::ExitCode;

/// The unit of statements in words that are true (1) or false (0).
pub(super) const HOLDS: &str = "holds";

/// The range of falaj's values that agrees with a statement of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowed {
    /// The printed value; `None` for a statement in words.
    published: Option<f64>,
    least: f64,
    most: f64,
    /// Half of the unit to which the published value of a bound is rounded.
    rounded: f64,
    role: RowRole,
}

/// The role of a row in the count.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RowRole {
    /// Compares falaj's value with the published one.
    Compared,
    /// Checks a bound or a guarantee of falaj.
    Bound,
    /// Compares nothing.
    Unjudged,
}

impl Allowed {
    const fn new(published: Option<f64>, least: f64, most: f64) -> Allowed {
        Allowed { published, least, most, rounded: 0.0, role: RowRole::Compared }
    }

    /// A printed value, with a tolerance to both sides.
    pub(super) const fn near(published: f64, tolerance: f64) -> Allowed {
        Allowed::new(Some(published), published - tolerance, published + tolerance)
    }

    /// A printed value, and values up to this factor above or below it.
    pub(super) const fn factor(published: f64, factor: f64) -> Allowed {
        Allowed::new(Some(published), published / factor, published * factor)
    }

    /// A printed value that is a lower limit.
    pub(super) const fn printed_least(published: f64) -> Allowed {
        Allowed::new(Some(published), published, f64::INFINITY)
    }

    /// A printed value that is an upper limit.
    pub(super) const fn printed_most(published: f64) -> Allowed {
        Allowed::new(Some(published), f64::NEG_INFINITY, published)
    }

    /// A statement in words that holds if falaj's value is at least this.
    pub(super) const fn least(least: f64) -> Allowed {
        Allowed::new(None, least, f64::INFINITY)
    }

    /// A statement in words that holds if falaj's value is at most this.
    pub(super) const fn most(most: f64) -> Allowed {
        Allowed::new(None, f64::NEG_INFINITY, most)
    }

    /// A statement in words that holds if falaj's value is in this range.
    pub(super) const fn within(least: f64, most: f64) -> Allowed {
        Allowed::new(None, least, most)
    }

    /// A statement in words that is true or false; falaj's value is 1 or 0, with the unit
    /// [`HOLDS`].
    pub(super) const fn words() -> Allowed {
        Allowed::new(Some(1.0), 1.0, 1.0)
    }

    /// The same range as a bound or guarantee of falaj: nothing is compared with a published value.
    pub(super) const fn bound(self) -> Allowed {
        Allowed { role: RowRole::Bound, ..self }
    }

    /// The same bound, which a printed value must keep too. `rounded` is the largest rounding error
    /// of the printed value.
    pub(super) const fn printed(self, published: f64, rounded: f64) -> Allowed {
        Allowed { published: Some(published), rounded, ..self }
    }

    /// A statement that is shown but not judged.
    pub(super) const fn unjudged(published: f64) -> Allowed {
        Allowed { role: RowRole::Unjudged, ..Allowed::near(published, 0.0) }
    }

    pub(super) fn is_bound(self) -> bool {
        self.role == RowRole::Bound
    }

    fn has(self, value: f64, rounded: f64) -> bool {
        // NaN is in no range.
        self.least - rounded <= value && value <= self.most + rounded
    }
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RowVerdict {
    /// The value of falaj is within the tolerance of the published one.
    Reproduced,
    /// A bound or guarantee of falaj holds. Nothing is compared with a published value.
    BoundKept,
    /// The value of falaj is not within the tolerance, or a bound does not hold.
    Differs,
    /// Nothing is compared, for the reason stated.
    NotJudged,
}

impl RowVerdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            RowVerdict::Reproduced => "reproduced",
            RowVerdict::BoundKept => "bound kept",
            RowVerdict::Differs => "differs",
            RowVerdict::NotJudged => "not judged",
        }
    }
}

/// The place of a statement, what it states, its unit, and the source of its tolerance.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Place in the paper: `Figure 3`, `Table I row 4 link 1`.
    pub(super) place: String,
    pub(super) statement: String,
    pub(super) unit: &'static str,
    pub(super) source: String,
    /// The command that makes falaj's value.
    pub(super) experiment: String,
}

/// A judged statement, table cell or figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JudgedRow {
    /// Place of the row in the paper.
    pub(super) place: String,
    pub(super) statement: String,
    pub(super) unit: String,
    /// The printed value; 1 for a true statement in words, `None` for words with a range chosen by
    /// us.
    pub(super) published: Option<f64>,
    /// The value of falaj; `None` if there is none.
    pub(super) ours: Option<f64>,
    /// The smallest and the largest value of falaj that agrees with the paper; `None` without a
    /// limit.
    pub(super) least: Option<f64>,
    pub(super) most: Option<f64>,
    /// The source of the tolerance.
    pub(super) source: String,
    pub(super) verdict: RowVerdict,
    /// The reason for the verdict `differs` or `not judged`.
    pub(super) why: Option<String>,
    /// The command that shows falaj's value.
    pub(super) experiment: String,
}

impl JudgedRow {
    /// Judges falaj's value. `why` is the known reason for a difference or for a missing value. A
    /// missing value without a reason counts as a difference.
    pub(super) fn judge(
        of: Statement,
        allowed: Allowed,
        ours: f64,
        why: Option<&str>,
    ) -> JudgedRow {
        let keeps = |printed: f64| allowed.has(printed, allowed.rounded);
        let is_within = allowed.has(ours, 0.0)
            && (allowed.role == RowRole::Compared || allowed.published.is_none_or(keeps));
        let verdict = match allowed.role {
            RowRole::Unjudged => RowVerdict::NotJudged,
            _ if ours.is_nan() && why.is_some() => RowVerdict::NotJudged,
            _ if !is_within => RowVerdict::Differs,
            RowRole::Bound => RowVerdict::BoundKept,
            RowRole::Compared => RowVerdict::Reproduced,
        };
        // For a row that compares nothing, the source has the reason instead of the tolerance.
        let why = why.or((allowed.role == RowRole::Unjudged).then_some(of.source.as_str()));
        let why = why.map(str::to_owned);
        let is_settled = matches!(verdict, RowVerdict::Reproduced | RowVerdict::BoundKept);
        let finite = |value: f64| value.is_finite().then_some(value);
        JudgedRow {
            place: of.place,
            statement: of.statement,
            unit: of.unit.to_owned(),
            published: allowed.published,
            ours: finite(ours),
            least: finite(allowed.least),
            most: finite(allowed.most),
            source: of.source,
            verdict,
            why: why.filter(|_| !is_settled),
            experiment: of.experiment,
        }
    }

    /// Returns true if the row differs and no reason is known: the reproduction has failed.
    pub(super) fn is_unexplained(&self) -> bool {
        self.verdict == RowVerdict::Differs && self.why.is_none()
    }

    fn value(&self, value: Option<f64>) -> String {
        match value {
            None => text::DASH.into(),
            Some(value) if self.unit == HOLDS => if value == 1.0 { "true" } else { "false" }.into(),
            Some(value) => {
                let number = decimal(value, self.decimals());
                format!("{number} {}", self.unit).trim_end().to_owned()
            }
        }
    }

    /// Number of decimals that show the tolerance's first digit.
    fn decimals(&self) -> usize {
        match (self.least, self.most) {
            (Some(least), Some(most)) if most > least => {
                (-((most - least) / 2.0).log10()).ceil().clamp(0.0, 6.0) as usize
            }
            _ => 0,
        }
    }

    /// The range of values that agree, for example `± 0.5` around a published value.
    pub(super) fn tolerance(&self) -> String {
        let half = |(p, (least, most)): (f64, (f64, f64))| {
            let (below, above) = (p - least, most - p);
            ((below - above).abs() <= 1e-9 * p.abs().max(above)).then_some(above)
        };
        match (self.least, self.most) {
            _ if self.verdict == RowVerdict::NotJudged || self.unit == HOLDS => text::DASH.into(),
            (Some(least), Some(most)) => {
                match self.published.zip(Some((least, most))).and_then(half) {
                    Some(tolerance) => format!("± {}", number(tolerance)),
                    None => format!("{} to {}", number(least), number(most)),
                }
            }
            (Some(least), None) => format!("≥ {}", number(least)),
            (None, Some(most)) => format!("≤ {}", number(most)),
            (None, None) => text::DASH.into(),
        }
    }

    fn cells(&self) -> [String; 6] {
        let published = match self.published {
            None if self.verdict != RowVerdict::NotJudged => "in words".to_owned(),
            published => self.value(published),
        };
        [
            self.place.clone(),
            self.statement.clone(),
            published,
            self.value(self.ours),
            self.tolerance(),
            self.verdict.word().to_owned(),
        ]
    }

    /// Returns true if the row is printed with a reason, or should have one.
    pub(super) fn has_reason(&self) -> bool {
        self.reason().is_some()
    }

    /// The reason, or a text if it is missing; `None` if the row needs no reason.
    fn reason(&self) -> Option<&str> {
        self.why.as_deref().or_else(|| self.is_unexplained().then_some("no reason is known"))
    }

    /// The CSS class of the row's verdict on the page.
    pub(super) fn class(&self) -> &'static str {
        match self.verdict {
            RowVerdict::Reproduced | RowVerdict::BoundKept => "ok",
            _ if self.is_unexplained() => "MISSED",
            RowVerdict::Differs => "differs",
            RowVerdict::NotJudged => "known",
        }
    }

    /// The name of the part of the page that shows the row's figure or table.
    pub(super) fn anchor(&self) -> String {
        anchor(&self.place)
    }
}

/// The name of a part of a page: `figure-5.1` for `Figure 5.1`, `table-i` for `Table I row 4`,
/// `cells` for each `Cell`.
pub(super) fn anchor(place: &str) -> String {
    if place.starts_with("Cell ") {
        return "cells".into();
    }
    let whole = place.split(" row ").next().unwrap_or(place);
    whole.to_lowercase().replace(' ', "-")
}

/// A number with four significant digits, or all digits before the point.
pub(super) fn number(value: f64) -> String {
    decimal(value, 0)
}

/// As [`number`], with this number of decimals if that is more.
fn decimal(value: f64, decimals: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let before = value.abs().log10().floor() as i32;
    let digits = decimals.max((3 - before).clamp(0, 6) as usize);
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The count of rows by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VerdictCounts {
    /// Rows that compare falaj's value with a published one, and bounds that do not hold.
    pub(super) comparisons: usize,
    pub(super) reproduced: usize,
    pub(super) differs: usize,
    /// Rows that differ for no known reason, bounds included.
    pub(super) unexplained: usize,
    pub(super) bounds_kept: usize,
    pub(super) not_judged: usize,
}

impl VerdictCounts {
    pub(super) fn of<'r>(rows: impl IntoIterator<Item = &'r JudgedRow>) -> VerdictCounts {
        let mut counts = VerdictCounts::default();
        for row in rows {
            match row.verdict {
                RowVerdict::Reproduced => counts.reproduced += 1,
                RowVerdict::BoundKept => counts.bounds_kept += 1,
                RowVerdict::Differs => counts.differs += 1,
                RowVerdict::NotJudged => counts.not_judged += 1,
            }
            counts.unexplained += usize::from(row.is_unexplained());
        }
        counts.comparisons = counts.reproduced + counts.differs;
        counts
    }
}

impl fmt::Display for VerdictCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VerdictCounts {
            comparisons,
            reproduced,
            differs,
            unexplained,
            bounds_kept,
            not_judged,
        } = self;
        write!(f, "{reproduced} of {comparisons} comparisons reproduced, {differs} differ")?;
        if *unexplained > 0 {
            write!(f, " ({unexplained} for no known reason)")?;
        }
        write!(f, "; besides, {bounds_kept} bounds kept, {not_judged} not judged")
    }
}

/// The exit status of a reproduction: 1 if rows differ for no known reason. Such rows are named on
/// standard error (not with `--quiet`), so that the log of a run with `--json` has them.
pub(super) fn exit_code(rows: &[JudgedRow]) -> ExitCode {
    let missed: Vec<&JudgedRow> = rows.iter().filter(|row| row.is_unexplained()).collect();
    for row in &missed {
        let [place, statement, published, ours, tolerance, _] = row.cells();
        note!("{place}, {statement}: {ours}, published {published}, tolerance {tolerance}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}

const HEADER: [&str; 6] = ["where", "statement", "published", "ours", "tolerance", "verdict"];

/// The width of a table on the terminal, in columns.
pub(super) const WIDTH: u16 = 100;

/// Prints the rows to be listed, then the reasons of all rows that differ or are not judged, then
/// the count.
pub(super) fn print(rows: &[JudgedRow], is_listed: impl Fn(&JudgedRow) -> bool) {
    print_rows(rows, is_listed);
    say!("{}", VerdictCounts::of(rows));
}

/// Prints the same without the count.
pub(super) fn print_rows(rows: &[JudgedRow], is_listed: impl Fn(&JudgedRow) -> bool) {
    let listed = rows.iter().filter(|row| is_listed(row));
    let cells: Vec<Vec<String>> = listed.map(|row| row.cells().into()).collect();
    if !cells.is_empty() {
        say!("{}\n", text::wrapped(&HEADER, cells, WIDTH));
    }
    for row in rows {
        if let Some(why) = row.reason() {
            say!("{}, {}: {}", row.place, row.statement, row.verdict.word());
            say!("    {why}\n    {}", row.experiment);
        }
    }
}

/// The rows as a table of a page. `page` is the page that shows the figures and tables; empty: this
/// page.
pub(super) fn html(rows: &[JudgedRow], page: &str) -> String {
    let header =
        ["where", "statement", "published", "ours", "tolerance", "", "why, and how to see it"];
    let styled = |row: &JudgedRow| {
        let [place, statement, published, ours, tolerance, verdict] = row.cells();
        let link = format!("<a href=\"{page}#{}\">{}</a>", row.anchor(), escape(&place));
        let why = row.reason().map_or(String::new(), |why| format!("{} ", escape(why)));
        let tolerance = format!("{}<br><small>{}</small>", escape(&tolerance), escape(&row.source));
        vec![
            ("words", link),
            ("words", escape(&statement)),
            ("", escape(&published)),
            ("", escape(&ours)),
            ("words", tolerance),
            (row.class(), escape(&verdict)),
            ("why", format!("{why}<code>{}</code>", escape(&row.experiment))),
        ]
    };
    html_table(&header, rows.iter().map(styled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(allowed: Allowed, unit: &'static str, ours: f64, why: Option<&str>) -> JudgedRow {
        let statement = Statement {
            place: "Table I row 4 link 1".into(),
            statement: "rate".into(),
            unit,
            source: "half a digit".into(),
            experiment: "falaj reproduce fortuna --scenario 4".into(),
        };
        JudgedRow::judge(statement, allowed, ours, why)
    }

    fn verdict(allowed: Allowed, ours: f64, why: Option<&str>) -> RowVerdict {
        judged(allowed, "us", ours, why).verdict
    }

    #[test]
    fn a_value_is_reproduced_within_its_tolerance() {
        let near = Allowed::near(10.0, 0.5);
        assert_eq!(verdict(near, 10.5, None), RowVerdict::Reproduced);
        assert_eq!(verdict(near, 9.4, Some("lost capacity")), RowVerdict::Differs);
        assert_eq!(verdict(near, f64::NAN, None), RowVerdict::Differs);
        assert_eq!(verdict(near, f64::NAN, Some("no copy is public")), RowVerdict::NotJudged);
        assert_eq!(verdict(Allowed::factor(10.0, 2.0), 20.0, None), RowVerdict::Reproduced);
        assert_eq!(verdict(Allowed::factor(10.0, 2.0), 4.9, None), RowVerdict::Differs);
        assert_eq!(verdict(Allowed::least(3.0), 2.9, None), RowVerdict::Differs);
        assert_eq!(verdict(Allowed::most(3.0), 2.9, None), RowVerdict::Reproduced);
        assert_eq!(verdict(Allowed::words(), 0.0, None), RowVerdict::Differs);
        assert_eq!(
            verdict(Allowed::unjudged(98.4), 98.4, Some("arithmetic")),
            RowVerdict::NotJudged
        );
    }

    /// Both values must keep the bound, and neither is compared with the other.
    #[test]
    fn a_bound_is_kept_and_not_compared() {
        let bound = Allowed::most(202.0).bound();
        assert_eq!(verdict(bound, 190.0, None), RowVerdict::BoundKept);
        assert_eq!(verdict(bound.printed(176.0, 0.5), 190.0, None), RowVerdict::BoundKept);
        assert_eq!(verdict(bound.printed(203.0, 0.5), 190.0, None), RowVerdict::Differs);
        assert_eq!(verdict(bound.printed(202.4, 0.5), 202.0, None), RowVerdict::BoundKept);
        assert_eq!(verdict(bound, 202.1, None), RowVerdict::Differs);
    }

    #[test]
    fn only_comparisons_are_counted_in_the_headline() {
        let near = Allowed::near(1.0, 0.1);
        let rows = [
            judged(near, "", 1.0, Some("a reason that is not needed")),
            judged(near, "", 2.0, Some("a reason")),
            judged(near, "", 2.0, None),
            judged(Allowed::most(3.0).bound(), "", 2.0, None),
            judged(near, "", f64::NAN, Some("not there")),
        ];
        let counts = VerdictCounts::of(&rows);
        let told = "1 of 3 comparisons reproduced, 2 differ (1 for no known reason); besides, 1 \
                    bounds kept, 1 not judged";
        assert_eq!(counts.to_string(), told);
        assert_eq!((rows[0].why.as_deref(), rows[1].why.as_deref()), (None, Some("a reason")));
        assert_eq!(
            rows.each_ref().map(JudgedRow::is_unexplained),
            [false, false, true, false, false]
        );
    }

    #[test]
    fn a_row_shows_its_tolerance() {
        let shown = |allowed, unit, ours| {
            let [.., published, ours, tolerance, verdict] =
                judged(allowed, unit, ours, None).cells();
            [published, ours, tolerance, verdict].join(" | ")
        };
        let near = Allowed::near(193.893, 0.0005);
        assert_eq!(shown(near, "ms", 193.8932), "193.893 ms | 193.8932 ms | ± 0.0005 | reproduced");
        let factor = Allowed::factor(12.0, 3.0);
        assert_eq!(shown(factor, "ms", 40.0), "12 ms | 40 ms | 4 to 36 | differs");
        let words = Allowed::words();
        assert_eq!(shown(words, HOLDS, 0.0), "true | false | — | differs");
        let least = Allowed::least(1_300_000.0);
        assert_eq!(shown(least, "", 2e6), "in words | 2000000 | ≥ 1300000 | reproduced");
        let row = judged(near, "", 0.0, None);
        assert_eq!(
            (row.anchor(), anchor("Figure 5.1 live")),
            ("table-i".into(), "figure-5.1-live".into())
        );
        let html = html(&[row], "fortuna.html");
        assert!(
            html.contains("<a href=\"fortuna.html#table-i\">") && html.contains("half a digit")
        );
        assert!(html.contains("class=\"MISSED\"") && html.contains("no reason is known"));
    }
}
