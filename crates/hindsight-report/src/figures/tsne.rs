//! t-SNE (van der Maaten and Hinton, 2008), exact, for some hundred points.
//!
//! It starts from the first two principal components instead of from noise, so the same points always give
//! the same picture, and a better one at large.

const PERPLEXITY: f64 = 30.0;
const STEPS: usize = 500;
/// Steps of early exaggeration.
const EARLY: usize = 120;

/// Coordinates in the plane for each of `points`, centred.
pub(super) fn tsne(points: &[Vec<f32>]) -> Vec<[f64; 2]> {
    let n = points.len();
    if n < 3 {
        return (0..n).map(|i| [i as f64 - (n as f64 - 1.0) / 2.0, 0.0]).collect();
    }
    let p = affinities(points);
    let mut y = principal(points);
    let (mut speed, mut gain) = (vec![[0.0f64; 2]; n], vec![[1.0f64; 2]; n]);
    let (mut q, mut force) = (vec![0.0; n * n], vec![[0.0; 2]; n]);
    for step in 0..STEPS {
        let exaggeration = if step < EARLY { 8.0 } else { 1.0 };
        let momentum = if step < EARLY { 0.5 } else { 0.8 };
        let mut sum = 0.0;
        for i in 0..n {
            for j in 0..i {
                let (a, b) = (y[i][0] - y[j][0], y[i][1] - y[j][1]);
                q[i * n + j] = 1.0 / (1.0 + a * a + b * b);
                sum += 2.0 * q[i * n + j];
            }
        }
        force.fill([0.0; 2]);
        for i in 0..n {
            for j in 0..i {
                let closeness = q[i * n + j];
                let pull = (exaggeration * p[i * n + j] - closeness / sum) * closeness;
                for c in 0..2 {
                    let f = pull * (y[i][c] - y[j][c]);
                    force[i][c] += f;
                    force[j][c] -= f;
                }
            }
        }
        let rate = (n as f64 / 12.0).max(50.0);
        for i in 0..n {
            for c in 0..2 {
                let gradient = 4.0 * force[i][c];
                gain[i][c] =
                    if (gradient > 0.0) == (speed[i][c] > 0.0) { gain[i][c] * 0.8 } else { gain[i][c] + 0.2 };
                gain[i][c] = gain[i][c].max(0.01);
                speed[i][c] = momentum * speed[i][c] - rate * gain[i][c] * gradient;
                y[i][c] += speed[i][c];
            }
        }
        centre(&mut y);
    }
    y
}

fn centre(y: &mut [[f64; 2]]) {
    for c in 0..2 {
        let mean = y.iter().map(|place| place[c]).sum::<f64>() / y.len() as f64;
        y.iter_mut().for_each(|place| place[c] -= mean);
    }
}

/// Symmetric neighbour probabilities; the width of each point's Gaussian follows from the perplexity.
fn affinities(points: &[Vec<f32>]) -> Vec<f64> {
    let n = points.len();
    let mut distances = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            let squares = points[i].iter().zip(&points[j]).map(|(a, b)| f64::from(a - b).powi(2));
            distances[i * n + j] = squares.sum();
            distances[j * n + i] = distances[i * n + j];
        }
    }
    let entropy_wanted = PERPLEXITY.min((n - 1) as f64 / 3.0).max(1.1).ln();
    let mut p = vec![0.0; n * n];
    for i in 0..n {
        let row = &distances[i * n..][..n];
        let nearest = (0..n).filter(|&j| j != i).map(|j| row[j]).fold(f64::INFINITY, f64::min);
        let mean = row.iter().sum::<f64>() / n as f64;
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut precision = 1.0 / (mean - nearest).max(1e-12);
        for _ in 0..60 {
            let (mut sum, mut weighted) = (0.0, 0.0);
            for j in (0..n).filter(|&j| j != i) {
                // Relative to the nearest, or all would vanish at high precision.
                let w = (-(row[j] - nearest) * precision).exp();
                p[i * n + j] = w;
                sum += w;
                weighted += w * (row[j] - nearest);
            }
            let entropy = sum.ln() + precision * weighted / sum;
            p[i * n..][..n].iter_mut().for_each(|w| *w /= sum);
            if (entropy - entropy_wanted).abs() < 1e-5 {
                break;
            }
            if entropy > entropy_wanted {
                low = precision
            } else {
                high = precision
            }
            precision = if high.is_finite() { (low + high) / 2.0 } else { precision * 2.0 };
        }
    }
    let mut joint = vec![0.0; n * n];
    for i in 0..n {
        for j in (0..n).filter(|&j| j != i) {
            joint[i * n + j] = (p[i * n + j] + p[j * n + i]) / (2.0 * n as f64);
        }
    }
    joint
}

