//! What charts have in common: scales, ticks, a frame, lines with labels at their ends, bars.

use super::{
    canvas::{Align, Canvas, DrawnShape, Font, Pen, fitted, width_of},
    palette::{Style, ThemeColor},
};

pub(super) const WIDTH: f64 = 680.0;
/// Width of a chart without names at its right.
const SWITCHABLE: f64 = 560.0;
/// Width of the mark before a label.
const KEY: f64 = 11.0;
pub(super) const SMALL: Font = Font::new(12.0, Align::Middle).ink(ThemeColor::Muted);
pub(super) const LABEL: Font = Font::new(12.5, Align::Start);

/// A linear or logarithmic map from values to coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisScale {
    values: [f64; 2],
    places: [f64; 2],
    log: bool,
}

impl AxisScale {
    pub(super) fn linear(values: [f64; 2], places: [f64; 2]) -> AxisScale {
        AxisScale { values, places, log: false }
    }

    pub(super) fn log(values: [f64; 2], places: [f64; 2]) -> AxisScale {
        AxisScale { values: values.map(f64::ln), places, log: true }
    }

    /// The coordinate of a value, clamped to the scale.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.ln() } else { value };
        let [low, high] = self.values;
        let part = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
        self.places[0] + part * (self.places[1] - self.places[0])
    }
}

/// Round numbers that cover `low..high` in about `count` steps.
pub(super) fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (low, high) = if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) };
    // Their distance has to be finite too.
    let [low, high] = [low, high].map(|end| end.clamp(-1e300, 1e300));
    let least = 1e-9 * high.abs().max(1.0);
    let span = if high - low > least { high - low } else { least.max(1.0) };
    let rough = span / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let (first, last) = ((low / step + 1e-9).floor(), ((low + span) / step - 1e-9).ceil());
    // From the step's multiple, not by adding up, which would drift.
    (0..=((last - first) as usize).min(50)).map(|i| (first + i as f64) * step).collect()
}

/// The label of a tick, given the distance to the next.
pub(super) fn tick_label(value: f64, step: f64) -> String {
    let digits = (-step.abs().log10()).ceil().clamp(0.0, 6.0) as usize;
    format!("{:.digits$}", if value.abs() < step.abs() * 1e-6 { 0.0 } else { value }).replace('-', "\u{2212}")
}

/// A setting's value in few digits.
pub(super) fn short(value: f64) -> String {
    format!("{value}").replace('-', "\u{2212}")
}

/// The plot area of a chart on the canvas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// Grid lines and labels of the vertical axis, with its title above it.
    pub(super) fn vertical(&self, canvas: &mut Canvas, scale: &AxisScale, ticks: &[f64], title: &str) {
        let step = if ticks.len() > 1 { ticks[1] - ticks[0] } else { 1.0 };
        for &tick in ticks {
            let y = scale.at(tick);
            canvas.line([self.left, y], [self.right, y], Pen::stroke(ThemeColor::Grid, 1.0));
            let font = Font { align: Align::End, ..SMALL };
            canvas.text([self.left - 8.0, y + 4.2], tick_label(tick, step), font);
        }
        let font = Font { align: Align::Start, ..SMALL };
        canvas.text([self.left - 34.0, self.top - 14.0], title, font);
    }

    /// PlotLine, labels and title of the horizontal axis.
    pub(super) fn horizontal(
        &self,
        canvas: &mut Canvas,
        scale: &AxisScale,
        ticks: &[(f64, String)],
        title: &str,
    ) {
        canvas.line([self.left, self.bottom], [self.right, self.bottom], Pen::stroke(ThemeColor::Muted, 1.0));
        let mut free = f64::NEG_INFINITY;
        for (value, label) in ticks {
            let (x, half) = (scale.at(*value), width_of(label, SMALL.size) / 2.0);
            canvas.line([x, self.bottom], [x, self.bottom + 4.0], Pen::stroke(ThemeColor::Muted, 1.0));
            // A label that would touch the last is left out; its tick stays.
            if x - half >= free {
                canvas.text([x, self.bottom + 18.0], label.clone(), SMALL);
                free = x + half + 6.0;
            }
        }
        canvas.text([(self.left + self.right) / 2.0, self.bottom + 38.0], title, SMALL);
    }
}

