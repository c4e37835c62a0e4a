//! Pictures of figures, as SVG: axes, scales, lines, for whoever draws.
//!
//! Invariants: labels stand equally far apart, in the order given, those of time where their time is; nothing here
//! knows what is drawn.

use std::fmt::Write;

use crate::compare::figures::Spread;

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 330.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 285.0;
/// The two panels, from left to right.
pub const PANELS: [(f64, f64); 2] = [(70.0, 370.0), (460.0, 760.0)];
/// One panel that is as wide as both.
pub const WIDE: (f64, f64) = (PANELS[0].0, PANELS[1].1);
/// From so many seconds on a time axis is in minutes.
const MINUTES_FROM: f64 = 180.0;
/// Told apart by people who see few colours, too.
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"];

/// A picture that has its title and nothing else yet; `</svg>` is to end it.
pub fn begin(title: &str) -> String {
    let text = escape(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{text}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    )
}

/// A bar from the least to the most of several rounds.
pub fn spread(out: &mut String, x: f64, spread: Spread, scale: &Scale, colour: &str) {
    let (low, high) = (scale.y(spread.least), scale.y(spread.most));
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        out,
        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" \
         stroke=\"{colour}\" stroke-width=\"1\"/>"
    );
}

/// What each colour is, above the panels.
pub fn legend<'a>(out: &mut String, names: impl IntoIterator<Item = &'a str>) {
    let mut x = PANELS[0].0;
    for (name, colour) in names.into_iter().zip(COLOURS.iter().cycle()) {
        let (from, to, at) = (x, x + 18.0, x + 24.0);
        let _ = writeln!(
            out,
            "<line x1=\"{from}\" x2=\"{to}\" y1=\"16\" y2=\"16\" stroke=\"{colour}\" \
             stroke-width=\"3\"/><text x=\"{at}\" y=\"20\">{}</text>",
            escape(name)
        );
        // A letter is some seven units wide.
        x += 44.0 + 7.0 * name.chars().count() as f64;
    }
}

/// A line through points.
pub fn line(out: &mut String, points: impl IntoIterator<Item = (f64, f64)>, colour: &str) {
    dashed(out, points, colour, "none");
}

fn dashed(
    out: &mut String,
    points: impl IntoIterator<Item = (f64, f64)>,
    colour: &str,
    dashes: &str,
) {
    let text: Vec<String> = points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        out,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dashes}\" points=\"{}\"/>",
        text.join(" ")
    );
}

/// A line through points, which are marked.
pub fn path(out: &mut String, points: Vec<(f64, f64)>, colour: &str, dashes: &str) {
    dashed(out, points.iter().copied(), colour, dashes);
    for (x, y) in points {
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
}

/// A panel's lines and words: `labels` stand below it, `below` says of what; `name` stands above.
pub fn axes(
    out: &mut String,
    panel: (f64, f64),
    (labels, below): (&[String], &str),
    scale: &Scale,
    name: &str,
) {
    grid(out, panel, scale, name);
    let labels = labels.iter().enumerate();
    let count = labels.len();
    stand_below(out, panel, labels.map(|(at, label)| (place(panel, count, at), &**label)), below);
}

/// The same with time from left to right, up to so many seconds; answers where a second stands.
pub fn time_axes(
    out: &mut String,
    (left, right): (f64, f64),
    seconds: f64,
    scale: &Scale,
    name: &str,
) -> impl Fn(f64) -> f64 + use<> {
    grid(out, (left, right), scale, name);
    let x = move |second: f64| left + (right - left) * second / seconds.max(f64::MIN_POSITIVE);
    let (each, unit) = if seconds < MINUTES_FROM { (1.0, "seconds") } else { (60.0, "minutes") };
    // The last sample may be a little before a full minute.
    let last = seconds / each * 1.001;
    let ticks = Scale::linear(seconds / each).ticks.into_iter().filter(|tick| *tick <= last);
    let ticks: Vec<(f64, String)> =
        ticks.map(|tick| (x(tick * each).min(right), format!("{tick}"))).collect();
    stand_below(out, (left, right), ticks.iter().map(|(x, label)| (*x, &**label)), unit);
    x
}

/// Labels in their places, and what they are of.
fn stand_below<'a>(
    out: &mut String,
    (left, right): (f64, f64),
    labels: impl Iterator<Item = (f64, &'a str)>,
    below: &str,
) {
    for (x, label) in labels {
        let y = BOTTOM + 18.0;
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>");
    }
    let (x, y) = (f64::midpoint(left, right), BOTTOM + 36.0);
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{below}</text>");
}

/// A panel's values, and what they are.
fn grid(out: &mut String, (left, right): (f64, f64), scale: &Scale, name: &str) {
    let _ = writeln!(out, "<text x=\"{left}\" y=\"44\">{name}</text>");
    for tick in &scale.ticks {
        let (y, label) = (scale.y(*tick), number(*tick));
        let (text_x, text_y) = (left - 8.0, y + 4.0);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{text_x}\" y=\"{text_y:.1}\" text-anchor=\"end\">{label}</text>"
        );
    }
}

