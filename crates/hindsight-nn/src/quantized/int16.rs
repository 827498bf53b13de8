//! The int16 kernel: products of sparse int16 rows with a dense int16 matrix, summed in int32.
//!
//! An instruction multiplies twice as many int16 as f32 values, and a cache line holds twice as many. The
//! caller makes sure that no sum overflows; so sums are exact, and every version gives the same bits.

use std::ops::Range;

/// Columns of a panel of weights. Their sums stay in registers: eight of AVX or four of AVX-512.
const PANEL: usize = 64;

/// Entries processed at a time.
const LANES: usize = 16;

/// Sparse int16 rows, stored as pairs of neighbouring entries of which at least one is not zero.
///
/// Rows are processed in twos. The columns that both rows have come first: their weights are loaded once.
#[derive(Debug, Clone, Default)]
pub(super) struct Int16Rows {
    /// Number of pairs in a row.
    width: usize,
    /// For each two rows, the start of the columns that both have, that the first has alone, and that the
    /// second has alone.
    starts: Vec<[u32; 3]>,
    columns: Vec<u32>,
    /// For each column the pair of the first row, or of the only row that has it, and the pair of the second
    /// row.
    first: Vec<i32>,
    second: Vec<i32>,
    /// Buffers of `push`.
    pairs: [Vec<i32>; 2],
    lists: [ColumnList; 3],
}

/// A list under construction; `len` entries are valid.
#[derive(Debug, Clone, Default)]
struct ColumnList {
    columns: Vec<u32>,
    first: Vec<i32>,
    second: Vec<i32>,
    len: usize,
}

/// Columns, and the pairs of the first and of the second row in them.
type Entries<'a> = (&'a [u32], &'a [i32], &'a [i32]);

impl Int16Rows {
    /// No rows, of `width` values each.
    pub(super) fn new(width: usize) -> Int16Rows {
        Int16Rows { width: width.div_ceil(2), ..Int16Rows::default() }
    }

    /// Removes all rows and keeps the allocated memory.
    pub(super) fn clear(&mut self, width: usize) {
        self.width = width.div_ceil(2);
        self.starts.clear();
        self.columns.clear();
        self.first.clear();
        self.second.clear();
    }

    /// Appends two rows.
    ///
    /// # Panics
    /// If their width is another: a column must not lie beyond the weights that the product reads.
    pub(super) fn push(&mut self, rows: [&[i16]; 2]) {
        assert!(rows.iter().all(|row| row.len().div_ceil(2) == self.width), "a row has another width");
        for (to, row) in self.pairs.iter_mut().zip(rows) {
            let (pairs, rest) = row.as_chunks::<2>();
            let bits = |a: i16, b: i16| i32::from(a as u16) | (i32::from(b) << 16);
            to.clear();
            to.extend(pairs.iter().map(|&[a, b]| bits(a, b)));
            to.extend(rest.iter().map(|&a| bits(a, 0)));
        }
        for list in &mut self.lists {
            // Full vectors are stored, which may reach beyond the valid entries.
            list.columns.resize(self.width + LANES, 0);
            list.first.resize(self.width + LANES, 0);
            list.second.resize(self.width + LANES, 0);
            list.len = 0;
        }
        let [one, two] = &self.pairs;
        classify_columns(one, two, &mut self.lists);
        let starts = self.lists.each_ref().map(|list| {
            let start = self.columns.len() as u32;
            self.columns.extend_from_slice(&list.columns[..list.len]);
            self.first.extend_from_slice(&list.first[..list.len]);
            self.second.extend_from_slice(&list.second[..list.len]);
            start
        });
        self.starts.push(starts);
    }

    /// The columns of rows `2 i` and `2 i + 1`: of both, of the first alone, of the second alone.
    #[inline(always)]
    fn lists(&self, i: usize) -> [Entries<'_>; 3] {
        let [both, one, two] = self.starts[i];
        let end = self.starts.get(i + 1).map_or(self.columns.len(), |next| next[0] as usize);
        [(both, one as usize), (one, two as usize), (two, end)].map(|(from, to)| {
            let at = from as usize..to;
            (&self.columns[at.clone()], &self.first[at.clone()], &self.second[at])
        })
    }
}

/// Lists the columns in which both rows are not zero, only the first, and only the second.
fn classify_columns(one: &[i32], two: &[i32], lists: &mut [ColumnList; 3]) {
    #[cfg(target_arch = "x86_64")]
    if crate::kernels::has_avx512() {
        // SAFETY: the CPU has AVX-512.
        return unsafe { x86::classify_columns(one, two, lists) };
    }
    classify_columns_from(0, one, two, lists);
}

