//! The kernels against their definitions, bit for bit: the order of every sum is part of the contract.

use super::*;
use crate::{Rng, SparseRows};

/// Numbers of rows, inputs and outputs, with remainders of every kind.
const SHAPES: [[usize; 3]; 15] = [
    [1, 1, 1],
    [1, 784, 256],
    [3, 5, 2],
    [20, 256, 10],
    [10, 784, 33],
    [11, 129, 16],
    [20, 257, 48],
    [240, 300, 17],
    [49, 600, 70],
    [150, 300, 320],
    [7, 10, 256],
    [4, 3, 15],
    [5, 40, 31],
    [64, 9, 100],
    [2, 130, 1],
];

/// Whether [`madd`] is fused in the kernels of this machine.
fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx2();
    #[cfg(not(target_arch = "x86_64"))]
    return BASELINE_FMA;
}

fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    if fused() { a.mul_add(b, c) } else { a * b + c }
}

fn draw(len: usize, share: f64, rng: &mut Rng) -> Vec<f32> {
    (0..len).map(|_| if rng.uniform() < share { rng.normal() as f32 } else { 0.0 }).collect()
}

#[track_caller]
fn assert_bits(found: &[f32], expected: &[f32], shape: [usize; 3]) {
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(found) == bits(expected), "at {shape:?}");
}

#[test]
fn matmul_sums_in_order_from_the_bias() {
    let mut rng = Rng::named(1, "test");
    for shape @ [m, k, n] in SHAPES {
        let [a, b, bias] = [m * k, k * n, n].map(|len| draw(len, 1.0, &mut rng));
        let entry =
            |i: usize, j: usize| (0..k).fold(bias[j], |z, p| multiply_add(a[i * k + p], b[p * n + j], z));
        let expected: Vec<f32> = (0..m * n).map(|i| entry(i / n, i % n)).collect();
        let mut found = vec![f32::NAN; m * n];
        matmul(&a, &b, n, Start::Bias(&bias), false, &mut found);
        assert_bits(&found, &expected, shape);

        let mut from_out: Vec<f32> = bias.iter().copied().cycle().take(m * n).collect();
        matmul(&a, &b, n, Start::Out, true, &mut from_out);
        assert_bits(&from_out, &expected.iter().map(|z| z.max(0.0)).collect::<Vec<_>>(), shape);
    }
}

#[test]
fn matmul_nt_equals_the_reference() {
    let mut rng = Rng::named(2, "test");
    for shape @ [m, k, n] in SHAPES {
        let [a, b, before] = [m * n, k * n, m * k].map(|len| draw(len, 1.0, &mut rng));
        for add in [false, true] {
            let (mut found, mut reference) = (before.clone(), before.clone());
            matmul_nt(&a, &b, n, add, &mut found);
            if fused() {
                matmul_nt::reference::<f32, true>(&a, &b, n, add, &mut reference);
            } else {
                matmul_nt::reference::<f32, false>(&a, &b, n, add, &mut reference);
            }
            if n > matmul_nt::SHORT {
                assert_bits(&found, &reference, shape);
            }
            for i in 0..m * k {
                let terms = a[i / k * n..][..n].iter().zip(&b[i % k * n..][..n]);
                let start = if add { f64::from(before[i]) } else { 0.0 };
                let sum = terms.fold(start, |sum, (&a, &b)| sum + f64::from(a) * f64::from(b));
                assert!((f64::from(found[i]) - sum).abs() < 1e-4, "{} {sum} at {shape:?}", found[i]);
            }
        }
    }
}

#[test]
fn sddmm_equals_the_reference_on_the_pattern_and_is_zero_elsewhere() {
    let mut rng = Rng::named(6, "test");
    for shape @ [m, k, n] in SHAPES.into_iter().chain([[20, 40, 256], [3, 5, 256]]) {
        let [a, b, before] = [m * n, k * n, m * k].map(|len| draw(len, 1.0, &mut rng));
        let wanted = draw(m * k, 0.5, &mut rng);
        let mut rows = SparseRows::new(k);
        wanted.chunks_exact(k).for_each(|row| rows.push_slice(row));
        let pattern = rows.transposed();
        for add in [false, true] {
            let before: Vec<f32> =
                before.iter().zip(&wanted).map(|(&x, &w)| if w != 0.0 { x } else { 0.0 }).collect();
            let (mut found, mut reference) = (before.clone(), if add { before } else { vec![0.0; m * k] });
            sddmm(&a, &b, n, &pattern, add, &mut found);
            if fused() {
                sddmm::reference::<f32, true>(&a, &b, n, &pattern, add, &mut reference);
            } else {
                sddmm::reference::<f32, false>(&a, &b, n, &pattern, add, &mut reference);
            }
            assert_bits(&found, &reference, shape);
            let mut full = if add { reference.clone() } else { vec![0.0; m * k] };
            matmul_nt(&a, &b, n, false, &mut full);
            for (i, &w) in wanted.iter().enumerate().filter(|_| !add) {
                let expected = if w != 0.0 { full[i] } else { 0.0 };
                assert!((found[i] - expected).abs() < 1e-4, "{} {expected} at {shape:?}", found[i]);
            }
        }
    }
}

#[test]
fn matmul_tn_accumulate_scales_complete_sums() {
    let mut rng = Rng::named(3, "test");
    for shape @ [m, k, n] in SHAPES {
        let [a, b, c, d, before] = [m * k, m * n, 3 * k, 3 * n, k * n].map(|len| draw(len, 1.0, &mut rng));
        let mut found = before.clone();
        matmul_tn_accumulate(&[(&a, &b), (&c, &d)], n, -0.3, &mut found);
        let expected: Vec<f32> = (0..k * n)
            .map(|i| {
                let (p, j) = (i / n, i % n);
                let sum = (0..m).fold(0.0, |sum, i| multiply_add(a[i * k + p], b[i * n + j], sum));
                let sum = (0..3).fold(sum, |sum, i| multiply_add(c[i * k + p], d[i * n + j], sum));
                multiply_add(-0.3, sum, before[i])
            })
            .collect();
        assert_bits(&found, &expected, shape);
    }
}

