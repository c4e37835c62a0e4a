//! One workload as a picture: throughput and latency percentiles against clients, as SVG.
//!
//! Invariants: numbers of clients stand equally far apart, in the order given; throughput begins at
//! zero, and a bar spans its rounds; latency is logarithmic.

use std::fmt::Write;

use super::figures::Figures;

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 330.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 285.0;
/// The two panels, from left to right.
const PANELS: [(f64, f64); 2] = [(70.0, 370.0), (460.0, 760.0)];
/// Told apart by people who see few colours, too.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"];
/// Percentiles: name, place in [`Figures::latency`], dashes.
const PERCENTILES: [(&str, usize, &str); 3] =
    [("p50", 1, "none"), ("p95", 2, "7 3"), ("p99", 3, "2 3")];

/// One server's figures, by number of clients.
pub struct Line<'a> {
    /// Who.
    pub name: &'a str,
    /// The clients' place on the axis, and the figures there.
    pub points: Vec<(usize, &'a Figures)>,
}

/// The whole picture.
pub fn svg(title: &str, clients: &[u64], lines: &[Line<'_>]) -> String {
    let mut out = String::new();
    let text = escape(title);
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{text}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    legend(&mut out, lines);
    let figures = || lines.iter().flat_map(|line| line.points.iter().map(|it| it.1));
    let most = figures().map(|it| it.per_second.most).fold(0.0, f64::max);
    throughput(&mut out, clients, lines, Scale::linear(most));
    let latencies = || figures().flat_map(|it| it.latency[1..].iter().copied());
    let least = latencies().fold(f64::INFINITY, f64::min);
    latency(&mut out, clients, lines, Scale::decades(least, latencies().fold(0.0, f64::max)));
    out.push_str("</svg>\n");
    out
}

fn legend(out: &mut String, lines: &[Line<'_>]) {
    let mut x = PANELS[0].0;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let name = escape(line.name);
        let (from, to, at) = (x, x + 18.0, x + 24.0);
        let _ = writeln!(
            out,
            "<line x1=\"{from}\" x2=\"{to}\" y1=\"16\" y2=\"16\" stroke=\"{colour}\" \
             stroke-width=\"3\"/><text x=\"{at}\" y=\"20\">{name}</text>"
        );
        // A letter is some seven units wide.
        x += 44.0 + 7.0 * line.name.chars().count() as f64;
    }
    let mut x = PANELS[1].0 + 130.0;
    for (name, _, dashes) in PERCENTILES {
        let (to, at) = (x + 26.0, x + 30.0);
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{to}\" y1=\"40\" y2=\"40\" stroke=\"#555\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{at}\" y=\"44\">{name}</text>"
        );
        x += 60.0;
    }
}

fn throughput(out: &mut String, clients: &[u64], lines: &[Line<'_>], scale: Scale) {
    let panel = PANELS[0];
    axes(out, panel, clients, &scale, "transactions a second");
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |it: &(usize, &Figures)| place(panel, clients.len(), it.0);
        for it in &line.points {
            let (x, spread) = (at(it), it.1.per_second);
            let (low, high) = (scale.y(spread.least), scale.y(spread.most));
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" \
                 stroke=\"{colour}\" stroke-width=\"1\"/>"
            );
        }
        let points = line.points.iter().map(|it| (at(it), scale.y(it.1.per_second.median)));
        path(out, points.collect(), colour, "none");
    }
}

fn latency(out: &mut String, clients: &[u64], lines: &[Line<'_>], scale: Scale) {
    let panel = PANELS[1];
    axes(out, panel, clients, &scale, "latency (us)");
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        for (_, which, dashes) in PERCENTILES {
            let point = |it: &(usize, &Figures)| {
                (place(panel, clients.len(), it.0), scale.y(it.1.latency[which]))
            };
            path(out, line.points.iter().map(point).collect(), colour, dashes);
        }
    }
}

/// A line through points, which are marked.
fn path(out: &mut String, points: Vec<(f64, f64)>, colour: &str, dashes: &str) {
    let text: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        out,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dashes}\" points=\"{}\"/>",
        text.join(" ")
    );
    for (x, y) in points {
        let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
}

fn axes(out: &mut String, (left, right): (f64, f64), clients: &[u64], scale: &Scale, name: &str) {
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
    for (at, count) in clients.iter().enumerate() {
        let (x, y) = (place((left, right), clients.len(), at), BOTTOM + 18.0);
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{count}</text>");
    }
    let (x, y) = (f64::midpoint(left, right), BOTTOM + 36.0);
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">clients</text>");
}

/// Where the clients with this place stand.
fn place((left, right): (f64, f64), count: usize, at: usize) -> f64 {
    left + (right - left) * (at as f64 + 0.5) / count.max(1) as f64
}

/// From values to heights.
struct Scale {
    ticks: Vec<f64>,
    from: f64,
    to: f64,
    form: fn(f64) -> f64,
}

impl Scale {
    /// From zero to `most`, in four to eight steps of 1, 2 or 5 times a power of ten.
    fn linear(most: f64) -> Scale {
        let most = if most > 0.0 { most } else { 1.0 };
        let power = 10_f64.powf((most / 8.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
        let step = steps.into_iter().find(|it| most / it <= 8.0).unwrap_or(power * 10.0);
        let count = (most / step).ceil() as usize;
        let ticks: Vec<f64> = (0..=count).map(|it| it as f64 * step).collect();
        Scale { to: count as f64 * step, from: 0.0, ticks, form: |it| it }
    }

    /// Whole decades around both.
    fn decades(least: f64, most: f64) -> Scale {
        let (low, high) = (least.max(1.0).log10().floor(), most.max(1.0).log10().ceil());
        let high = high.max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|it| 10_f64.powi(it)).collect();
        Scale { ticks, from: low, to: high, form: |it| it.max(1.0).log10() }
    }

    fn y(&self, value: f64) -> f64 {
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figures::tests::sample;

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

    #[test]
    fn a_picture_has_a_line_for_everybody() {
        let figures = Figures::of(&[sample(1000, 1, 1, 10), sample(3000, 1, 1, 10)]);
        let line = |name| Line { name, points: vec![(0, &figures), (1, &figures)] };
        let text = svg("a < b", &[8, 32], &[line("Atoll & co"), line("PostgreSQL")]);
        // One of throughput and three of latency each.
        assert_eq!(text.matches("<polyline").count(), 8);
        assert_eq!(text.matches("<circle").count(), 16);
        assert!(text.contains("<title>a &lt; b</title>") && text.contains("Atoll &amp; co"));
        // The median, 2000 of 3000, at both numbers of clients.
        assert!(text.contains("145.0,135.0 295.0,135.0"), "{text}");
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"));
    }
}
