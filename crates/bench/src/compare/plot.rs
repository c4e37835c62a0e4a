//! One workload as a picture: throughput and latency percentiles against clients, as SVG.
//!
//! Invariants: numbers of clients stand equally far apart, in the order given; throughput begins at
//! zero, and a bar spans its rounds; latency is logarithmic.

use std::fmt::Write;

use super::figures::Figures;
use crate::picture::{COLOURS, PANELS, Scale, axes, begin, legend, path, place, spread};

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
    let mut out = begin(title);
    legend(&mut out, lines.iter().map(|line| line.name));
    percentiles(&mut out);
    let figures = || lines.iter().flat_map(|line| line.points.iter().map(|it| it.1));
    let most = figures().map(|it| it.per_second.most).fold(0.0, f64::max);
    throughput(&mut out, clients, lines, Scale::linear(most));
    let latencies = || figures().flat_map(|it| it.latency[1..].iter().copied());
    let least = latencies().fold(f64::INFINITY, f64::min);
    latency(&mut out, clients, lines, Scale::decades(least, latencies().fold(0.0, f64::max)));
    out.push_str("</svg>\n");
    out
}

/// Which dashes are which.
fn percentiles(out: &mut String) {
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

fn labels(clients: &[u64]) -> Vec<String> {
    clients.iter().map(u64::to_string).collect()
}

fn throughput(out: &mut String, clients: &[u64], lines: &[Line<'_>], scale: Scale) {
    let panel = PANELS[0];
    axes(out, panel, (&labels(clients), "clients"), &scale, "transactions a second");
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |it: &(usize, &Figures)| place(panel, clients.len(), it.0);
        for it in &line.points {
            spread(out, at(it), it.1.per_second, &scale, colour);
        }
        let points = line.points.iter().map(|it| (at(it), scale.y(it.1.per_second.median)));
        path(out, points.collect(), colour, "none");
    }
}

fn latency(out: &mut String, clients: &[u64], lines: &[Line<'_>], scale: Scale) {
    let panel = PANELS[1];
    axes(out, panel, (&labels(clients), "clients"), &scale, "latency (us)");
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        for (_, which, dashes) in PERCENTILES {
            let point = |it: &(usize, &Figures)| {
                (place(panel, clients.len(), it.0), scale.y(it.1.latency[which]))
            };
            path(out, line.points.iter().map(point).collect(), colour, dashes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figures::tests::sample;

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