/// [`classify_columns`] for the columns from `start` on.
fn classify_columns_from(start: usize, one: &[i32], two: &[i32], lists: &mut [ColumnList; 3]) {
    for (column, (&a, &b)) in one.iter().zip(two).enumerate().skip(start) {
        // Always write, advance only if kept: avoids unpredictable branches.
        for (list, kept) in
            lists.iter_mut().zip([(a != 0) & (b != 0), (a != 0) & (b == 0), (a == 0) & (b != 0)])
        {
            list.columns[list.len] = column as u32;
            list.first[list.len] = if a != 0 { a } else { b };
            list.second[list.len] = b;
            list.len += usize::from(kept);
        }
    }
}

/// An int16 matrix divided into panels of columns, with the two rows of a pair interleaved.
#[derive(Debug, Clone)]
pub(super) struct Int16Matrix {
    entries: Vec<i16>,
    /// The first entry at the start of a cache line.
    start: usize,
    /// Number of entries in a panel.
    len: usize,
    columns: usize,
}

impl Int16Matrix {
    /// The matrix `[rows, columns]` whose rows `row` writes, called for one index after the other.
    pub(super) fn new(rows: usize, columns: usize, mut row: impl FnMut(usize, &mut [i16])) -> Int16Matrix {
        let len = rows.div_ceil(2) * 2 * PANEL;
        let mut entries = vec![0i16; columns.div_ceil(PANEL) * len + 32];
        let start = entries.as_ptr().align_offset(64).min(32);
        let [mut one, mut two] = [vec![0; columns], vec![0; columns]];
        for i in (0..rows).step_by(2) {
            row(i, &mut one);
            match i + 1 < rows {
                true => row(i + 1, &mut two),
                false => two.fill(0),
            }
            for (panel, (one, two)) in one.chunks(PANEL).zip(two.chunks(PANEL)).enumerate() {
                let to = &mut entries[start + panel * len + i * PANEL..][..2 * PANEL];
                for (to, (&a, &b)) in to.as_chunks_mut().0.iter_mut().zip(one.iter().zip(two)) {
                    *to = [a, b];
                }
            }
        }
        Int16Matrix { entries, start, len, columns }
    }

    /// Number of columns, rounded up to full panels.
    pub(super) fn padded_columns(&self) -> usize {
        self.columns.next_multiple_of(PANEL)
    }

    fn panels(&self) -> impl Iterator<Item = &[i16]> {
        self.entries[self.start..].chunks_exact(self.len.max(1))
    }
}

/// Whether int16 products are faster than f32 products on this machine.
pub(crate) fn int16_is_faster() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::kernels::has_avx2();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// `out = rows matrix` for the pairs of rows `range`; `out: [2 * range.len(), padded_columns]`.
///
/// # Panics
/// If the shapes do not fit.
pub(super) fn int16_matmul(rows: &Int16Rows, range: Range<usize>, matrix: &Int16Matrix, out: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512vnni") && crate::kernels::has_avx512() {
            // SAFETY: the CPU has AVX-512 with VNNI.
            return unsafe { x86::wide(rows, range, matrix, out) };
        }
        if crate::kernels::has_avx2() {
            // SAFETY: the CPU has AVX2.
            return unsafe { x86::fast(rows, range, matrix, out) };
        }
    }
    product_body(rows, range, matrix, out, reference);
}