/// A line of a chart.
#[derive(Debug, Clone)]
pub(super) struct PlotLine {
    pub(super) label: String,
    pub(super) style: Style,
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    /// Mean and deviation; none where all runs diverged.
    pub(super) y: Option<(f64, f64)>,
    /// Some of its runs diverged.
    pub(super) hollow: bool,
    pub(super) tip: String,
}

/// A chart of lines.
pub(super) struct Chart<'a> {
    pub(super) x_title: &'a str,
    pub(super) y_title: &'a str,
    /// Ticks of the horizontal axis, which spans them.
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) log: bool,
    pub(super) markers: bool,
    /// Limit of the vertical axis.
    pub(super) limits: [f64; 2],
    /// What the horizontal axis spans, if not its ticks.
    pub(super) span: Option<[f64; 2]>,
    /// Height at least.
    pub(super) height: f64,
}

impl Chart<'static> {
    /// What most charts have.
    pub(super) const PLAIN: Chart<'static> = Chart {
        x_title: "",
        y_title: "",
        ticks: Vec::new(),
        log: false,
        markers: false,
        limits: [0.0, 100.0],
        span: None,
        height: 390.0,
    };
}

/// Where values are on a chart.
struct Axes {
    frame: Frame,
    x: AxisScale,
    y: AxisScale,
}

