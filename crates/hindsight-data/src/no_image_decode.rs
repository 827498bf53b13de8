//! In place of `image_decode.rs` in builds without the feature `images`.

pub(crate) fn decode_rgb(_: &[u8], _: usize, _: &mut [u8]) -> Result<(), String> {
    Err("this build of hindsight-data has no image decoder: enable its feature `images`".to_owned())
}
