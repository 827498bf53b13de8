//! What methods without a gradient share: the vectors that they see, and which classes have come.

use std::{borrow::Cow, mem, ops::Range, sync::Arc};

use hindsight_nn::{Cholesky, Inputs, Layer, Net, Rng, kernels::matmul_tn_accumulate};

use super::Setup;
use crate::{
    Batch, Heads,
    settings::{Key, Kind, Value, choices},
    state::{ByClass, State, StateDict, StateError, Tensors},
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

/// A sum of outer products of rows, `[width, width]`: the blocks of rows of its lower triangle, each as far
/// as the diagonal.
///
/// Rows wait until they are many or a task ends, so that the matrix goes through the cache once for all of
/// them. Those that wait are part of the state: a resumed run adds them up in the same order.
#[derive(Clone)]
pub(super) struct OuterSum {
    width: usize,
    sum: Vec<f32>,
    waiting: Vec<f32>,
}

/// Rows that wait.
pub(super) const WAITING: usize = 128;

/// Rows of a block of the matrix.
const BLOCK: usize = 128;

impl OuterSum {
    pub(super) fn new(width: usize) -> OuterSum {
        OuterSum { width, sum: vec![0.0; OuterSum::entries(width)], waiting: Vec::new() }
    }

    /// Numbers that are kept of a matrix.
    pub(super) fn entries(width: usize) -> usize {
        OuterSum::blocks(width).map(|at| at.len() * at.end).sum()
    }

    /// The rows of each block; it has as many columns as end with its last row.
    fn blocks(width: usize) -> impl Iterator<Item = Range<usize>> {
        (0..width).step_by(BLOCK).map(move |first| first..(first + BLOCK).min(width))
    }

    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(self.sum.as_slice()) + size_of_val(self.waiting.as_slice())) as u64
    }

    pub(super) fn add(&mut self, rows: &[f32]) {
        if self.waiting.is_empty() && rows.len() >= WAITING * self.width {
            return self.sum_up(rows);
        }
        self.waiting.extend_from_slice(rows);
        if self.waiting.len() >= WAITING * self.width {
            self.complete();
        }
    }

    /// Adds the rows that wait.
    pub(super) fn complete(&mut self) {
        let mut waiting = mem::take(&mut self.waiting);
        self.sum_up(&waiting);
        waiting.clear();
        self.waiting = waiting;
    }

    fn sum_up(&mut self, rows: &[f32]) {
        let (mut rest, [mut left, mut right]) = (&mut self.sum[..], [const { Vec::new() }; 2]);
        for at in OuterSum::blocks(self.width) {
            let block;
            (block, rest) = rest.split_at_mut(at.len() * at.end);
            let columns = |range: Range<usize>, to: &mut Vec<f32>| {
                to.clear();
                rows.chunks_exact(self.width).for_each(|row| to.extend_from_slice(&row[range.clone()]));
            };
            columns(at.clone(), &mut left);
            let right = if at.end == self.width {
                rows
            } else {
                columns(0..at.end, &mut right);
                &right
            };
            matmul_tn_accumulate(&[(&left, right)], at.end, 1.0, block);
        }
    }

    /// The sum over all rows, those that wait too.
    pub(super) fn completed(&self) -> Cow<'_, OuterSum> {
        if self.waiting.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut all = self.clone();
        all.complete();
        Cow::Owned(all)
    }

    /// The Cholesky factor of `scale` times the matrix, with `ridge` added to its diagonal. None if values
    /// are not finite.
    ///
    /// # Panics
    /// If rows wait.
    pub(super) fn factor(&self, scale: f64, ridge: f64) -> Option<Cholesky> {
        let mut rows = self.rows();
        let row = |to: &mut [f64]| {
            let row = rows.next().expect("a row for each column");
            to.iter_mut().zip(row).for_each(|(to, &sum)| *to = scale * f64::from(sum));
        };
        Cholesky::new(self.width, row, ridge)
    }

    /// The rows of the matrix, each at least as far as the diagonal.
    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        assert!(self.waiting.is_empty(), "rows wait to be added up");
        let ends = OuterSum::blocks(self.width).flat_map(|at| at.clone().map(move |_| at.end));
        ends.scan(&self.sum[..], |rest, end| {
            let row;
            (row, *rest) = rest.split_at(end);
            Some(row)
        })
    }

    /// The whole matrix.
    #[cfg(test)]
    pub(super) fn total(&self) -> Vec<f32> {
        let (n, sum) = (self.width, self.completed());
        let rows: Vec<&[f32]> = sum.rows().collect();
        (0..n * n).map(|at| rows[(at / n).max(at % n)][(at / n).min(at % n)]).collect()
    }
}

impl State for OuterSum {
    fn save(&self, name: &str, to: &mut Tensors) {
        to.put_rows(name, &self.sum, self.sum.len());
        to.put_rows(&format!("{name}.waiting"), &self.waiting, self.width);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let sum = from.rows(name, self.sum.len())?;
        if sum.len() != self.sum.len() {
            let expected = format!("{} values", self.sum.len());
            return Err(StateError::new(name, format!("{} values", sum.len()), expected));
        }
        self.waiting = from.rows(&format!("{name}.waiting"), self.width)?;
        self.sum = sum;
        Ok(())
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

/// `[classes, width]` as `[width, classes]`, in double precision.
pub(super) fn transposed(of_classes: &[f32], width: usize) -> Vec<f64> {
    let column = |i: usize| of_classes[i..].iter().step_by(width).copied().map(f64::from);
    (0..width).flat_map(column).collect()
}

/// The class with the largest value of each row; of several the last.
pub(super) fn best(rows: &[f32], classes: usize) -> Vec<u32> {
    let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as u32;
    rows.chunks_exact(classes).map(best).collect()
}