impl Chart<'_> {
    pub(super) fn draw(&self, lines: &[PlotLine]) -> Canvas {
        self.draw_over(lines, &[])
    }

    /// Draws the lines over a broad pale one.
    pub(super) fn draw_over(&self, lines: &[PlotLine], under: &[[f64; 2]]) -> Canvas {
        let widest = lines.iter().map(|line| width_of(&line.label, LABEL.size)).fold(40.0, f64::max);
        let margin = widest.min(210.0) + if self.markers { KEY } else { 0.0 };
        let height = (16.0 * lines.len() as f64 + 100.0).max(self.height);
        let mut canvas = Canvas::new(WIDTH, height);
        let axes = self.axes(&mut canvas, WIDTH - margin - 30.0, lines);
        if !under.is_empty() {
            let under = under.iter().map(|&[x, y]| [axes.x.at(x), axes.y.at(y)]);
            canvas.path(under.collect(), false, Pen::stroke(ThemeColor::Grid, 9.0));
        }
        // Many bands on top of each other would hide the lines.
        let shade = if lines.len() > 6 { 0.07 } else { 0.14 };
        lines.iter().for_each(|line| band(&mut canvas, &axes, line, shade));
        lines.iter().for_each(|line| self.line(&mut canvas, &axes, line));
        let ends = lines.iter().filter_map(|line| {
            let last = line.points.iter().rev().find(|point| point.y.is_some())?;
            Some((line, [axes.x.at(last.x), axes.y.at(last.y?.0)]))
        });
        end_labels(&mut canvas, &axes.frame, ends.collect(), margin, self.markers);
        canvas
    }

    /// For a page that names the lines beside it: those that are not `on` are there to be switched on.
    pub(super) fn draw_switchable(&self, lines: &[PlotLine], on: &[bool]) -> Canvas {
        let mut canvas = Canvas::new(SWITCHABLE, 400.0);
        let axes = self.axes(&mut canvas, SWITCHABLE - 14.0, lines);
        // Those that are on come last, over the others.
        let order = (0..lines.len()).filter(|i| !on[*i]).chain((0..lines.len()).filter(|i| on[*i]));
        for number in order {
            canvas.shapes.push(DrawnShape::LineStart { number, on: on[number] });
            band(&mut canvas, &axes, &lines[number], 0.14);
            self.line(&mut canvas, &axes, &lines[number]);
            canvas.shapes.push(DrawnShape::LineEnd);
        }
        canvas
    }

    fn axes(&self, canvas: &mut Canvas, right: f64, lines: &[PlotLine]) -> Axes {
        let frame = Frame { left: 48.0, top: 38.0, right, bottom: canvas.height - 52.0 };
        let values = lines.iter().flat_map(|line| &line.points).filter_map(|point| point.y);
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (mean, deviation)| {
                (low.min(mean - deviation), high.max(mean + deviation))
            });
        let [least, most] = self.limits;
        let y_ticks: Vec<f64> = ticks(low.max(least), high.min(most), (self.height / 78.0) as usize);
        let y = AxisScale::linear([y_ticks[0], y_ticks[y_ticks.len() - 1]], [frame.bottom, frame.top]);
        let ends = self.span.unwrap_or_else(|| [self.ticks[0].0, self.ticks[self.ticks.len() - 1].0]);
        let places = [frame.left + 10.0, frame.right - 6.0];
        let x = if self.log { AxisScale::log(ends, places) } else { AxisScale::linear(ends, places) };
        frame.vertical(canvas, &y, &y_ticks, self.y_title);
        frame.horizontal(canvas, &x, &self.ticks, self.x_title);
        Axes { frame, x, y }
    }

    fn line(&self, canvas: &mut Canvas, Axes { frame, x, y }: &Axes, line: &PlotLine) {
        let Style { ink, dash } = line.style;
        let known = line.points.iter().filter_map(|p| Some([x.at(p.x), y.at(p.y?.0)]));
        canvas.path(known.collect(), false, Pen::stroke(ink, 2.0).dashed(dash));
        for point in &line.points {
            match point.y {
                Some((mean, _)) => {
                    let (radius, pen) = match (self.markers, point.hollow) {
                        (_, true) => (4.0, Pen::fill(ThemeColor::Paper).outlined(ink, 1.6)),
                        (true, false) => (3.6, Pen::fill(ink)),
                        (false, false) if line.points.len() > 25 => (1.4, Pen::fill(ink)),
                        (false, false) => (2.2, Pen::fill(ink)),
                    };
                    let (at, tip) = ([x.at(point.x), y.at(mean)], Some(point.tip.clone()));
                    match self.markers {
                        true => marker(canvas, at, radius, line.style, pen, tip),
                        false => canvas.dot(at, radius, pen, tip),
                    }
                }
                None => cross(canvas, [x.at(point.x), frame.bottom - 8.0], ink),
            }
        }
    }
}

/// The band of one deviation to either side of a line. It ends where no deviation is known: a single run has
/// none, and a band that narrows to it would say that there is no doubt.
fn band(canvas: &mut Canvas, Axes { x, y, .. }: &Axes, line: &PlotLine, shade: f64) {
    let edges = |p: &Point| {
        let (mean, dev) = p.y.filter(|&(_, dev)| dev > 0.0)?;
        Some((x.at(p.x), y.at(mean - dev), y.at(mean + dev)))
    };
    for part in line.points.split(|p| p.y.is_some_and(|(_, dev)| dev == 0.0)) {
        let known: Vec<(f64, f64, f64)> = part.iter().filter_map(edges).collect();
        if known.iter().all(|(_, low, high)| low - high <= 0.5) {
            continue;
        }
        if let [(x, low, high)] = known[..] {
            canvas.line([x, low], [x, high], Pen::stroke(line.style.ink, 3.0).opacity(shade));
            continue;
        }
        let upper = known.iter().map(|&(x, _, high)| [x, high]);
        let lower = known.iter().rev().map(|&(x, low, _)| [x, low]);
        canvas.path(upper.chain(lower).collect(), true, Pen::fill(line.style.ink).opacity(shade));
    }
}

