//! What a machine can do decides how long a run takes, not how it ends.

mod common;

use common::{TestDir, checkpoints, without_timings};
use hindsight::checkpoint::Checkpoint;

/// The widths of the paper's network, for which the wide kernels are made. Where a machine has no AVX-512,
/// both runs are the same one.
#[test]
fn avx512_and_avx2_give_the_same_bits() {
    let place = TestDir::new();
    let run = |folder: &str, method: &str, avx512: &str| {
        let settings = "-b permuted-digits -s tasks=3 -s samples=40 -s hal.anchor_steps=5 --seeds 1";
        let args = format!("run {settings} -m {method} --checkpoint-every 5 --out {folder}");
        let status = place.command(&args).env("HINDSIGHT_AVX512", avx512).output().unwrap().status;
        assert!(status.success(), "{method}");
        let last = checkpoints(&place.path(folder)).pop().unwrap().1;
        (without_timings(place.lines(&format!("{folder}/records.jsonl"))), Checkpoint::read(&last).unwrap())
    };
    for method in ["finetune", "ewc", "a-gem", "mer", "mir", "hal", "icarl"] {
        let wide = run(&format!("wide-{method}"), method, "on");
        let narrow = run(&format!("narrow-{method}"), method, "off");
        assert_eq!(wide.0, narrow.0, "{method}");
        assert!(wide.1.same_state(&narrow.1), "{method}: the learner differs");
    }
}
