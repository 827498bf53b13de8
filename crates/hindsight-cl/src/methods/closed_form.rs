//! What methods without a gradient share: the vectors that they see, and which classes have come.

use std::sync::Arc;

use hindsight_nn::{Inputs, Layer, Net, Rng};

use super::Setup;
use crate::{
    Batch, Heads,
    settings::{Key, Kind, Value, choices},
    state::{ByClass, StateDict},
};

choices! {
    /// What a sample is to a method without a gradient.
    pub(super) enum From {
        /// Its input.
        Inputs = "inputs",
        /// The features of the network at its start.
        Features = "features",
    }
}

/// What a sample is.
pub(super) const FROM: Key = Key::per_family(
    "from",
    Kind::Choice(<From as crate::settings::Choice>::WORDS),
    [Value::text("inputs"), Value::text("features"), Value::text("features")],
    "see inputs as they are, or as features of the network, which is not trained",
);

/// Inputs, or what an untrained network makes of them.
pub(super) struct Embedding {
    net: Arc<dyn Net>,
    /// The parameters of the network, where its features are taken.
    theta: Option<Vec<f32>>,
}

impl Embedding {
    pub(super) fn new(setup: &Setup<'_>) -> Embedding {
        let theta = match setup.method_settings.choice("from") {
            From::Inputs => None,
            From::Features => Some(setup.net.init(&mut Rng::named(setup.seed, "init"))),
        };
        Embedding { net: setup.net.clone(), theta }
    }

    /// Values in a vector.
    pub(super) fn width(&self) -> usize {
        if self.theta.is_some() { self.net.features() } else { self.net.inputs() }
    }

    /// The vectors of a batch.
    pub(super) fn of_batch(&self, batch: &Batch) -> Vec<f32> {
        match &self.theta {
            None => batch.x.clone(),
            Some(theta) => self.net.infer(theta, &Inputs::dense(&batch.x, batch.width()), Layer::Features),
        }
    }

    /// Calls `answer` with the vectors of `inputs`.
    pub(super) fn with<R>(&self, inputs: &Inputs<'_>, answer: impl FnOnce(&Inputs<'_>) -> R) -> R {
        match &self.theta {
            None => answer(inputs),
            Some(theta) => {
                let rows = self.net.infer(theta, inputs, Layer::Features);
                answer(&Inputs::dense(&rows, self.net.features()))
            }
        }
    }

    /// The parameters of the network are part of what it is: they are saved where they count.
    pub(super) fn state(&mut self) -> StateDict<'_> {
        match &mut self.theta {
            None => StateDict::new(),
            Some(theta) => vec![("embedding", theta)],
        }
    }
}

/// Samples of each class that have come.
pub(super) struct Counts(pub(super) ByClass);

impl Counts {
    pub(super) fn new(setup: &Setup<'_>) -> Counts {
        Counts(ByClass(vec![0.0; setup.net.classes()]))
    }

    /// Whether `task` answers with `class`: if it may, and the class has come or none of its classes has.
    pub(super) fn answers<'c>(&'c self, heads: &'c Heads, task: usize) -> impl Fn(usize) -> bool + 'c {
        let seen = |class: usize| self.0.0[class] > 0.0;
        let none = !(0..self.0.0.len()).any(|class| heads.allows(task, class) && seen(class));
        move |class| heads.allows(task, class) && (none || seen(class))
    }
}

/// The class with the largest value of each row; of several the last.
pub(super) fn best(rows: &[f32], classes: usize) -> Vec<u32> {
    let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as u32;
    rows.chunks_exact(classes).map(best).collect()
}
