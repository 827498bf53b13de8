//! Products of whole numbers: sparse rows of 16 bits, two entries at a time, with weights of 16 bits.
//!
//! An instruction multiplies twice as many of these as of `f32`, and a cache line holds twice as many. Sums of 32 bits are
//! exact as long as they do not overflow, which the caller sees to, so every version gives the same bits.

use std::ops::Range;

/// Columns of a panel of weights: sums of so many stay in registers, eight of AVX or four of AVX-512.
const PANEL: usize = 64;

/// Entries that are worked on at a time.
const LANES: usize = 16;

/// Sparse rows of whole numbers, by pairs of neighbours of which one at least is not zero.
///
/// Rows go two by two, and the columns that both have come first: what is loaded for those serves twice.
#[derive(Debug, Clone, Default)]
pub struct PairRows {
    /// Number of columns, in pairs.
    width: usize,
    /// Where the columns of both of two rows begin, those of the first alone, and those of the second alone.
    starts: Vec<[u32; 3]>,
    columns: Vec<u32>,
    /// For each column the pair of the first row, or of the only one that has it, and of the second.
    first: Vec<i32>,
    second: Vec<i32>,
    room: [Vec<i32>; 2],
    lists: [List; 3],
}

/// Columns and pairs on their way, and how many of them count.
#[derive(Debug, Clone, Default)]
struct List {
    columns: Vec<u32>,
    first: Vec<i32>,
    second: Vec<i32>,
    len: usize,
}

/// Columns with the pairs that they have.
type Entries<'a> = (&'a [u32], &'a [i32], &'a [i32]);

impl PairRows {
    /// No rows yet, of `width` numbers.
    pub fn new(width: usize) -> PairRows {
        PairRows { width: width.div_ceil(2), ..PairRows::default() }
    }

    /// Drops all rows and keeps the memory.
    pub fn clear(&mut self, width: usize) {
        self.width = width.div_ceil(2);
        self.starts.clear();
        self.columns.clear();
        self.first.clear();
        self.second.clear();
    }

    /// Appends two rows.
    ///
    /// # Panics
    /// If they are not of the width: no column may be beyond the weights that the product reads.
    pub fn push(&mut self, rows: [&[i16]; 2]) {
        assert!(rows.iter().all(|row| row.len().div_ceil(2) == self.width), "rows of another width");
        for (to, row) in self.room.iter_mut().zip(rows) {
            let (pairs, rest) = row.as_chunks::<2>();
            let bits = |a: i16, b: i16| i32::from(a as u16) | (i32::from(b) << 16);
            to.clear();
            to.extend(pairs.iter().map(|&[a, b]| bits(a, b)));
            to.extend(rest.iter().map(|&a| bits(a, 0)));
        }
        for list in &mut self.lists {
            // Vectors are written whole, beyond what counts.
            list.columns.resize(self.width + LANES, 0);
            list.first.resize(self.width + LANES, 0);
            list.second.resize(self.width + LANES, 0);
            list.len = 0;
        }
        let [one, two] = &self.room;
        sort_out(one, two, &mut self.lists);
        let starts = self.lists.each_ref().map(|list| {
            let start = self.columns.len() as u32;
            self.columns.extend_from_slice(&list.columns[..list.len]);
            self.first.extend_from_slice(&list.first[..list.len]);
            self.second.extend_from_slice(&list.second[..list.len]);
            start
        });
        self.starts.push(starts);
    }

