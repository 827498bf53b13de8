//! Shapes on a sheet. Figures are drawn once, here; a sheet is then written as SVG or painted as PNG.

use std::fmt::Write;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{palette::ThemeColor, raster};
use crate::escape::escape_xml;

/// Shapes in drawing order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<DrawnShape>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DrawnShape {
    /// A line through points, or the area within.
    Path {
        points: Vec<[f64; 2]>,
        closed: bool,
        pen: Pen,
        tip: Option<String>,
    },
    Circle {
        at: [f64; 2],
        radius: f64,
        pen: Pen,
        tip: Option<String>,
    },
    Text {
        at: [f64; 2],
        text: String,
        font: Font,
    },
    /// Pixels as they are, grey or in colour.
    RasterImage {
        at: [f64; 2],
        size: [f64; 2],
        image: RasterImage,
    },
    /// The line of a chart with this number begins; a page may switch it on and off.
    LineStart {
        number: usize,
        on: bool,
    },
    LineEnd,
}

/// How a shape is filled and outlined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pen {
    pub(super) fill: Option<ThemeColor>,
    pub(super) opacity: f64,
    pub(super) stroke: Option<ThemeColor>,
    pub(super) width: f64,
    pub(super) dash: &'static [f64],
    /// Without anti-aliasing, so that adjacent cells show no seams.
    pub(super) crisp: bool,
}

impl Pen {
    pub(super) fn fill(ink: ThemeColor) -> Pen {
        Pen { fill: Some(ink), opacity: 1.0, stroke: None, width: 0.0, dash: &[], crisp: false }
    }

    pub(super) fn stroke(ink: ThemeColor, width: f64) -> Pen {
        Pen { fill: None, opacity: 1.0, stroke: Some(ink), width, dash: &[], crisp: false }
    }

    pub(super) fn dashed(self, dash: &'static [f64]) -> Pen {
        Pen { dash, ..self }
    }

    pub(super) fn opacity(self, opacity: f64) -> Pen {
        Pen { opacity, ..self }
    }

    pub(super) fn crisp(self) -> Pen {
        Pen { crisp: true, ..self }
    }

    pub(super) fn outlined(self, ink: ThemeColor, width: f64) -> Pen {
        Pen { stroke: Some(ink), width, ..self }
    }
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Font {
    pub(super) size: f64,
    pub(super) medium: bool,
    pub(super) align: Align,
    pub(super) ink: ThemeColor,
}

impl Font {
    pub(super) const fn new(size: f64, align: Align) -> Font {
        Font { size, medium: false, align, ink: ThemeColor::Text }
    }

    pub(super) const fn ink(self, ink: ThemeColor) -> Font {
        Font { ink, ..self }
    }

    pub(super) const fn medium(self) -> Font {
        Font { medium: true, ..self }
    }
}

/// RGBA, not premultiplied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RasterImage {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) rgba: Vec<u8>,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, shapes: Vec::new() }
    }

    pub(super) fn line(&mut self, from: [f64; 2], to: [f64; 2], pen: Pen) {
        self.path(vec![from, to], false, pen);
    }

    pub(super) fn path(&mut self, points: Vec<[f64; 2]>, closed: bool, pen: Pen) {
        self.shapes.push(DrawnShape::Path { points, closed, pen, tip: None });
    }

    pub(super) fn rect(&mut self, [x, y]: [f64; 2], [w, h]: [f64; 2], pen: Pen, tip: Option<String>) {
        let points = vec![[x, y], [x + w, y], [x + w, y + h], [x, y + h]];
        self.shapes.push(DrawnShape::Path { points, closed: true, pen, tip });
    }

    pub(super) fn dot(&mut self, at: [f64; 2], radius: f64, pen: Pen, tip: Option<String>) {
        self.shapes.push(DrawnShape::Circle { at, radius, pen, tip });
    }

    pub(super) fn text(&mut self, at: [f64; 2], text: impl Into<String>, font: Font) {
        self.shapes.push(DrawnShape::Text { at, text: text.into(), font });
    }

    /// The figure as a self-contained SVG.
    ///
    /// Every colour is given twice: as an attribute, which is what a viewer of the file sees, and as a class,
    /// by which a page may choose others for a dark background.
    pub(super) fn svg(&self, label: &str) -> String {
        let (w, h) = (number(self.width), number(self.height));
        let label = escape_xml(label);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
             role=\"img\" aria-label=\"{label}\" font-family=\"Roboto, Helvetica, Arial, sans-serif\">\n"
        );
        let _ = writeln!(
            svg,
            "<rect width=\"{w}\" height=\"{h}\"{}/>",
            attributes(&Pen::fill(ThemeColor::Paper))
        );
        for shape in &self.shapes {
            self.element(&mut svg, shape);
        }
        svg + "</svg>\n"
    }

    fn element(&self, svg: &mut String, shape: &DrawnShape) {
        let (start, end, tip) = match shape {
            DrawnShape::Path { points, closed, pen, tip } => {
                if let Some([x, y, w, h]) = rectangle(points, *closed) {
                    let start =
                        format!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"{}", attributes(pen));
                    return finish(svg, &start, "</rect>", tip);
                }
                let mut d = String::new();
                for (i, [x, y]) in points.iter().enumerate() {
                    let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { "L" }, number(*x), number(*y));
                }
                let close = if *closed { "Z" } else { "" };
                (format!("<path d=\"{d}{close}\"{}", attributes(pen)), "</path>", tip)
            }
            DrawnShape::Circle { at, radius, pen, tip } => {
                let [x, y] = at.map(number);
                let r = number(*radius);
                (format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"{}", attributes(pen)), "</circle>", tip)
            }
            DrawnShape::Text { at, text, font } => {
                let [x, y] = at.map(number);
                let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"", number(font.size));
                let anchor = match font.align {
                    Align::Start => "",
                    Align::Middle => " text-anchor=\"middle\"",
                    Align::End => " text-anchor=\"end\"",
                };
                let weight = if font.medium { " font-weight=\"500\"" } else { "" };
                let ink = attributes(&Pen::fill(font.ink));
                let _ = writeln!(svg, "{anchor}{weight}{ink}>{}</text>", escape_xml(text));
                return;
            }
            DrawnShape::LineStart { number, on } => {
                let off = if *on { "" } else { " off" };
                let _ = writeln!(svg, "<g class=\"line{off}\" data-line=\"{number}\">");
                return;
            }
            DrawnShape::LineEnd => {
                *svg += "</g>\n";
                return;
            }
            DrawnShape::RasterImage { at, size, image } => {
                let ([x, y], [w, h]) = (at.map(number), size.map(number));
                let data = BASE64_STANDARD.encode(raster::encode(image));
                let _ = writeln!(
                    svg,
                    "<image x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" style=\"image-rendering:pixelated\" \
                     href=\"data:image/png;base64,{data}\"/>"
                );
                return;
            }
        };
        finish(svg, &start, end, tip);
    }
}

