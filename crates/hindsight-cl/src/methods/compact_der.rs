//! Compact DER++: our own, DER++ made to get the most out of few bytes.
//!
//! - *Paper*: none; docs/frontier.md has its parts, each left out in turn. DER++ is of Buzzega et al., 2020.
//! - *Idea*: a memory in 8 bits holds four times as many samples for the same bytes; several updates per
//!   batch, each with samples of its own, make use of them; batch-norm answers with the statistics of the
//!   memory, which has all tasks, not with those of the latest batches.
//! - *Update rule*: that of DER++, `updates` times per batch of the stream.
//! - *Hyper-parameters*: those of DER++, the updates, the precision and the statistics.
//! - *Deviations*: with `precision = "f32"`, one update and `statistics = "running"` it is DER++.

use super::{
    AVERAGE, MEMORY_RESERVOIR, Method, RATE, Setup,
    der::{BETA, DER_PP},
    statistics, updates,
};
use crate::settings::{Choice, Key, Kind, Precision, SharedSettings, Value};

pub(super) const METHOD: Method = Method {
    name: "compact-der",
    title: "Compact DER++",
    summary: "DER++ with samples in 8 bits, several updates per batch, and statistics of the memory",
    paper: "our own (docs/frontier.md), after Buzzega et al., 2020",
    keys: &[
        RATE,
        Key::new(
            "alpha",
            Kind::Float(0.0, 1e6),
            Value::Float(0.3),
            "weight of the distance from the stored logits",
        ),
        BETA,
        PRECISION,
        MEMORY_RESERVOIR,
        AVERAGE,
        statistics("memory"),
        // A residual network learns the few samples of a small memory by heart sooner.
        updates([3, 1, 1]),
    ],
    cost: 3.0,
    bytes: |setup| (DER_PP.bytes)(&compact(setup)),
    build: |setup| (DER_PP.build)(&compact(setup)),
    ..DER_PP
};

const PRECISION: Key = Key::new(
    "precision",
    Kind::Choice(Precision::WORDS),
    Value::text("u8"),
    "values of samples in memory, in place of `memory_precision`: in 8 bits, or as they are",
);

fn compact<'a>(setup: &Setup<'a>) -> Setup<'a> {
    let memory_precision = setup.method_settings.choice(PRECISION.name);
    Setup { shared: SharedSettings { memory_precision, ..setup.shared.clone() }, ..setup.clone() }
}