/// The mark of a point. Lines of one colour are dashed, which short ones do not show: these have squares.
fn marker(canvas: &mut Canvas, at: [f64; 2], radius: f64, style: Style, pen: Pen, tip: Option<String>) {
    match style.dash {
        [] => canvas.dot(at, radius, pen, tip),
        _ => canvas.rect(at.map(|place| place - 0.9 * radius), [1.8 * radius; 2], pen, tip),
    }
}

/// The mark of runs that all diverged.
fn cross(canvas: &mut Canvas, [x, y]: [f64; 2], ink: ThemeColor) {
    let d = 4.0;
    canvas.line([x - d, y - d], [x + d, y + d], Pen::stroke(ink, 1.8));
    canvas.line([x - d, y + d], [x + d, y - d], Pen::stroke(ink, 1.8));
}

/// Labels at the right, each as near to its line's end as the others permit.
fn end_labels(
    canvas: &mut Canvas,
    frame: &Frame,
    mut ends: Vec<(&PlotLine, [f64; 2])>,
    margin: f64,
    markers: bool,
) {
    const APART: f64 = 16.0;
    ends.sort_by(|a, b| a.1[1].total_cmp(&b.1[1]));
    let mut heights: Vec<f64> = ends.iter().map(|(_, [_, y])| *y).collect();
    // Pools of labels that touch are spread about their middle; merging continues until none touch.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &y in &heights {
        pools.push((y, 1));
        while let [.., (a, n), (b, m)] = pools[..] {
            if b - a >= APART * (n + m) as f64 / 2.0 {
                break;
            }
            pools.truncate(pools.len() - 2);
            pools.push(((a * n as f64 + b * m as f64) / (n + m) as f64, n + m));
        }
    }
    let mut i = 0;
    let mut free = frame.top - 10.0;
    for (middle, count) in pools {
        let first = (middle - APART * (count - 1) as f64 / 2.0).max(free);
        let last_first = frame.bottom - APART * (heights.len() - i - 1) as f64;
        for k in 0..count {
            heights[i] = first.min(last_first) + APART * k as f64;
            i += 1;
        }
        free = heights[i - 1] + APART;
    }
    for ((line, [x, y]), height) in ends.into_iter().zip(heights) {
        let at = frame.right + 16.0;
        // A line that ends early, as of runs that diverged, must not seem to continue.
        let early = frame.right - x > 30.0;
        let pen =
            Pen::stroke(line.style.ink, 1.0).opacity(0.55).dashed(if early { &[1.0, 3.0] } else { &[] });
        canvas.path(vec![[x + 5.0, y], [frame.right + 3.0, y], [at - 4.0, height]], false, pen);
        let font = LABEL.ink(line.style.ink).medium();
        let key = if markers { KEY } else { 0.0 };
        if markers {
            marker(canvas, [at + 3.0, height], 3.2, line.style, Pen::fill(line.style.ink), None);
        }
        canvas.text([at + key, height + 4.3], fitted(&line.label, LABEL.size, margin - key), font);
    }
}

/// A bar of a chart.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) ink: ThemeColor,
    /// Mean and deviation; none where there is nothing to show.
    pub(super) value: Option<(f64, f64)>,
    pub(super) text: String,
}

