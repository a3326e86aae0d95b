//! Matrices and their LU decomposition, in blocks.
//!
//! `ndarray` computes products. A decomposition and the solution of triangular systems work on
//! blocks of [`BLOCK`] columns, so that products take most of their time too (Golub and Van Loan,
//! *Matrix Computations*, 3.2.11 and 3.1.4).

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis};
use std::ops::{Add, AddAssign, Index, IndexMut, Mul, Neg, Range, Sub};

/// Columns of a block: 32 to 64 are equally fast at sizes of 200 to 1,000.
const BLOCK: usize = 48;

/// A matrix of real numbers. `*` is the product of matrices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mat(Array2<f64>);

impl Mat {
    /// The matrix whose entry in row `i` and column `j` is `entry(i, j)`.
    pub(crate) fn from_fn(
        rows: usize,
        columns: usize,
        mut entry: impl FnMut(usize, usize) -> f64,
    ) -> Mat {
        Mat(Array2::from_shape_fn((rows, columns), |(i, j)| entry(i, j)))
    }

    /// Zero in each entry.
    pub(crate) fn zeros(rows: usize, columns: usize) -> Mat {
        Mat(Array2::zeros((rows, columns)))
    }

    /// One on the diagonal, zero elsewhere.
    pub(crate) fn identity(n: usize) -> Mat {
        Mat(Array2::eye(n))
    }

    /// Number of rows.
    pub(crate) fn nrows(&self) -> usize {
        self.0.nrows()
    }

    /// Number of columns.
    pub(crate) fn ncols(&self) -> usize {
        self.0.ncols()
    }

    /// Rows and columns exchanged.
    pub(crate) fn transpose(&self) -> Mat {
        Mat(self.0.t().as_standard_layout().into_owned())
    }

    /// All entries, row after row.
    pub(crate) fn entries(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().copied()
    }

    /// The entries of a row.
    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = f64> + '_ {
        self.0.row(i).into_iter().copied()
    }

    /// The entries of a column.
    pub(crate) fn column(&self, j: usize) -> impl Iterator<Item = f64> + '_ {
        self.0.column(j).into_iter().copied()
    }

    /// Decomposes a square matrix into two triangular ones. Rows are exchanged so that each pivot
    /// is the largest entry of its column. A singular matrix gives solutions that are not finite.
    pub(crate) fn lu(self) -> Lu {
        let mut lu = self.0;
        let n = lu.nrows();
        let mut order: Vec<usize> = (0..n).collect();
        for begin in (0..n).step_by(BLOCK) {
            let end = n.min(begin + BLOCK);
            for k in begin..end {
                let size = |&i: &usize| lu[(i, k)].abs();
                let pivot = (k..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(k);
                if pivot != k {
                    (0..n).for_each(|j| lu.swap((k, j), (pivot, j)));
                    order.swap(k, pivot);
                }
                let diagonal = lu[(k, k)];
                for i in k + 1..n {
                    let factor = lu[(i, k)] / diagonal;
                    lu[(i, k)] = factor;
                    subtract_row(&mut lu, i, factor, k, k + 1..end);
                }
            }
            // The rows of the upper matrix to the right of the block, then the remaining matrix.
            for i in begin..end {
                for k in begin..i {
                    let factor = lu[(i, k)];
                    subtract_row(&mut lu, i, factor, k, end..n);
                }
            }
            let (above, below) = lu.view_mut().split_at(Axis(0), end);
            let upper = above.slice_axis(Axis(0), (begin..end).into());
            let upper = upper.slice_axis(Axis(1), (end..n).into());
            let (left, mut rest) = below.split_at(Axis(1), end);
            let left = left.slice_axis(Axis(1), (begin..end).into());
            general_mat_mul(-1.0, &left, &upper, 1.0, &mut rest);
        }
        Lu { lu, order }
    }
}

/// Subtracts `factor` times row `k` from row `i`, in these columns.
fn subtract_row(m: &mut Array2<f64>, i: usize, factor: f64, k: usize, columns: Range<usize>) {
    let width = m.ncols();
    let entries = m.as_slice_mut().expect("rows lie one after the other");
    let (before, after) = entries.split_at_mut(i.max(k) * width);
    let (at_i, at_k) = match k < i {
        true => (&mut after[columns.clone()], &before[k * width..][columns]),
        false => (&mut before[i * width..][columns.clone()], &after[columns]),
    };
    at_i.iter_mut().zip(at_k).for_each(|(to, from)| *to -= factor * from);
}

/// A decomposed matrix `m`: the product of both triangular matrices is `m` with its rows in
/// another order.
#[derive(Clone, Debug)]
pub(crate) struct Lu {
    /// Below the diagonal the lower matrix, whose diagonal is one; the rest is the upper one.
    lu: Array2<f64>,
    /// Row `i` of the product is row `order[i]` of `m`.
    order: Vec<usize>,
}

impl Lu {
    /// The matrix `x` with `m x = right`.
    pub(crate) fn solve(&self, right: &Mat) -> Mat {
        let mut x = Array2::from_shape_fn(right.0.dim(), |(i, j)| right[(self.order[i], j)]);
        forward(self.lu.view(), true, &mut x);
        backward(self.lu.view(), false, &mut x);
        Mat(x)
    }