fn finish(svg: &mut String, start: &str, end: &str, tip: &Option<String>) {
    let _ = match tip {
        None => writeln!(svg, "{start}/>"),
        Some(tip) => writeln!(svg, "{start}><title>{}</title>{end}", escape_xml(tip)),
    };
}

/// Left, top, width and height of what [`Canvas::rect`] made: half as long as a path.
fn rectangle(points: &[[f64; 2]], closed: bool) -> Option<[String; 4]> {
    let &[[left, top], [right, above], [edge, bottom], [first, last]] = points else { return None };
    let is = closed && top == above && right == edge && bottom == last && left == first;
    is.then(|| [left, top, right - left, bottom - top].map(number))
}

fn attributes(pen: &Pen) -> String {
    let (fill, stroke) = (pen.fill.map(|ink| ("fill", ink)), pen.stroke.map(|ink| ("stroke", ink)));
    let mut text = if fill.is_none() { " fill=\"none\"".to_owned() } else { String::new() };
    for (what, ink) in [fill, stroke].into_iter().flatten() {
        let _ = write!(text, " {what}=\"{}\"", ink.hex());
    }
    let classes: Vec<String> =
        [fill, stroke].into_iter().flatten().filter_map(|(what, ink)| ink.class(what)).collect();
    if !classes.is_empty() {
        let _ = write!(text, " class=\"{}\"", classes.join(" "));
    }
    if pen.opacity < 1.0 {
        let what = if fill.is_some() { "fill" } else { "stroke" };
        let _ = write!(text, " {what}-opacity=\"{}\"", number(pen.opacity));
    }
    if stroke.is_some() {
        let _ = write!(text, " stroke-width=\"{}\" stroke-linejoin=\"round\"", number(pen.width));
    }
    if pen.crisp {
        text += " shape-rendering=\"crispEdges\"";
    }
    if !pen.dash.is_empty() {
        let dash: Vec<String> = pen.dash.iter().map(|&d| number(d)).collect();
        let _ = write!(text, " stroke-dasharray=\"{}\"", dash.join(" "));
    }
    text
}

/// Rounded to a hundredth.
fn number(x: f64) -> String {
    let text = format!("{:.2}", if x.is_finite() { x } else { 0.0 });
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Width of a text in the bundled font; other fonts are about as wide.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    raster::advance(text, size, false) * 1.03
}

/// The text, truncated to a width.
pub(super) fn fitted(text: &str, size: f64, width: f64) -> String {
    if width_of(text, size) <= width {
        return text.to_owned();
    }
    let room = width - width_of("…", size);
    let mut used = 0.0;
    let kept = text.char_indices().take_while(|(_, c)| {
        used += width_of(c.encode_utf8(&mut [0; 4]), size);
        used <= room
    });
    let end = kept.last().map_or(0, |(at, c)| at + c.len_utf8());
    text[..end].trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_a_width_however_long_they_are() {
        assert_eq!(fitted("short", 12.0, 100.0), "short");
        assert_eq!(fitted("", 12.0, 0.0), "");
        assert_eq!(fitted("ä long label", 12.0, 0.0), "…");
        let long = "a ünusual label ".repeat(200_000);
        let cut = fitted(&long, 12.0, 100.0);
        assert!(cut.starts_with("a ünusual") && cut.ends_with('…'), "{cut}");
        assert!((60.0..=100.0).contains(&width_of(&cut, 12.0)), "{}", width_of(&cut, 12.0));
    }
}
