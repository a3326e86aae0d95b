//! The layout of the screen: a table with a row for each flow, then details of the selected flow,
//! the last message, and the keys. A violated guarantee is marked by a sign, a word and inverted
//! letters; colours are only an addition.

use super::seen::{ScreenDirection, ScreenRow as Flow};
use super::state::ScreenState;
use falaj_terminal::text::{DASH, nanos, rate};
use ratatui::backend::TestBackend;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};
use ratatui::{Frame, Terminal};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Number of lines below the table: the guarantee, and the last message.
const BELOW: u16 = 5;
/// Total width of the columns without the bars of rates, and maximum width of these bars, in
/// characters.
const NUMBERS: u16 = 110;
const LINE: u16 = 30;

pub(super) fn draw(frame: &mut Frame<'_>, state: &mut ScreenState) {
    let [head, table, below, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(BELOW),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(state)), head);
    flows(frame, table, state);
    frame.render_widget(Paragraph::new(about(state)).wrap(Wrap { trim: false }), below);
    frame.render_widget(Paragraph::new(bottom(state)), keys);
}

/// Returns one screen as text, with the height that it needs.
pub(super) fn text(state: &mut ScreenState, width: u16) -> String {
    let rows = u16::try_from(state.rows().len()).unwrap_or(u16::MAX - 20);
    // Width, height and area of a screen are limited to 16 bits.
    let height = (rows + 3 + BELOW).min(u16::MAX / width.max(1));
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, state));
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(width));
    let lines = cells
        .map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
    let mut lines: Vec<String> = lines.collect();
    // The line of keys is for interactive use only.
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

fn title(state: &ScreenState) -> Line<'static> {
    let way = match (state.way, state.seen.recent) {
        (ScreenDirection::Up, true) => "sent by adapters",
        (ScreenDirection::Down, true) => "received by adapters",
        (ScreenDirection::Up, false) => "up",
        (ScreenDirection::Down, false) => "down",
    };
    let held = if state.held { ", HELD" } else { "" };
    let since = nanos((state.seen.at / 1_000_000_000 * 1_000_000_000) as f64);
    Line::styled(
        format!("{}: {way}, {since} after the start{held}", state.seen.about),
        Modifier::BOLD,
    )
}

fn flows(frame: &mut Frame<'_>, area: Rect, state: &mut ScreenState) {
    let line = area.width.saturating_sub(NUMBERS).min(LINE);
    let right = |text: String| Cell::from(Text::from(text).alignment(Alignment::Right));
    let recent = state.seen.recent;
    let head = [
        "Flow",
        "Rate",
        "at least",
        "",
        "p99",
        "largest",
        "at most",
        "waits",
        "drops",
        "weight",
        "guarantee",
    ];
    let head = Row::new(head.iter().enumerate().map(|(n, text)| match n {
        0 | 3 | 10 => Cell::from(*text),
        _ => right((*text).to_owned()),
    }));
    let rows: Vec<Row<'_>> = state
        .rows()
        .into_iter()
        .map(|flow| {
            let (judged, style) = verdict(flow, state.coloured);
            let late = recent && flow.max.zip(flow.bound).is_some_and(|(max, bound)| max > bound);
            let largest = format!(
                "{}{}",
                match (late, flow.broken) {
                    (false, _) => "",
                    (true, 0) => "▲ ",
                    _ => "✖ ",
                },
                time(flow.max)
            );
            let name = match &flow.adapter {
                Some(adapter) if *adapter != flow.flow => format!("{adapter} · {}", flow.flow),
                _ => flow.flow.clone(),
            };
            Row::new([
                Cell::from(name),
                right(flow.rate.map_or_else(|| DASH.into(), rate)),
                right(
                    flow.guaranteed_rate
                        .map_or_else(|| DASH.into(), |guaranteed| rate(guaranteed as f64)),
                ),
                Cell::from(bars(&state.rates(flow), line.into())),
                right(time(flow.p99)),
                right(largest),
                right(time(flow.bound)),
                right(flow.backlog.to_string()),
                right(state.dropped(flow).to_string()),
                right(flow.weight.map_or_else(|| DASH.into(), |(_, weight)| weight.to_string())),
                Cell::from(judged).style(style),
            ])
        })
        .collect();
    let widths = [
        Constraint::Min(10),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(line),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(17),
    ];
    let table = Table::new(rows, widths)
        .header(head.style(Modifier::UNDERLINED))
        .highlight_symbol("> ")
        .row_highlight_style(Modifier::BOLD);
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(state.chosen));
}

