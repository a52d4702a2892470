//! A figure over time as a drawing, and the same in words.

use maud::{Markup, html};

use super::moment;

/// The drawing's size, in its own units.
const WIDTH: u64 = 600;
const HEIGHT: u64 = 120;
/// So much of it is left for the line; the rest is for what is written below.
const DRAWN: u64 = 96;

/// A figure over time.
pub(super) struct Plot<'a> {
    /// What it is: `CPU`.
    pub(super) name: &'a str,
    /// Times in milliseconds since the epoch, oldest first, with the figure.
    pub(super) points: Vec<(u64, u64)>,
    /// How a figure is written.
    pub(super) written: fn(u64) -> String,
}

impl Plot<'_> {
    pub(super) fn drawn(&self) -> Markup {
        let (Some((first, _)), Some((last, now))) = (self.points.first(), self.points.last())
        else {
            return html! {};
        };
        let most = self
            .points
            .iter()
            .map(|(_, figure)| *figure)
            .max()
            .unwrap_or(0);
        let sum: u64 = self.points.iter().map(|(_, figure)| *figure).sum();
        let mean = sum / self.points.len() as u64;
        let told = format!(
            "{}: {} at last, {} on average, {} at most, in {}.",
            self.name,
            (self.written)(*now),
            (self.written)(mean),
            (self.written)(most),
            moment::long(last - first)
        );
        html! {
            figure.plot {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(told) {
                    line class="axis" x1="0" y1=(DRAWN) x2=(WIDTH) y2=(DRAWN) {}
                    line class="axis" x1="0" y1="1" x2=(WIDTH) y2="1" {}
                    polyline points=(self.line((*first, *last), most)) {}
                    text x="2" y="13" { ((self.written)(most)) }
                    text x="2" y=(HEIGHT - 8) { (moment::stamp(*first)) }
                    text.end x=(WIDTH - 2) y=(HEIGHT - 8) { (moment::stamp(*last)) }
                }
                figcaption { (told) }
            }
        }
    }

    fn line(&self, (first, last): (u64, u64), most: u64) -> String {
        let (whole, most) = ((last - first).max(1), most.max(1));
        let place = |(at, figure): &(u64, u64)| {
            let x = at.saturating_sub(first) * WIDTH / whole;
            let y = DRAWN - figure * (DRAWN - 1) / most;
            format!("{x},{y}")
        };
        let places: Vec<_> = self.points.iter().map(place).collect();
        places.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_drawn_and_told() {
        let plot = |points: &[(u64, u64)]| {
            let plot = Plot {
                name: "CPU",
                points: points.to_vec(),
                written: |milli| format!("{milli} m"),
            };
            plot.drawn().into_string()
        };
        let drawn = plot(&[(0, 0), (50_000, 200), (100_000, 100)]);
        assert!(drawn.contains("points=\"0,96 300,1 600,49\""), "{drawn}");
        let told = "CPU: 100 m at last, 100 m on average, 200 m at most, in 1 min 40 s.";
        assert_eq!(drawn.matches(told).count(), 2, "{drawn}");
        assert_eq!(plot(&[]), "");
        assert!(plot(&[(7, 0)]).contains("points=\"0,96\""));
    }
}