/// `sums = (two rows) panel`, for any machine.
fn reference(lists: [Entries<'_>; 3], panel: &[i16], [one, two]: [&mut [i32; PANEL]; 2]) {
    let add = |sums: &mut [i32; PANEL], column: u32, pair: i32| {
        let weights = panel[column as usize * 2 * PANEL..][..2 * PANEL].as_chunks::<2>().0;
        for (sum, &[w, v]) in sums.iter_mut().zip(weights) {
            *sum += i32::from(pair as i16) * i32::from(w) + (pair >> 16) * i32::from(v);
        }
    };
    *one = [0; PANEL];
    *two = [0; PANEL];
    let [both, alone, other] =
        lists.map(|(columns, first, second)| columns.iter().zip(first.iter().zip(second)));
    for (&column, (&a, &b)) in both {
        add(one, column, a);
        add(two, column, b);
    }
    alone.for_each(|(&column, (&a, _))| add(one, column, a));
    other.for_each(|(&column, (&b, _))| add(two, column, b));
}

#[inline(always)]
fn product_body(
    rows: &Int16Rows,
    range: Range<usize>,
    matrix: &Int16Matrix,
    out: &mut [i32],
    chain: impl Fn([Entries<'_>; 3], &[i16], [&mut [i32; PANEL]; 2]),
) {
    let n = matrix.padded_columns();
    assert!(out.len() >= 2 * range.len() * n, "the output is too short");
    assert_eq!(rows.width * 2 * PANEL, matrix.len, "the rows and the matrix differ in width");
    for (panel, j) in matrix.panels().zip((0..n).step_by(PANEL)) {
        for (i, out) in range.clone().zip(out.chunks_exact_mut(2 * n)) {
            let (one, two) = out.split_at_mut(n);
            let sums = [one, two].map(|out| out[j..].first_chunk_mut().expect("full panels"));
            chain(rows.lists(i), panel, sums);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, ops::Range};

    use super::{ColumnList, Int16Matrix, Int16Rows, LANES, PANEL, classify_columns_from, product_body};

    #[target_feature(enable = "avx512f")]
    pub(super) fn classify_columns(one: &[i32], two: &[i32], lists: &mut [ColumnList; 3]) {
        assert!(lists.iter().all(|list| {
            let room = list.columns.len().min(list.first.len()).min(list.second.len());
            list.len == 0 && room >= one.len() + LANES
        }));
        let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let sixteens = one.as_chunks::<LANES>().0.iter().zip(two.as_chunks::<LANES>().0);
        let mut start = 0;
        for (one, two) in sixteens {
            // SAFETY: the loads read sixteen entries. A list has at most as many entries as columns were
            // read, so the stores end at most sixteen entries after them, within the length checked above.
            unsafe {
                let (a, b) =
                    (_mm512_loadu_si512(one.as_ptr().cast()), _mm512_loadu_si512(two.as_ptr().cast()));
                let columns = _mm512_add_epi32(numbers, _mm512_set1_epi32(start as i32));
                let (has_a, has_b) = (_mm512_test_epi32_mask(a, a), _mm512_test_epi32_mask(b, b));
                for (list, (kept, first)) in
                    lists.iter_mut().zip([(has_a & has_b, a), (has_a & !has_b, a), (has_b & !has_a, b)])
                {
                    let put = |to: *mut __m512i, from: __m512i| {
                        _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(kept, from));
                    };
                    put(list.columns.as_mut_ptr().add(list.len).cast(), columns);
                    put(list.first.as_mut_ptr().add(list.len).cast(), first);
                    put(list.second.as_mut_ptr().add(list.len).cast(), b);
                    list.len += kept.count_ones() as usize;
                }
            }
            start += LANES;
        }
        classify_columns_from(start, one, two, lists);
    }

    /// Sums of two rows in `$count` registers each, repeated until the panel is covered.
    macro_rules! chain {
        ($lists:ident, $panel:ident, $sums:ident, $vector:ty, $count:literal, $zero:ident, $load:ident, $store:ident, $set:ident, $add:expr) => {{
            const WIDTH: usize = size_of::<$vector>() / 4;
            let [(both, both_first, both_second), (first, first_pairs, _), (second, second_pairs, _)] =
                $lists;
            let [one, two] = $sums;
            for start in (0..PANEL).step_by($count * WIDTH) {
                let [mut x, mut y] = [[$zero(); $count]; 2];
                // SAFETY: a column's weights are 128 entries of the panel, and every column is below the
                // width of the rows (`Int16Rows::push`), for which `product_body` has checked the panel's
                // length. Both sums have 64 entries.
                unsafe {
                    let at = |column: u32, q: usize| {
                        $load(
                            $panel.as_ptr().add(column as usize * 2 * PANEL + 2 * (start + q * WIDTH)).cast(),
                        )
                    };
                    for (&column, (&a, &b)) in both.iter().zip(both_first.iter().zip(both_second)) {
                        let (a, b) = ($set(a), $set(b));
                        for q in 0..$count {
                            let weights = at(column, q);
                            x[q] = $add(x[q], a, weights);
                            y[q] = $add(y[q], b, weights);
                        }
                    }
                    for (&column, &a) in first.iter().zip(first_pairs) {
                        let a = $set(a);
                        for q in 0..$count {
                            x[q] = $add(x[q], a, at(column, q));
                        }
                    }
                    for (&column, &b) in second.iter().zip(second_pairs) {
                        let b = $set(b);
                        for q in 0..$count {
                            y[q] = $add(y[q], b, at(column, q));
                        }
                    }
                    for q in 0..$count {
                        $store(one.as_mut_ptr().add(start + q * WIDTH).cast(), x[q]);
                        $store(two.as_mut_ptr().add(start + q * WIDTH).cast(), y[q]);
                    }
                }
            }
        }};
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn wide(rows: &Int16Rows, range: Range<usize>, matrix: &Int16Matrix, out: &mut [i32]) {
        product_body(rows, range, matrix, out, |lists, panel, sums| {
            chain!(
                lists,
                panel,
                sums,
                __m512i,
                4,
                _mm512_setzero_si512,
                _mm512_loadu_si512,
                _mm512_storeu_si512,
                _mm512_set1_epi32,
                |sum, pair, weights| _mm512_dpwssd_epi32(sum, pair, weights)
            )
        });
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn fast(rows: &Int16Rows, range: Range<usize>, matrix: &Int16Matrix, out: &mut [i32]) {
        product_body(rows, range, matrix, out, |lists, panel, sums| {
            chain!(
                lists,
                panel,
                sums,
                __m256i,
                4,
                _mm256_setzero_si256,
                _mm256_loadu_si256,
                _mm256_storeu_si256,
                _mm256_set1_epi32,
                |sum, pair, weights| _mm256_add_epi32(sum, _mm256_madd_epi16(pair, weights))
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    #[should_panic(expected = "a row has another width")]
    fn rows_of_another_width_are_refused() {
        Int16Rows::new(4).push([&[1; 4], &[1; 6]]);
    }

    #[test]
    fn every_version_equals_the_definition() {
        let mut rng = Rng::named(0, "pairs");
        for (width, columns, largest) in [(1, 1, 5), (7, 64, 32767), (130, 100, 1000), (784, 256, 200)] {
            let mut number = |largest: usize| (rng.below(2 * largest + 1) as i32 - largest as i32) as i16;
            let matrix: Vec<i16> = (0..width * columns).map(|_| number(largest)).collect();
            let panels = Int16Matrix::new(width, columns, |i, to| {
                to.copy_from_slice(&matrix[i * columns..][..columns])
            });
            let dense: Vec<i16> = (0..8 * width)
                .map(|i| if i % 3 == 0 || i / width % 3 == 0 { number(4000) } else { 0 })
                .collect();
            let mut rows = Int16Rows::new(width);
            dense.chunks_exact(2 * width).for_each(|two| rows.push(two.split_at(width).into()));
            let expected = |i: usize, j: usize| {
                let entry = |k: usize| i32::from(dense[i * width + k]) * i32::from(matrix[k * columns + j]);
                if j < columns { (0..width).map(entry).sum() } else { 0 }
            };
            let mut lists: [ColumnList; 3] = Default::default();
            for list in &mut lists {
                *list = ColumnList {
                    columns: vec![0; width + LANES],
                    first: vec![0; width + LANES],
                    second: vec![0; width + LANES],
                    len: 0,
                };
            }
            let mut plain = lists.clone();
            let [one, two] =
                [0, 1].map(|i| dense[i * width..][..width].iter().map(|&x| i32::from(x)).collect::<Vec<_>>());
            classify_columns(&one, &two, &mut lists);
            classify_columns_from(0, &one, &two, &mut plain);
            for (list, plain) in lists.iter().zip(&plain) {
                assert_eq!((list.len, &list.columns[..list.len]), (plain.len, &plain.columns[..plain.len]));
                assert_eq!(list.first[..list.len], plain.first[..plain.len]);
                assert_eq!(list.second[..list.len], plain.second[..plain.len]);
            }
            let n = panels.padded_columns();
            let expected: Vec<i32> = (2 * n..8 * n).map(|at| expected(at / n, at % n)).collect();
            let mut found = vec![vec![-1; 6 * n]; 4];
            int16_matmul(&rows, 1..4, &panels, &mut found[0]);
            product_body(&rows, 1..4, &panels, &mut found[1], reference);
            #[cfg(target_arch = "x86_64")]
            {
                // SAFETY: only where the CPU has the features.
                unsafe {
                    if crate::kernels::has_avx2() {
                        x86::fast(&rows, 1..4, &panels, &mut found[2]);
                    }
                    if std::is_x86_feature_detected!("avx512vnni") && crate::kernels::has_avx512() {
                        x86::wide(&rows, 1..4, &panels, &mut found[3]);
                    }
                }
            }
            for found in found.iter().filter(|found| found[0] != -1 || expected[0] == -1) {
                assert_eq!(*found, expected, "{width} x {columns}");
            }
        }
    }
}