fn time(nanoseconds: Option<u64>) -> String {
    nanoseconds.map_or_else(|| DASH.into(), |time| nanos(time as f64))
}

/// Returns the state of the guarantee, as text with a style.
fn verdict(flow: &Flow, coloured: bool) -> (String, Style) {
    let colour = |colour| if coloured { Style::new().fg(colour) } else { Style::new() };
    if flow.broken > 0 {
        let style = colour(Color::Red).add_modifier(Modifier::REVERSED | Modifier::BOLD);
        return (format!("✖ BROKEN ×{}", flow.broken), style);
    }
    if flow.gone {
        return ("∅ gone".into(), Style::new().add_modifier(Modifier::REVERSED));
    }
    if flow.paused {
        return ("‖ paused".into(), Style::new().add_modifier(Modifier::REVERSED));
    }
    if flow.host > 0 {
        return (format!("◐ late by host ×{}", flow.host), colour(Color::Yellow));
    }
    if flow.own > 0 {
        return (format!("◇ own burst ×{}", flow.own), Style::new());
    }
    if flow.guaranteed_rate.is_none() && flow.bound.is_none() {
        return ("no guarantee".into(), Style::new().add_modifier(Modifier::DIM));
    }
    let unjudged = [flow.guaranteed_rate.is_some(), flow.bound.is_some()];
    let unjudged =
        unjudged.iter().zip(flow.judged).map(|(guaranteed, judged)| *guaranteed && !judged);
    match unjudged.collect::<Vec<_>>()[..] {
        [false, false] => ("✓ kept".into(), colour(Color::Green)),
        [true, false] if flow.bound.is_some() => ("✓ delay kept".into(), colour(Color::Green)),
        [false, true] if flow.guaranteed_rate.is_some() => {
            ("✓ rate kept".into(), colour(Color::Green))
        }
        _ => ("? not checked".into(), Style::new().add_modifier(Modifier::DIM)),
    }
}

/// Returns bars for the rates of the last samples, the newest at the right, relative to the largest
/// of these rates.
fn bars(rates: &[u64], width: usize) -> String {
    let shown = &rates[rates.len().saturating_sub(width)..];
    let most = rates.iter().copied().max().unwrap_or(0).max(1);
    let bar = |rate: &u64| {
        if *rate == 0 { ' ' } else { BARS[(u128::from(*rate) * 7 / u128::from(most)) as usize] }
    };
    let line: String = shown.iter().map(bar).collect();
    format!("{line:>width$}")
}

/// Returns the details of the selected flow, and the last message.
fn about(state: &ScreenState) -> Text<'static> {
    let mut text = Text::default();
    if let Some(flow) = state.row() {
        let cap = flow.cap.as_ref().map_or_else(String::new, |cap| format!(", capped at {cap}"));
        let of = format!("{}: under {} of link {}{cap}", flow.flow, flow.kind, flow.link);
        let why = flow.why.as_ref().map_or_else(String::new, |why| match flow.bound {
            Some(_) => format!("; its delay is guaranteed by {why}"),
            None => format!("; no delay is guaranteed: {why}"),
        });
        text.push_line(Line::from(format!("{of}{why}")));
        let adapter = flow.adapter.as_ref().unwrap_or(&flow.flow);
        if flow.no_memory > 0 {
            let did = if flow.up { "sent" } else { "was to get" };
            text.push_line(Line::from(format!(
                "Since the start, {} packets that {adapter} {did} were dropped because the packet \
                 memory was full.",
                flow.no_memory
            )));
        }
        if flow.held_back > 0 {
            text.push_line(Line::from(format!(
                "Since the start, {adapter} used up its processor time {} times while it had more \
                 packets to be read.",
                flow.held_back
            )));
        }
    } else {
        text.push_line("There are no flows.");
    }
    if let Some(said) = &state.said {
        text.push_line(Line::styled(said.clone(), Modifier::BOLD));
    }
    text
}

