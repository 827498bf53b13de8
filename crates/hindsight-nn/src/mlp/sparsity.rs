//! The non-zero entries of activations, which decide whether a layer computes with them alone.

use crate::{
    kernels::{Scalar, SparseRows, count_nonzeros, has_full_rate_avx512},
    layers::linear::LinearInput,
};

/// Shares of non-zero entries above which the dense product is faster, with the same bits.
struct DenseFrom {
    /// Of the input with the weights, which do not fit into the L1 cache.
    input: f64,
    /// Of a hidden layer with the weights.
    hidden: f64,
    /// Of a hidden layer with the deltas, for the gradient in the weights.
    gradient: f64,
}

impl DenseFrom {
    fn on_this_machine() -> DenseFrom {
        // Caches deliver what a sparse product needs; wide vectors speed up the dense one more.
        match has_full_rate_avx512() {
            true => DenseFrom { input: 0.48, hidden: 0.6, gradient: 0.6 },
            false => DenseFrom { input: 0.45, hidden: 0.45, gradient: 0.7 },
        }
    }
}

/// What a perceptron keeps on a tape.
#[derive(Debug, Clone, Default)]
pub(super) struct MlpScratch<T: Scalar> {
    /// Of the input of each layer.
    pub(super) sparsity: Vec<Sparsity<T>>,
    /// Buffers for products of factors and for sums over rows.
    pub(super) factor: Vec<T>,
    pub(super) sums: Vec<T>,
}

/// The non-zero entries of the input of a layer.
#[derive(Debug, Clone)]
pub(super) struct Sparsity<T: Scalar> {
    rows: SparseRows<T>,
    /// The transpose of `rows`, for the backward pass.
    pub(super) columns: SparseRows<T>,
    /// The tangent of the input at the entries of `columns`.
    pub(super) tangent_columns: SparseRows<T>,
    /// Whether the product with the weights is sparse, and whether the gradient in the weights is.
    pub(super) is_sparse: bool,
    pub(super) gradient_is_sparse: bool,
}

impl<T: Scalar> Default for Sparsity<T> {
    fn default() -> Sparsity<T> {
        let [rows, columns, tangent_columns] = [(); 3].map(|()| SparseRows::new(0));
        Sparsity { rows, columns, tangent_columns, is_sparse: false, gradient_is_sparse: false }
    }
}

impl<T: Scalar> Sparsity<T> {
    /// Analyses the input of the network: `[_, width]`.
    pub(super) fn find_input(&mut self, x: &[T], width: usize) {
        let mut nonzeros = 0;
        count_nonzeros(x, &mut nonzeros);
        self.is_sparse = (nonzeros as f64) < DenseFrom::on_this_machine().input * x.len() as f64;
        self.gradient_is_sparse = self.is_sparse;
        if self.is_sparse {
            self.load(x, width);
        }
    }

    /// Analyses a hidden layer: `[_, width]`. The backward pass needs its non-zero entries in any case.
    pub(super) fn find_hidden(&mut self, h: &[T], width: usize) {
        self.load(h, width);
        let share = self.rows.nonzeros() as f64 / h.len().max(1) as f64;
        // A single row reads each weight at most once, so skipping any of them pays.
        let dense_from = DenseFrom::on_this_machine();
        self.is_sparse = share < dense_from.hidden || self.rows.len() == 1;
        self.gradient_is_sparse = share < dense_from.gradient;
    }

    pub(super) fn set_dense(&mut self) {
        (self.is_sparse, self.gradient_is_sparse) = (false, false);
    }

    /// `x` in the form in which the layer multiplies it; `x` must be what was analysed.
    pub(super) fn rows_of<'a>(&'a self, x: &'a [T]) -> LinearInput<'a, T> {
        if self.is_sparse { LinearInput::Sparse(&self.rows) } else { LinearInput::Dense(x) }
    }

    /// Prepares the backward pass; `x` must be what was analysed.
    pub(super) fn transpose(&mut self, x: &[T]) {
        self.rows.transpose_dense_into(x, &mut self.columns);
    }

    fn load(&mut self, x: &[T], width: usize) {
        self.rows.clear(width);
        self.rows.reserve(x.len());
        x.chunks_exact(width).for_each(|row| self.rows.push_slice(row));
    }
}