    /// The matrix `x` with `x m = right`.
    pub(crate) fn solve_left(&self, right: &Mat) -> Mat {
        let mut y = right.transpose().0;
        forward(self.lu.t(), false, &mut y);
        backward(self.lu.t(), true, &mut y);
        let mut x = Mat::zeros(right.nrows(), right.ncols());
        for (i, &row) in self.order.iter().enumerate() {
            x.0.column_mut(row).assign(&y.row(i));
        }
        x
    }
}

/// Solves `l x = right` in place, `l` being the lower triangle of `m`; with `unit` its diagonal is
/// one.
fn forward(m: ArrayView2<'_, f64>, unit: bool, x: &mut Array2<f64>) {
    let (n, width) = x.dim();
    for begin in (0..n).step_by(BLOCK) {
        let end = n.min(begin + BLOCK);
        for i in begin..end {
            for k in begin..i {
                subtract_row(x, i, m[(i, k)], k, 0..width);
            }
            if !unit {
                x.row_mut(i).mapv_inplace(|v| v / m[(i, i)]);
            }
        }
        let (solved, mut rest) = x.view_mut().split_at(Axis(0), end);
        let solved = solved.slice_axis(Axis(0), (begin..end).into());
        let below = m.slice_axis(Axis(0), (end..n).into());
        let below = below.slice_axis(Axis(1), (begin..end).into());
        general_mat_mul(-1.0, &below, &solved, 1.0, &mut rest);
    }
}

/// Solves `u x = right` in place, `u` being the upper triangle of `m`; with `unit` its diagonal is
/// one.
fn backward(m: ArrayView2<'_, f64>, unit: bool, x: &mut Array2<f64>) {
    let (n, width) = x.dim();
    for begin in (0..n).step_by(BLOCK).rev() {
        let end = n.min(begin + BLOCK);
        for i in (begin..end).rev() {
            for k in i + 1..end {
                subtract_row(x, i, m[(i, k)], k, 0..width);
            }
            if !unit {
                x.row_mut(i).mapv_inplace(|v| v / m[(i, i)]);
            }
        }
        let (mut rest, solved) = x.view_mut().split_at(Axis(0), begin);
        let solved = solved.slice_axis(Axis(0), (0..end - begin).into());
        let above = m.slice_axis(Axis(0), (0..begin).into());
        let above = above.slice_axis(Axis(1), (begin..end).into());
        general_mat_mul(-1.0, &above, &solved, 1.0, &mut rest);
    }
}

impl Index<(usize, usize)> for Mat {
    type Output = f64;
    fn index(&self, at: (usize, usize)) -> &f64 {
        &self.0[at]
    }
}

impl IndexMut<(usize, usize)> for Mat {
    fn index_mut(&mut self, at: (usize, usize)) -> &mut f64 {
        &mut self.0[at]
    }
}

impl Neg for &Mat {
    type Output = Mat;
    fn neg(self) -> Mat {
        Mat(-&self.0)
    }
}

impl AddAssign<&Mat> for Mat {
    fn add_assign(&mut self, other: &Mat) {
        self.0 += &other.0;
    }
}

impl Add<&Mat> for &Mat {
    type Output = Mat;
    fn add(self, other: &Mat) -> Mat {
        Mat(&self.0 + &other.0)
    }
}

impl Sub<&Mat> for &Mat {
    type Output = Mat;
    fn sub(self, other: &Mat) -> Mat {
        Mat(&self.0 - &other.0)
    }
}

impl Mul<&Mat> for &Mat {
    type Output = Mat;
    fn mul(self, other: &Mat) -> Mat {
        Mat(self.0.dot(&other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The largest difference between two matrices.
    fn apart(a: &Mat, b: &Mat) -> f64 {
        (a - b).entries().fold(0.0, |most, v| f64::max(most, v.abs()))
    }

    /// A matrix of pseudo-random entries between -1 and 1.
    fn drawn(rows: usize, columns: usize, seed: u64) -> Mat {
        let mut state = seed | 1;
        Mat::from_fn(rows, columns, |_, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
    }

    #[test]
    fn rows_change_places_where_a_pivot_is_zero() {
        let m = Mat::from_fn(2, 2, |i, j| f64::from(u8::from(i != j)));
        let right = Mat::from_fn(2, 1, |i, _| [3.0, 5.0][i]);
        assert_eq!(m.lu().solve(&right), Mat::from_fn(2, 1, |i, _| [5.0, 3.0][i]));
    }

    #[test]
    fn a_singular_matrix_has_no_finite_solution() {
        let m = Mat::from_fn(3, 3, |_, _| 1.0);
        assert!(m.lu().solve(&Mat::identity(3)).entries().any(|v| !v.is_finite()));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 60,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Sizes around one, two and three blocks, and far from any multiple of a block.
        #[test]
        fn solutions_solve(
            n in prop_oneof![1usize..6, 46usize..51, 95usize..98, 140usize..150],
            width in 1usize..5,
            seed: u64,
        ) {
            let (m, right) = (drawn(n, n, seed), drawn(n, width, !seed));
            let lu = m.clone().lu();
            let x = lu.solve(&right);
            let scale = x.entries().fold(1.0, |most, v| f64::max(most, v.abs())) * n as f64;
            prop_assert!(apart(&(&m * &x), &right) < 1e-13 * scale);
            let left = right.transpose();
            let y = lu.solve_left(&left);
            let scale = y.entries().fold(1.0, |most, v| f64::max(most, v.abs())) * n as f64;
            prop_assert!(apart(&(&y * &m), &left) < 1e-13 * scale);
        }
    }
}