/// The first two principal components, by power iteration, scaled small.
fn principal(points: &[Vec<f32>]) -> Vec<[f64; 2]> {
    let (n, width) = (points.len(), points[0].len());
    let mean: Vec<f64> =
        (0..width).map(|k| points.iter().map(|row| f64::from(row[k])).sum::<f64>() / n as f64).collect();
    let rows: Vec<Vec<f64>> =
        points.iter().map(|row| row.iter().zip(&mean).map(|(x, m)| f64::from(*x) - m).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut places = vec![[0.0; 2]; n];
    let mut found: Vec<Vec<f64>> = Vec::new();
    for c in 0..2 {
        // Any start that is not at right angles to what is looked for will do.
        let mut axis: Vec<f64> = (0..width).map(|k| 1.0 + (k * 7 + c * 3) as f64 % 11.0).collect();
        for _ in 0..30 {
            let mut next = vec![0.0; width];
            for row in &rows {
                let along = dot(row, &axis);
                next.iter_mut().zip(row).for_each(|(to, x)| *to += along * x);
            }
            for other in &found {
                let along = dot(&next, other);
                next.iter_mut().zip(other).for_each(|(to, x)| *to -= along * x);
            }
            let length = dot(&next, &next).sqrt().max(1e-300);
            axis = next.iter().map(|x| x / length).collect();
        }
        let along: Vec<f64> = rows.iter().map(|row| dot(row, &axis)).collect();
        let spread = (dot(&along, &along) / n as f64).sqrt().max(1e-300);
        for (i, (place, along)) in places.iter_mut().zip(along).enumerate() {
            // Points that are the same must not stay on top of each other.
            place[c] = 1e-2 * along / spread + 1e-6 * ((i * (3 + 2 * c)) as f64 % 17.0);
        }
        found.push(axis);
    }
    centre(&mut places);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_stay_apart_and_the_picture_is_always_the_same() {
        let point = |i: usize| -> Vec<f32> {
            let cluster = i % 3;
            (0..8).map(|k| if k == cluster { 10.0 } else { ((i * 31 + k * 17) % 13) as f32 / 13.0 }).collect()
        };
        let points: Vec<_> = (0..90).map(point).collect();
        let places = tsne(&points);
        assert_eq!(places, tsne(&points));
        let distance =
            |i: usize, j: usize| (0..2).map(|c| (places[i][c] - places[j][c]).powi(2)).sum::<f64>();
        for i in 0..90 {
            let others = (0..90).filter(|&j| j != i);
            let nearest = others.min_by(|&a, &b| distance(i, a).total_cmp(&distance(i, b))).unwrap();
            assert_eq!(nearest % 3, i % 3, "{i}");
        }
    }

    #[test]
    fn odd_points_give_places_all_the_same() {
        for points in [vec![vec![1.0f32; 4]; 20], vec![vec![0.0; 4]; 2], vec![], vec![vec![f32::MAX; 2]; 5]] {
            let places = tsne(&points);
            assert_eq!(places.len(), points.len());
        }
        assert!(tsne(&vec![vec![1.0f32; 4]; 20]).iter().flatten().all(|x| x.is_finite()));
    }
}
