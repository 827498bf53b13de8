//! A sheet as PNG, at twice its size, with a bundled font: it looks the same on a machine without any.

use std::sync::OnceLock;

use tiny_skia::{
    Color, FillRule, FilterQuality, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PixmapPaint, Stroke,
    StrokeDash, Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::{
    canvas::{Align, Canvas, DrawnShape, Font, Pen, RasterImage},
    palette::ThemeColor,
};

/// Pixels per unit.
const SCALE: f32 = 2.0;

static REGULAR: &[u8] = include_bytes!("../../assets/Roboto-Regular.ttf");
static MEDIUM: &[u8] = include_bytes!("../../assets/Roboto-Medium.ttf");

fn face(medium: bool) -> &'static Face<'static> {
    static FACES: OnceLock<[Face<'static>; 2]> = OnceLock::new();
    let parse = |bytes| Face::parse(bytes, 0).expect("the bundled fonts are sound");
    &FACES.get_or_init(|| [parse(REGULAR), parse(MEDIUM)])[usize::from(medium)]
}

/// Width of a text.
pub(super) fn advance(text: &str, size: f64, medium: bool) -> f64 {
    let face = face(medium);
    let units: u64 = text.chars().map(|c| u64::from(advance_of(face, glyph(face, c)))).sum();
    units as f64 * size / f64::from(face.units_per_em())
}

fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).unwrap_or_default()
}

fn advance_of(face: &Face<'_>, glyph: GlyphId) -> u16 {
    face.glyph_hor_advance(glyph).unwrap_or_default()
}

/// The canvas as PNG.
pub(super) fn png(canvas: &Canvas) -> Vec<u8> {
    let size = |x: f64| (x as f32 * SCALE).round().clamp(1.0, 16_384.0) as u32;
    let mut pixmap = Pixmap::new(size(canvas.width), size(canvas.height)).expect("the size is not zero");
    pixmap.fill(colour(ThemeColor::Paper, 1.0));
    for shape in &canvas.shapes {
        match shape {
            DrawnShape::Path { points, closed, pen, .. } => {
                let mut path = PathBuilder::new();
                for (i, [x, y]) in points.iter().enumerate() {
                    if i == 0 {
                        path.move_to(*x as f32, *y as f32)
                    } else {
                        path.line_to(*x as f32, *y as f32)
                    }
                }
                if *closed {
                    path.close();
                }
                draw(&mut pixmap, path.finish(), pen);
            }
            DrawnShape::Circle { at: [x, y], radius, pen, .. } => {
                draw(&mut pixmap, PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32), pen);
            }
            DrawnShape::LineStart { .. } | DrawnShape::LineEnd => {}
            DrawnShape::Text { at, text, font } => {
                draw(&mut pixmap, outline(*at, text, font), &Pen::fill(font.ink));
            }
            DrawnShape::RasterImage { at, size, image } => {
                let Some(from) = pixels(image) else { continue };
                let scale = |size: f64, pixels: u32| size as f32 / pixels as f32 * SCALE;
                let transform = Transform::from_row(
                    scale(size[0], image.width),
                    0.0,
                    0.0,
                    scale(size[1], image.height),
                    at[0] as f32 * SCALE,
                    at[1] as f32 * SCALE,
                );
                let paint = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
                pixmap.draw_pixmap(0, 0, from.as_ref(), &paint, transform, None);
            }
        }
    }
    pixmap.encode_png().expect("pixels in memory can be encoded")
}

/// An image as PNG.
pub(super) fn encode(image: &RasterImage) -> Vec<u8> {
    pixels(image).and_then(|pixmap| pixmap.encode_png().ok()).unwrap_or_default()
}

fn pixels(image: &RasterImage) -> Option<Pixmap> {
    let mut pixmap = Pixmap::new(image.width, image.height)?;
    for (to, from) in pixmap.pixels_mut().iter_mut().zip(image.rgba.chunks_exact(4)) {
        *to = tiny_skia::ColorU8::from_rgba(from[0], from[1], from[2], from[3]).premultiply();
    }
    Some(pixmap)
}

fn draw(pixmap: &mut Pixmap, path: Option<Path>, pen: &Pen) {
    let Some(path) = path else { return };
    let transform = Transform::from_scale(SCALE, SCALE);
    let mut paint = Paint { anti_alias: !pen.crisp, ..Paint::default() };
    if let Some(ink) = pen.fill {
        paint.set_color(colour(ink, pen.opacity));
        pixmap.fill_path(&path, &paint, FillRule::Winding, transform, None);
    }
    if let Some(ink) = pen.stroke {
        paint.set_color(colour(ink, if pen.fill.is_some() { 1.0 } else { pen.opacity }));
        let stroke = Stroke {
            width: pen.width as f32,
            line_cap: LineCap::Butt,
            line_join: LineJoin::Round,
            dash: StrokeDash::new(pen.dash.iter().map(|&d| d as f32).collect(), 0.0),
            ..Stroke::default()
        };
        pixmap.stroke_path(&path, &paint, &stroke, transform, None);
    }
}

fn colour(color: ThemeColor, opacity: f64) -> Color {
    let [r, g, b] = color.rgb();
    Color::from_rgba8(r, g, b, (255.0 * opacity).round() as u8)
}

/// The outlines of a text's glyphs.
fn outline(at: [f64; 2], text: &str, font: &Font) -> Option<Path> {
    let face = face(font.medium);
    let length = advance(text, font.size, font.medium);
    let shift = match font.align {
        Align::Start => 0.0,
        Align::Middle => -length / 2.0,
        Align::End => -length,
    };
    let scale = font.size / f64::from(face.units_per_em());
    let mut pen = Glyphs { path: PathBuilder::new(), at, x: shift, scale };
    for c in text.chars() {
        let id = glyph(face, c);
        face.outline_glyph(id, &mut pen);
        pen.x += f64::from(advance_of(face, id)) * scale;
    }
    pen.path.finish()
}

struct Glyphs {
    path: PathBuilder,
    at: [f64; 2],
    /// Distance from the start along the line.
    x: f64,
    scale: f64,
}

impl Glyphs {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let (along, up) = (self.x + f64::from(x) * self.scale, f64::from(y) * self.scale);
        ((self.at[0] + along) as f32, (self.at[1] - up) as f32)
    }
}

impl OutlineBuilder for Glyphs {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