/// Horizontal bars with names at the left and numbers at the right.
pub(super) fn bars(bars: &[Bar], title: &str) -> Canvas {
    const ROW: f64 = 26.0;
    let widest =
        |of: fn(&Bar) -> &String| bars.iter().map(|bar| width_of(of(bar), LABEL.size)).fold(40.0, f64::max);
    let (names, numbers) = (widest(|bar| &bar.label).min(230.0), widest(|bar| &bar.text));
    let height = ROW * bars.len() as f64 + 68.0;
    let mut canvas = Canvas::new(WIDTH, height);
    let frame = Frame { left: names + 22.0, top: 12.0, right: WIDTH - 20.0 - numbers, bottom: height - 52.0 };
    let values = bars.iter().filter_map(|bar| bar.value);
    let (low, high) =
        values.fold((0.0f64, 0.0f64), |(low, high), (mean, d)| (low.min(mean - d), high.max(mean + d)));
    let low = if bars.iter().all(|bar| bar.value.is_none_or(|(mean, _)| mean >= 0.0)) { 0.0 } else { low };
    let marks = ticks(low, high, 5);
    let x = AxisScale::linear([marks[0], marks[marks.len() - 1]], [frame.left, frame.right]);
    let step = marks[1] - marks[0];
    for &mark in &marks {
        canvas.line([x.at(mark), frame.top], [x.at(mark), frame.bottom], Pen::stroke(ThemeColor::Grid, 1.0));
    }
    for (i, bar) in bars.iter().enumerate() {
        let y = frame.top + ROW * i as f64 + 4.0;
        let base = y + (ROW - 8.0) / 2.0 + 4.4;
        let name = Font { align: Align::End, ..LABEL };
        canvas.text([frame.left - 10.0, base], fitted(&bar.label, LABEL.size, names), name);
        let mut end = x.at(0.0);
        if let Some((mean, deviation)) = bar.value {
            let (from, to) = (x.at(mean.min(0.0)), x.at(mean.max(0.0)));
            let tip = Some(format!("{}: {}", bar.label, bar.text));
            canvas.rect([from, y], [(to - from).max(0.5), ROW - 8.0], Pen::fill(bar.ink), tip);
            end = to;
            if deviation > 0.0 {
                let (low, high) = (x.at(mean - deviation), x.at(mean + deviation));
                whisker(&mut canvas, [low, high], y + (ROW - 8.0) / 2.0, ThemeColor::Text);
                end = end.max(high);
            }
        }
        // Guides stop short of the words.
        let clear = [width_of(&bar.text, LABEL.size) + 6.0, ROW - 8.0];
        canvas.rect([end + 5.0, y], clear, Pen::fill(ThemeColor::Paper), None);
        canvas.text([end + 8.0, base], bar.text.clone(), LABEL.ink(ThemeColor::Muted));
    }
    canvas.line([x.at(0.0), frame.top], [x.at(0.0), frame.bottom], Pen::stroke(ThemeColor::Muted, 1.0));
    let marks: Vec<_> = marks.iter().map(|&mark| (mark, tick_label(mark, step))).collect();
    frame.horizontal(&mut canvas, &x, &marks, title);
    canvas
}

/// A horizontal interval with its ends marked.
pub(super) fn whisker(canvas: &mut Canvas, [low, high]: [f64; 2], y: f64, ink: ThemeColor) {
    let pen = Pen::stroke(ink, 1.2);
    canvas.line([low, y], [high, y], pen);
    for x in [low, high] {
        canvas.line([x, y - 3.5], [x, y + 3.5], pen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_round_and_cover_the_range() {
        assert_eq!(ticks(52.3, 78.9, 5), [50.0, 60.0, 70.0, 80.0]);
        assert_eq!(ticks(0.0, 0.31, 5), [0.0, 0.1, 0.2, 0.30000000000000004, 0.4]);
        for (low, high) in
            [(3.0, 3.0), (0.0, 0.0), (f64::NAN, 1.0), (f64::MIN, f64::MAX), (1e17, 1e17), (1e-12, 2e-12)]
        {
            let ticks = ticks(low, high, 5);
            assert!(ticks.len() >= 2 && ticks.len() <= 51 && ticks.is_sorted(), "{low}..{high}: {ticks:?}");
        }
        assert_eq!(tick_label(0.30000000000000004, 0.1), "0.3");
        assert_eq!(tick_label(-20.0, 10.0), "\u{2212}20");
    }
}