/// Where the label with this place stands.
pub fn place((left, right): (f64, f64), count: usize, at: usize) -> f64 {
    left + (right - left) * (at as f64 + 0.5) / count.max(1) as f64
}

/// From values to heights.
pub struct Scale {
    ticks: Vec<f64>,
    from: f64,
    to: f64,
    form: fn(f64) -> f64,
}

impl Scale {
    /// From zero to `most`, in four to eight steps of 1, 2 or 5 times a power of ten.
    pub fn linear(most: f64) -> Scale {
        let most = if most > 0.0 { most } else { 1.0 };
        let power = 10_f64.powf((most / 8.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
        let step = steps.into_iter().find(|it| most / it <= 8.0).unwrap_or(power * 10.0);
        let count = (most / step).ceil() as usize;
        let ticks: Vec<f64> = (0..=count).map(|it| it as f64 * step).collect();
        Scale { to: count as f64 * step, from: 0.0, ticks, form: |it| it }
    }

    /// Whole decades around both.
    pub fn decades(least: f64, most: f64) -> Scale {
        let (low, high) = (least.max(1.0).log10().floor(), most.max(1.0).log10().ceil());
        let high = high.max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|it| 10_f64.powi(it)).collect();
        Scale { ticks, from: low, to: high, form: |it| it.max(1.0).log10() }
    }

    /// The height of a value.
    pub fn y(&self, value: f64) -> f64 {
        let share = ((self.form)(value) - self.from) / (self.to - self.from);
        BOTTOM - (BOTTOM - TOP) * share.clamp(0.0, 1.0)
    }
}

/// A whole number with its thousands apart.
pub fn number(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A text as it may stand in a picture.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_their_values() {
        let scale = Scale::linear(158_044.0);
        assert_eq!((scale.ticks[1], scale.to), (20_000.0, 160_000.0));
        assert_eq!((scale.y(0.0), scale.y(160_000.0)), (BOTTOM, TOP));
        assert_eq!(scale.y(80_000.0), f64::midpoint(BOTTOM, TOP));
        for most in [0.0, 0.3, 1.0, 7.9, 8.1, 99.0, 1e6] {
            let scale = Scale::linear(most);
            assert!(scale.to >= most && (4..=9).contains(&scale.ticks.len()), "{most}");
        }
        let scale = Scale::decades(51.0, 2_389.0);
        assert_eq!(scale.ticks, [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!((scale.y(10.0), scale.y(10_000.0)), (BOTTOM, TOP));
        assert_eq!(Scale::decades(10.0, 10.0).ticks, [10.0, 100.0]);
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(
            [0.0, 999.4, 1000.0, 1_234_567.0].map(number),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
