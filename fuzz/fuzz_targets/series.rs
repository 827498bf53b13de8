#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hindsight_fuzz::readers::series(bytes);
});
