//! Matrix operations for Markov chains, in addition to the operators of [`crate::linear`].

use crate::Refused;
use crate::linear::Mat;

/// Makes a square matrix of these rows.
///
/// # Errors
/// The rows do not make a square matrix, or a number is not finite.
pub(crate) fn from_rows(what: &'static str, rows: &[Vec<f64>]) -> Result<Mat, Refused> {
    let n = rows.len();
    if n == 0 || rows.iter().any(|row| row.len() != n) {
        return Err(Refused::Shape { what, why: "a matrix is not square".into() });
    }
    if rows.iter().flatten().any(|v| !v.is_finite()) {
        return Err(Refused::Shape { what, why: "a rate is not finite".into() });
    }
    Ok(Mat::from_fn(n, n, |i, j| rows[i][j]))
}

/// The Kronecker product.
pub(crate) fn kron(a: &Mat, b: &Mat) -> Mat {
    let (rows, columns) = (b.nrows(), b.ncols());
    Mat::from_fn(a.nrows() * rows, a.ncols() * columns, |i, j| {
        a[(i / rows, j / columns)] * b[(i % rows, j % columns)]
    })
}

/// The Kronecker sum: the generator of two independent chains together.
pub(crate) fn kron_sum(a: &Mat, b: &Mat) -> Mat {
    &kron(a, &Mat::identity(b.nrows())) + &kron(&Mat::identity(a.nrows()), b)
}

/// Row times matrix.
pub(crate) fn row_times(row: &[f64], m: &Mat) -> Vec<f64> {
    let mut product = vec![0.0; m.ncols()];
    for (i, factor) in row.iter().enumerate() {
        product.iter_mut().zip(m.row(i)).for_each(|(sum, value)| *sum += value * factor);
    }
    product
}

/// Matrix times column.
pub(crate) fn times_column(m: &Mat, column: &[f64]) -> Vec<f64> {
    (0..m.nrows()).map(|i| m.row(i).zip(column).map(|(a, b)| a * b).sum()).collect()
}

/// Row times column.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The sums of the rows.
pub(crate) fn row_sums(m: &Mat) -> Vec<f64> {
    times_column(m, &vec![1.0; m.ncols()])
}

/// The largest absolute value.
pub(crate) fn largest(m: &Mat) -> f64 {
    m.entries().fold(0.0, |most, v| f64::max(most, v.abs()))
}

/// Solves `m x = b` for a column.
pub(crate) fn solve_column(m: &Mat, b: &[f64]) -> Vec<f64> {
    m.clone().lu().solve(&Mat::from_fn(b.len(), 1, |i, _| b[i])).entries().collect()
}

/// Solves `x m = b` for a row.
pub(crate) fn solve_row(m: &Mat, b: &[f64]) -> Vec<f64> {
    m.clone().lu().solve_left(&Mat::from_fn(1, b.len(), |_, j| b[j])).entries().collect()
}

/// The columns with these indices.
pub(crate) fn columns(m: &Mat, which: &[usize]) -> Mat {
    Mat::from_fn(m.nrows(), which.len(), |i, j| m[(i, which[j])])
}

/// The rows with these indices.
pub(crate) fn rows(m: &Mat, which: &[usize]) -> Mat {
    Mat::from_fn(which.len(), m.ncols(), |i, j| m[(which[i], j)])
}

/// Adds `factor * part` to the columns with these indices.
pub(crate) fn add_columns(m: &mut Mat, which: &[usize], part: &Mat, factor: f64) {
    for (j, &to) in which.iter().enumerate() {
        for i in 0..part.nrows() {
            m[(i, to)] += factor * part[(i, j)];
        }
    }
}

/// Indices of the columns with a value other than zero.
pub(crate) fn occupied(m: &Mat) -> Vec<usize> {
    (0..m.ncols()).filter(|&j| m.column(j).any(|v| v != 0.0)).collect()
}

/// The stationary distribution of a generator.
pub(crate) fn stationary(generator: &Mat) -> Vec<f64> {
    let n = generator.nrows();
    // One of the equations follows from the others, and is replaced by the normalization.
    let with_sum = Mat::from_fn(n, n, |i, j| if j == 0 { 1.0 } else { generator[(i, j)] });
    let mut right = vec![0.0; n];
    right[0] = 1.0;
    solve_row(&with_sum, &right)
}

/// Checks that the matrix is a part of a generator: rates off the diagonal are not negative, and no
/// row sum is above zero, up to rounding.
pub(crate) fn check_within(what: &'static str, m: &Mat) -> Result<(), Refused> {
    let most = largest(m);
    for (i, sum) in row_sums(m).into_iter().enumerate() {
        if (0..m.ncols()).any(|j| j != i && m[(i, j)] < 0.0) {
            return Err(Refused::Shape { what, why: format!("row {} has a negative rate", i + 1) });
        }
        if sum > 1e-9 * most {
            return Err(Refused::Shape {
                what,
                why: format!("the rates of row {} sum up to {sum}, above zero", i + 1),
            });
        }
    }
    Ok(())
}

/// Poisson probabilities of `0, 1, …`, up to a number beyond which the total is below 1e-18.
pub(crate) fn poisson(mean: f64) -> Vec<f64> {
    if mean <= 0.0 {
        return vec![1.0];
    }
    let last = (mean + 10.0 * mean.sqrt() + 40.0) as usize;
    let mut logarithm = -mean;
    let mut weights: Vec<f64> = (0..=last)
        .map(|m| {
            if m > 0 {
                logarithm += (mean / m as f64).ln();
            }
            logarithm.exp()
        })
        .collect();
    // Removes the rounding error of the logarithms.
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= sum);
    weights
}