    /// The columns of rows `2 i` and `2 i + 1`: both, the first alone, the second alone.
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

/// Lists the columns at which both rows are not zero, the first alone, and the second alone.
fn sort_out(one: &[i32], two: &[i32], lists: &mut [List; 3]) {
    #[cfg(target_arch = "x86_64")]
    if super::has_avx512() {
        // SAFETY: the CPU has AVX-512.
        return unsafe { x86::sort_out(one, two, lists) };
    }
    sort_out_from(0, one, two, lists);
}

/// The same for the columns from `start` on.
fn sort_out_from(start: usize, one: &[i32], two: &[i32], lists: &mut [List; 3]) {
    for (column, (&a, &b)) in one.iter().zip(two).enumerate().skip(start) {
        // Writing always and advancing sometimes avoids branches that no processor could predict.
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

/// A matrix of whole numbers, cut into panels, the rows of a pair next to each other.
#[derive(Debug, Clone)]
pub struct PairPanels {
    entries: Vec<i16>,
    /// The first entry that begins a cache line.
    start: usize,
    /// Entries of a panel.
    len: usize,
    columns: usize,
}

impl PairPanels {
    /// The matrix of `columns` columns whose rows `row` writes, one after the other.
    pub fn new(rows: usize, columns: usize, mut row: impl FnMut(usize, &mut [i16])) -> PairPanels {
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
        PairPanels { entries, start, len, columns }
    }

    /// Columns of a product: those of the matrix, and zeros that fill the last panel.
    pub fn padded(&self) -> usize {
        self.columns.next_multiple_of(PANEL)
    }

    fn panels(&self) -> impl Iterator<Item = &[i16]> {
        self.entries[self.start..].chunks_exact(self.len.max(1))
    }
}

/// Whether this machine multiplies whole numbers faster than others.
pub fn pairs_pay() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::has_avx2();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// `out = rows matrix` for the two by two rows `range`, rows of `out` being [`PairPanels::padded`] long.
///
/// # Panics
/// If the shapes do not fit.
pub fn pair_product(rows: &PairRows, range: Range<usize>, matrix: &PairPanels, out: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512vnni") && super::has_avx512() {
            // SAFETY: the CPU has AVX-512 with VNNI.
            return unsafe { x86::wide(rows, range, matrix, out) };
        }
        if super::has_avx2() {
            // SAFETY: the CPU has AVX2.
            return unsafe { x86::fast(rows, range, matrix, out) };
        }
    }
    product_body(rows, range, matrix, out, reference);
}

/// `sums = (two rows) panel`, in plain words.
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
    rows: &PairRows,
    range: Range<usize>,
    matrix: &PairPanels,
    out: &mut [i32],
    chain: impl Fn([Entries<'_>; 3], &[i16], [&mut [i32; PANEL]; 2]),
) {
    let n = matrix.padded();
    assert!(out.len() >= 2 * range.len() * n, "a product that does not fit");
    assert_eq!(rows.width * 2 * PANEL, matrix.len, "rows of another width than the matrix");
    for (panel, j) in matrix.panels().zip((0..n).step_by(PANEL)) {
        for (i, out) in range.clone().zip(out.chunks_exact_mut(2 * n)) {
            let (one, two) = out.split_at_mut(n);
            let sums = [one, two].map(|out| out[j..].first_chunk_mut().expect("whole panels"));
            chain(rows.lists(i), panel, sums);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, ops::Range};

    use super::{LANES, List, PANEL, PairPanels, PairRows, product_body, sort_out_from};

    #[target_feature(enable = "avx512f")]
    pub(super) fn sort_out(one: &[i32], two: &[i32], lists: &mut [List; 3]) {
        assert!(lists.iter().all(|list| {
            let room = list.columns.len().min(list.first.len()).min(list.second.len());
            list.len == 0 && room >= one.len() + LANES
        }));
        let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let sixteens = one.as_chunks::<LANES>().0.iter().zip(two.as_chunks::<LANES>().0);
        let mut start = 0;
        for (one, two) in sixteens {
            // SAFETY: the loads read sixteen entries. A list has no more entries than columns passed, so the stores end
            // at most sixteen behind those, within the room that was checked.
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
        sort_out_from(start, one, two, lists);
    }

    /// Sums of two rows in `$count` registers each, as often as it takes to cover a panel.
    macro_rules! chain {
        ($lists:ident, $panel:ident, $sums:ident, $vector:ty, $count:literal, $zero:ident, $load:ident, $store:ident, $set:ident, $add:expr) => {{
            const WIDTH: usize = size_of::<$vector>() / 4;
            let [(both, both_first, both_second), (first, first_pairs, _), (second, second_pairs, _)] = $lists;
            let [one, two] = $sums;
            for start in (0..PANEL).step_by($count * WIDTH) {
                let [mut x, mut y] = [[$zero(); $count]; 2];
                // SAFETY: a column's weights are 128 entries of the panel, and every column is below the width of the
                // rows (`PairRows::push`), for which `product_body` has checked the panel's length. Both sums have 64 entries.
                unsafe {
                    let at = |column: u32, q: usize| {
                        $load($panel.as_ptr().add(column as usize * 2 * PANEL + 2 * (start + q * WIDTH)).cast())
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
    pub(super) fn wide(rows: &PairRows, range: Range<usize>, matrix: &PairPanels, out: &mut [i32]) {
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
    pub(super) fn fast(rows: &PairRows, range: Range<usize>, matrix: &PairPanels, out: &mut [i32]) {
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
    #[should_panic(expected = "rows of another width")]
    fn a_row_beyond_the_weights_is_refused() {
        PairRows::new(4).push([&[1; 4], &[1; 6]]);
    }

    #[test]
    fn every_version_gives_the_sums() {
        let mut rng = Rng::named(0, "pairs");
        for (width, columns, largest) in [(1, 1, 5), (7, 64, 32767), (130, 100, 1000), (784, 256, 200)] {
            let mut number = |largest: usize| (rng.below(2 * largest + 1) as i32 - largest as i32) as i16;
            let matrix: Vec<i16> = (0..width * columns).map(|_| number(largest)).collect();
            let panels = PairPanels::new(width, columns, |i, to| {
                to.copy_from_slice(&matrix[i * columns..][..columns])
            });
            let dense: Vec<i16> = (0..8 * width)
                .map(|i| if i % 3 == 0 || i / width % 3 == 0 { number(4000) } else { 0 })
                .collect();
            let mut rows = PairRows::new(width);
            dense.chunks_exact(2 * width).for_each(|two| rows.push(two.split_at(width).into()));
            let expected = |i: usize, j: usize| {
                let entry = |k: usize| i32::from(dense[i * width + k]) * i32::from(matrix[k * columns + j]);
                if j < columns { (0..width).map(entry).sum() } else { 0 }
            };
            let mut lists: [List; 3] = Default::default();
            for list in &mut lists {
                *list = List {
                    columns: vec![0; width + LANES],
                    first: vec![0; width + LANES],
                    second: vec![0; width + LANES],
                    len: 0,
                };
            }
            let mut plain = lists.clone();
            let [one, two] =
                [0, 1].map(|i| dense[i * width..][..width].iter().map(|&x| i32::from(x)).collect::<Vec<_>>());
            sort_out(&one, &two, &mut lists);
            sort_out_from(0, &one, &two, &mut plain);
            for (list, plain) in lists.iter().zip(&plain) {
                assert_eq!((list.len, &list.columns[..list.len]), (plain.len, &plain.columns[..plain.len]));
                assert_eq!(list.first[..list.len], plain.first[..plain.len]);
                assert_eq!(list.second[..list.len], plain.second[..plain.len]);
            }
            let n = panels.padded();
            let expected: Vec<i32> = (2 * n..8 * n).map(|at| expected(at / n, at % n)).collect();
            let mut found = vec![vec![-1; 6 * n]; 4];
            pair_product(&rows, 1..4, &panels, &mut found[0]);
            product_body(&rows, 1..4, &panels, &mut found[1], reference);
            #[cfg(target_arch = "x86_64")]
            {
                // SAFETY: only where the CPU has the features.
                unsafe {
                    if super::super::has_avx2() {
                        x86::fast(&rows, 1..4, &panels, &mut found[2]);
                    }
                    if std::is_x86_feature_detected!("avx512vnni") && super::super::has_avx512() {
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