fn bottom(state: &ScreenState) -> Line<'static> {
    match state.typing() {
        Some((key, typed)) => Line::styled(
            format!("{key}: {typed}▏   Enter sets the value, an empty value removes it, Esc \
                     cancels"),
            Modifier::REVERSED,
        ),
        None => Line::from(
            "↑↓ flow   Tab sent/received   + - weight   w weight   c cap   p pause   space hold   q end".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::ScreenSample;
    use super::*;
    use crate::model::Sample;
    use expect_test::expect;
    use serde_json::{Value as Json, json};

    fn scenario(kind: &str) -> Json {
        json!({ "link": { "uplink": { "rate": "20mbit", "scheduler": { "kind": kind }, "flow": {
            "calm": {
                "adapter": "namespace", "weight": 2, "limit": "12mbit",
            }, "wild": { "adapter": "namespace" } } } } })
    }

    fn quantiles(max: u64) -> Json {
        json!({ "packets": 10, "p50_ns": max / 4, "p99_ns": max / 2, "max_ns": max })
    }

    fn flow(name: &str, sent: f64, max: u64, guaranteed: Option<u64>, broken: u64) -> Json {
        json!({
            "flow": name,
            "guarantee": {
                "rate": guaranteed.map(|_| 9_999_999), "delay_ns": guaranteed,
                "formula": guaranteed.map(|_| "WF2Q+"),
                "envelope": [], "required_rate": null, "required_delay_ns": null,
                "none": match guaranteed {
                    None => json!("its envelope is not known"),
                    Some(_) => Json::Null,
                },
                "judges_rate": guaranteed.is_some(), "judges_delay": guaranteed.is_some(),
            },
            "window": {
                "over_ns": 1_000_000_000, "offered": sent, "sent": sent, "demanded": false,
                "dropped": 3, "delay": quantiles(max), "release_error": quantiles(1_000),
            },
            "total": { "offered": 1, "offered_bytes": 1, "sent": 1, "sent_bytes": 1,
                "dropped": { "queue_full": 7 * broken + 3, "policy": 1 },
                "delay": quantiles(max), "release_error": quantiles(1_000), "beyond": 0,
                "beyond_bytes": 0 },
            "backlog": 12, "backlog_bytes": 12_000,
            "breaches": { "own_burst": 0, "host": 0, "guarantee": broken, "rate": 0 },
        })
    }

    /// A sample of a service, taken at this second.
    fn seen(second: u64, rate: f64, broken: u64) -> ScreenSample {
        let adapter = |name: &str, up: Json| {
            json!({ "name": name, "port": "namespace", "link": "uplink", "up": [up],
                "down": [flow(name, 0.0, 200_000, None, 0)], "foreign": 0, "malformed": 0,
                "not_taken": 0,
                "no_memory": {
                    "up": 0, "down": if name == "wild" { 5 } else { 0 },
                }, "paused": false, "spent_ns": 1, "held_back": if name == "wild" { 41 } else { 0 },
                "processor": 0.01 })
        };
        let late = if broken > 0 { 5_000_000 } else { 2_500_000 };
        let sample: Sample = serde_json::from_value(json!({
            "at_ns": second * 1_000_000_000,
            "adapters": [
                adapter("calm", flow("calm", rate, late, Some(4_220_000), broken)),
                adapter("wild", flow("wild", 12_300_000.0, 66_000_000, None, 0)),
            ],
            "losses": {},
        }))
        .unwrap();
        ScreenSample::of_service(
            "falaj serve service.toml (pid 4711)",
            &sample,
            &scenario("mclock"),
        )
    }

    #[test]
    fn a_screen_of_a_service() {
        let mut state = ScreenState::new(ScreenDirection::Up);
        for second in 1..=8 {
            state.take(seen(second, second as f64 * 250_000.0, 0));
        }
        expect![[r#"
            falaj serve service.toml (pid 4711): sent by adapters, 8.00 s after the start
              Flow                 Rate    at least                            p99    largest   at most  waits  drops weight guarantee
            > calm          2.00 Mbit/s 10.0 Mbit/s             ▁▂▃▄▅▆▇█   1.25 ms    2.50 ms   4.22 ms     12      0      2 ✓ kept
              wild          12.3 Mbit/s           —             ████████   33.0 ms    66.0 ms         —     12      0      1 no guarantee
            calm: under mclock of link uplink, capped at 12mbit; its delay is guaranteed by WF2Q+
        "#]].assert_eq(&text(&mut state, 130));
        assert!(
            !text(&mut state, 130).contains("used up its processor time"),
            "calm was not held back"
        );
        state.step(1);
        assert!(text(&mut state, 130).contains(
            "Since the start, wild used up its processor time 41 times while it had more packets"
        ));
        assert!(!text(&mut state, 130).contains("packet memory"), "nothing that it sent");
        state.turn();
        assert!(text(&mut state, 130).contains("received by adapters"));
        assert!(text(&mut state, 130).contains(
            "5 packets that wild was to get were dropped because the packet memory was full"
        ));
    }

    #[test]
    fn a_guarantee_that_is_not_judged_is_not_told_as_kept() {
        let told = |rate: Option<u64>, bound: Option<u64>, judged| {
            let flow = Flow { guaranteed_rate: rate, bound, judged, ..Flow::default() };
            verdict(&flow, false).0
        };
        assert_eq!(told(Some(1), Some(1), [true, true]), "✓ kept");
        assert_eq!(told(Some(1), None, [true, false]), "✓ kept");
        assert_eq!(told(Some(1), Some(1), [false, true]), "✓ delay kept");
        assert_eq!(told(Some(1), Some(1), [true, false]), "✓ rate kept");
        for (rate, bound) in [(Some(1), None), (None, Some(1)), (Some(1), Some(1))] {
            assert_eq!(told(rate, bound, [false, false]), "? not checked");
        }
        assert_eq!(told(None, None, [false, false]), "no guarantee");
    }

    #[test]
    fn a_violated_guarantee_is_told_without_colours() {
        let mut state = ScreenState::new(ScreenDirection::Up);
        state.take(seen(1, 1e6, 0));
        state.take(seen(2, 1e6, 3));
        let screen = text(&mut state, 100);
        assert!(screen.contains("✖ BROKEN ×3") && screen.contains("✖ 5.00 ms"), "{screen}");
        // The column has the drops of this second, not those since the start.
        assert!(
            screen.lines().any(|line| line.contains("calm") && line.contains(" 21 ")),
            "{screen}"
        );
        let mut terminal = Terminal::new(TestBackend::new(100, 9)).unwrap();
        terminal.draw(|frame| draw(frame, &mut state)).unwrap();
        let buffer = terminal.backend().buffer();
        let inverted =
            buffer.content().iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED));
        let inverted: String = inverted.map(|cell| cell.symbol()).collect();
        assert!(inverted.starts_with("✖ BROKEN ×3"), "{inverted}");
        assert!(
            buffer.content().iter().all(|cell| cell.fg == Color::Reset),
            "nobody asked for colours"
        );
        state.coloured = true;
        terminal.draw(|frame| draw(frame, &mut state)).unwrap();
        assert!(terminal.backend().buffer().content().iter().any(|cell| cell.fg == Color::Red));
    }

    #[test]
    fn any_size_and_any_service() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (500, 60)] {
            for adapters in [false, true] {
                let mut state = ScreenState::new(ScreenDirection::Down);
                if adapters {
                    state.take(seen(1, 1e9, 1));
                }
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| draw(frame, &mut state)).unwrap();
            }
        }
        assert!(
            text(&mut ScreenState::new(ScreenDirection::Up), 80).contains("There are no flows.")
        );
    }

    #[test]
    fn keys_ask_for_what_the_discipline_has() {
        let mut state = ScreenState::new(ScreenDirection::Up);
        state.take(seen(1, 1e6, 0));
        let wanted = state.weight_by(1).unwrap();
        assert_eq!(
            (wanted.key, wanted.value.as_deref(), wanted.adapter.as_deref()),
            ("weight", Some("3"), Some("calm"))
        );
        state.ask_cap();
        assert_eq!(state.typing(), Some(("limit", "12mbit")));
        (0..6).for_each(|_| state.erase());
        assert_eq!(
            state.typed().map(|wanted| (wanted.key, wanted.value)),
            Some(("limit", None)),
            "an empty value removes it"
        );
        // Other disciplines have no weight.
        let mut other = seen(2, 1e6, 0);
        other.rows.iter_mut().for_each(|row| (row.kind, row.weight) = ("fifo".into(), None));
        state.take(other);
        assert_eq!(state.weight_by(1), None);
        assert!(
            state.said.as_ref().is_some_and(|said| said.contains("no weight")),
            "{:?}",
            state.said
        );
        state.ask_cap();
        assert!(
            !state.types() && state.said.as_ref().is_some_and(|said| said.contains("no cap")),
            "{:?}",
            state.said
        );
    }
}
