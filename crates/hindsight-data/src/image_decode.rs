//! JPEG and PNG to pixels, within limits on what an image may take.

use std::{io, sync::Mutex};

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, imageops};

/// An image may not have more pixels than this.
const MAX_PIXELS: u64 = 64 << 20;

/// Neither side may be longer than this: while an image is resized, every pixel of its width stands for a
/// column of the new height, with 16 bytes a pixel.
const MAX_SIDE: u32 = 16_384;

/// An image with more pixels than this is decoded alone: on every core at once they would take gigabytes.
const LARGE: u64 = 8 << 20;

/// Decodes an image into `out`: red, then green, then blue, each `size` x `size`.
pub(crate) fn decode_rgb(bytes: &[u8], size: usize, out: &mut [u8]) -> Result<(), String> {
    static TURN: Mutex<()> = Mutex::new(());
    let header = ImageReader::new(io::Cursor::new(bytes)).with_guessed_format().ok();
    let pixels =
        header.and_then(|header| header.into_dimensions().ok()).map(|(w, h)| u64::from(w) * u64::from(h));
    let _turn = pixels.is_some_and(|pixels| pixels > LARGE).then(|| TURN.lock());
    let image = decode_bytes(bytes)?.into_rgb8();
    let side = size as u32;
    let image = match image.dimensions() {
        (width, height) if (width, height) == (side, side) => image,
        // Widens with the factor of reduction, so that every pixel of the original counts.
        _ => imageops::resize(&image, side, side, imageops::FilterType::Triangle),
    };
    let plane = size * size;
    for (i, pixel) in image.pixels().enumerate() {
        for (channel, value) in pixel.0.into_iter().enumerate() {
            out[channel * plane + i] = value;
        }
    }
    Ok(())
}

pub(crate) fn decode_bytes(bytes: &[u8]) -> Result<DynamicImage, String> {
    if bytes.is_empty() {
        return Err("the file is empty".into());
    }
    let tell = |error: image::ImageError| error.to_string();
    // Names lie, so the content tells what it is.
    let mut reader =
        ImageReader::new(io::Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    let format = reader.format().ok_or("neither JPEG nor PNG")?;
    let mut limits = Limits::default();
    // As much as the largest image takes with 16 bits for each of four channels.
    limits.max_alloc = Some(8 * MAX_PIXELS);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(tell)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 || pixels > MAX_PIXELS {
        return Err(format!("found {width}x{height} pixels, expected 1 to {MAX_PIXELS}"));
    }
    if width.max(height) > MAX_SIDE {
        return Err(format!("found {width}x{height} pixels, expected at most {MAX_SIDE} on a side"));
    }
    // The decoder fills in what is missing with grey.
    if format == ImageFormat::Jpeg && !has_end(bytes) {
        return Err("the file ends early".into());
    }
    DynamicImage::from_decoder(decoder).map_err(tell)
}

/// Whether a JPEG has its end marker. Compressed data never looks like a marker, and a thumbnail, which has
/// an end of its own, comes before the start of the last scan.
fn has_end(jpeg: &[u8]) -> bool {
    let marker = |code: u8| move |pair: &[u8]| pair == [0xff, code];
    let last_scan = jpeg.windows(2).rposition(marker(0xda)).unwrap_or(0);
    jpeg[last_scan..].windows(2).any(marker(0xd9))
}