#[test]
fn a_dense_matrix_has_the_transpose_of_its_rows() {
    let mut rng = Rng::named(9, "test");
    // No rows, less than a square, whole squares, more rows than two vectors have.
    for [m, k] in [[0, 5], [1, 1], [3, 16], [10, 784], [16, 33], [17, 15], [20, 256], [32, 47], [33, 20]] {
        let mut a = draw(m * k, 0.3, &mut rng);
        if let Some(last) = a.last_mut() {
            *last = f32::NAN;
        }
        let mut rows = SparseRows::new(k);
        a.chunks_exact(k).for_each(|row| rows.push_slice(row));
        let bits = |rows: &SparseRows<f32>| -> Vec<(u32, u32)> {
            let rows = (0..rows.len()).map(|i| rows.row(i));
            rows.flat_map(|(at, x)| at.iter().copied().zip(x.iter().map(|x| x.to_bits()))).collect()
        };
        let mut found = SparseRows::new(0);
        rows.transpose_dense_into(&a, &mut found);
        let expected = rows.transposed();
        assert_eq!((found.len(), found.width()), (expected.len(), expected.width()), "{m} x {k}");
        assert_eq!(bits(&found), bits(&expected), "{m} x {k}");
        (0..k).for_each(|j| assert_eq!(found.row(j).0, expected.row(j).0, "column {j} of {m} x {k}"));
    }
}

#[test]
fn spmm_equals_matmul_bit_for_bit() {
    let mut rng = Rng::named(4, "test");
    for shape @ [m, k, n] in SHAPES {
        let [b, bias] = [k * n, n].map(|len| draw(len, 1.0, &mut rng));
        let a = draw(m * k, 0.2, &mut rng);
        let (mut rows, mut pushed) = (SparseRows::new(k), SparseRows::new(k));
        a.chunks_exact(k).for_each(|row| rows.push_slice(row));
        a.chunks_exact(k).for_each(|row| pushed.push(row.iter().copied()));
        assert_eq!(rows, pushed);

        // Adding a zero changes nothing.
        for relu in [false, true] {
            let [mut dense, mut found, mut packed] = [(); 3].map(|()| vec![f32::NAN; m * n]);
            matmul(&a, &b, n, Start::Bias(&bias), relu, &mut dense);
            spmm(&rows, 0..m, &b, &bias, relu, &mut found);
            spmm_packed(&rows, 0..m, &PackedMatrix::new(&b, n), &bias, relu, &mut packed);
            assert_bits(&found, &dense, shape);
            assert_bits(&packed, &dense, shape);
        }

        let mut columns = SparseRows::new(0);
        rows.transpose_into(&mut columns);
        let d = draw(m * n, 1.0, &mut rng);
        let (mut found, mut dense) = (b.clone(), b.clone());
        spmm_accumulate(&[(&columns, &d)], 0, n, 0.7, &mut found);
        matmul_tn_accumulate(&[(&a, &d)], n, 0.7, &mut dense);
        assert_bits(&found, &dense, shape);

        // A second pair, with the same sparsity pattern.
        let e = draw(m * n, 1.0, &mut rng);
        let tangent: Vec<f32> = a.iter().map(|&x| if x == 0.0 { 0.0 } else { x * x - 0.5 }).collect();
        let mut tangent_columns = SparseRows::new(0);
        columns.with_values(&tangent, &mut tangent_columns);
        spmm_accumulate(&[(&columns, &d), (&tangent_columns, &e)], 0, n, 0.7, &mut found);
        matmul_tn_accumulate(&[(&a, &d), (&tangent, &e)], n, 0.7, &mut dense);
        assert_bits(&found, &dense, shape);
    }
}

#[test]
fn a_row_does_not_depend_on_other_rows() {
    let mut rng = Rng::named(5, "test");
    for shape @ [m, k, n] in SHAPES {
        let [a, b, bias, d] = [m * k, k * n, n, m * n].map(|len| draw(len, 1.0, &mut rng));
        let (mut together, mut alone) = (vec![0.0; m * n], vec![0.0; m * n]);
        matmul(&a, &b, n, Start::Bias(&bias), true, &mut together);
        for (a, alone) in a.chunks(7 * k).zip(alone.chunks_mut(7 * n)) {
            matmul(a, &b, n, Start::Bias(&bias), true, alone);
        }
        assert_bits(&together, &alone, shape);

        let (mut together, mut alone) = (vec![0.0; m * k], vec![0.0; m * k]);
        matmul_nt(&d, &b, n, false, &mut together);
        for (d, alone) in d.chunks(4 * n).zip(alone.chunks_mut(4 * k)) {
            matmul_nt(d, &b, n, false, alone);
        }
        assert_bits(&together, &alone, shape);
    }
}

#[test]
fn tiles_cover_everything_once_and_evenly() {
    for (len, most) in [(0, 6), (1, 6), (7, 6), (20, 6), (10, 3), (256, 6)] {
        let (mut end, mut lengths) = (0, Vec::new());
        for (start, length) in tiles(len, most) {
            assert_eq!(start, end);
            end += length;
            lengths.push(length);
        }
        assert_eq!(end, len);
        assert!(lengths.iter().all(|&l| l <= most && l + 1 >= len.div_ceil(lengths.len())));
    }
}
