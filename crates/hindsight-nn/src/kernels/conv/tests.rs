//! The kernels against their definitions in `f64`.

use super::*;

/// Sizes with every kind of tail.
const SIZES: [[usize; 2]; 8] = [[1, 1], [2, 3], [4, 4], [5, 7], [6, 6], [8, 8], [11, 11], [21, 21]];

/// Kernels and strides.
const KINDS: [[usize; 2]; 4] = [[1, 1], [1, 2], [3, 1], [3, 2]];

fn convs() -> impl Iterator<Item = Conv> {
    let channels = [[1, 1], [3, 5], [5, 8], [8, 20], [20, 20], [20, 40], [40, 20]];
    SIZES.into_iter().flat_map(move |size| {
        KINDS.into_iter().flat_map(move |[kernel, stride]| {
            channels
                .into_iter()
                .filter(move |[inputs, outputs]| size[0] * inputs * outputs < 9000)
                .map(move |[inputs, outputs]| Conv { kernel, stride, inputs, outputs, size })
        })
    })
}

/// Numbers of variance 1. The engine's generator is slow where the crates around it are not optimised.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0) * 3f32.sqrt()
    }
}

fn draw<T: Scalar>(len: usize, rng: &mut Draws) -> Vec<T> {
    // The same numbers in `f32` and `f64`, in which the definitions are evaluated.
    (0..len).map(|_| T::of(f64::from(rng.uniform()))).collect()
}

/// Images with zeros in the padding.
fn images<T: Scalar>(count: usize, channels: usize, rng: &mut Draws) -> Vec<T> {
    let mut x = draw(count * lanes(channels), rng);
    x.chunks_exact_mut(lanes(channels)).for_each(|pixel| pixel[channels..].fill(T::zero()));
    x
}

fn wide<T: Scalar>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.wide()).collect()
}

/// `found` is `expected` up to the rounding of `T`, where sums of `terms` products were formed.
#[track_caller]
fn assert_close<T: Scalar>(found: &[T], expected: &[f64], terms: usize, conv: &Conv) {
    let tolerance = T::epsilon().wide() * 300.0 * (1.0 + terms as f64).sqrt();
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found.wide() - expected).abs();
        assert!(error <= tolerance, "{found:?} instead of {expected} at {i} of {conv:?}");
    }
}

#[track_caller]
fn assert_padded<T: Scalar>(y: &[T], channels: usize) {
    for pixel in y.chunks_exact(lanes(channels)) {
        assert!(pixel[channels..].iter().all(|&y| y == T::zero()), "padding that is not zero");
    }
}

fn pixels(size: [usize; 2]) -> usize {
    size[0] * size[1]
}

fn check_forward<T: Scalar>() {
    let mut rng = Draws(1);
    let (mut packed, mut workspace) = (Packed::default(), Workspace::default());
    for (i, conv) in convs().enumerate() {
        let batch = if i % 3 == 0 { 3 } else { 1 };
        let x: Vec<T> = images(batch * pixels(conv.size), conv.inputs, &mut rng);
        let before: Vec<T> = images(batch * pixels(conv.out_size()), conv.outputs, &mut rng);
        let weights: Vec<T> = draw(conv.weights(), &mut rng);
        let [bias, scale] = [(); 2].map(|()| draw::<T>(conv.outputs, &mut rng));
        let [wide_bias, wide_scale] = [&bias, &scale].map(|x| wide(x));
        for kind in [i % 8, (i + 3) % 8] {
            let [has_scale, add, relu] = [0, 1, 2].map(|bit| kind >> bit & 1 == 1);
            let has_bias = add != relu;
            let mut expected = wide(&before);
            let finish = Finish { bias: has_bias.then_some(&wide_bias[..]), add, relu };
            let w = reference::scaled(&conv, &wide(&weights), has_scale.then_some(&wide_scale[..]));
            reference::forward(&conv, &wide(&x), &w, finish, &mut expected);

            pack_forward(&conv, &weights, has_scale.then_some(&scale[..]), &mut packed);
            let finish = Finish { bias: has_bias.then_some(&bias[..]), add, relu };
            let mut found = if add { before.clone() } else { vec![T::nan(); before.len()] };
            forward(&conv, &x, &packed, finish, &mut found, &mut workspace);
            assert_close(&found, &expected, conv.kernel * conv.kernel * conv.inputs, &conv);
            assert_padded(&found, conv.outputs);

            // The last image by itself is what it is among the others.
            let (alone, rest) = (&x[(batch - 1) * conv.in_len()..], (batch - 1) * conv.out_len());
            let mut y = before[rest..].to_vec();
            forward(&conv, alone, &packed, finish, &mut y, &mut workspace);
            assert!(y == found[rest..], "an image depends on its batch at {conv:?}");
        }
    }
}

#[test]
fn forward_is_the_definition_and_an_image_is_independent_of_its_batch() {
    check_forward::<f32>();
    check_forward::<f64>();
}

fn check_backward<T: Scalar>() {
    let mut rng = Draws(2);
    let (mut packed, mut workspace) = (Packed::default(), Workspace::default());
    for (i, conv) in convs().enumerate() {
        let batch = if i % 3 == 1 { 3 } else { 1 };
        let dy: Vec<T> = images(batch * pixels(conv.out_size()), conv.outputs, &mut rng);
        let before: Vec<T> = images(batch * pixels(conv.size), conv.inputs, &mut rng);
        let weights: Vec<T> = draw(conv.weights(), &mut rng);
        let add = i % 2 == 0;
        let mut expected = wide(&before);
        reference::backward(&conv, &wide(&dy), &wide(&weights), add, &mut expected);

        pack_backward(&conv, &weights, &mut packed);
        let mut found = if add { before.clone() } else { vec![T::nan(); before.len()] };
        backward(&conv, &dy, &packed, add, &mut found, &mut workspace);
        assert_close(&found, &expected, conv.kernel * conv.kernel * conv.outputs, &conv);
        assert_padded(&found, conv.inputs);
    }
}

#[test]
fn backward_is_the_definition() {
    check_backward::<f32>();
    check_backward::<f64>();
}

/// [`accumulate`] over all pairs.
fn accumulate_all<T: Scalar>(
    conv: &Conv,
    pairs: &[(&[T], &[T])],
    scale: T,
    into: &mut [T],
    workspace: &mut Workspace<T>,
) {
    let mut sums = Vec::new();
    for (i, &pair) in pairs.iter().enumerate() {
        let last = (i + 1 == pairs.len()).then_some((scale, &mut *into));
        accumulate(conv, pair, Part { first: i == 0, last }, &mut sums, workspace);
    }
}

fn check_accumulate<T: Scalar>() {
    let mut rng = Draws(3);
    let mut workspace = Workspace::default();
    for (i, conv) in convs().enumerate() {
        let pairs: Vec<[Vec<T>; 2]> = [1, 3, 2][..1 + i % 3]
            .iter()
            .map(|batch| {
                let x = images(batch * pixels(conv.size), conv.inputs, &mut rng);
                [x, images(batch * pixels(conv.out_size()), conv.outputs, &mut rng)]
            })
            .collect();
        let before: Vec<T> = draw(conv.weights(), &mut rng);
        let mut expected = wide(&before);
        let wide_pairs: Vec<_> = pairs.iter().map(|[x, dy]| [wide(x), wide(dy)]).collect();
        let wide_pairs: Vec<_> = wide_pairs.iter().map(|[x, dy]| (&x[..], &dy[..])).collect();
        reference::accumulate(&conv, &wide_pairs, -0.25, &mut expected);

        let mut found = before;
        let pairs: Vec<_> = pairs.iter().map(|[x, dy]| (&x[..], &dy[..])).collect();
        accumulate_all(&conv, &pairs, T::of(-0.25), &mut found, &mut workspace);
        assert_close(&found, &expected, 6 * pixels(conv.out_size()), &conv);
    }
}

#[test]
fn accumulate_is_the_definition_over_all_pairs() {
    check_accumulate::<f32>();
    check_accumulate::<f64>();
}

#[test]
fn gradients_are_accumulate_and_backward() {
    let mut rng = Draws(5);
    let (mut packed, mut workspace) = (Packed::default(), Workspace::default());
    for conv in convs() {
        let x: Vec<f32> = images(3 * pixels(conv.size), conv.inputs, &mut rng);
        let dy: Vec<f32> = images(3 * pixels(conv.out_size()), conv.outputs, &mut rng);
        let weights: Vec<f32> = draw(conv.weights(), &mut rng);
        let (mut expected, mut found) = (weights.clone(), weights.clone());
        let (mut expected_dx, mut found_dx) = (x.clone(), x.clone());
        pack_backward(&conv, &weights, &mut packed);
        accumulate_all(&conv, &[(&x, &dy)], 0.5, &mut expected, &mut workspace);
        backward(&conv, &dy, &packed, true, &mut expected_dx, &mut workspace);

        let part = Part { first: true, last: Some((0.5, &mut found[..])) };
        let back = Back { packed: &packed, add: true, dx: &mut found_dx };
        gradients(&conv, (&x, &dy), part, &mut Vec::new(), back, &mut workspace);
        assert!(found == expected && found_dx == expected_dx, "both gradients at {conv:?}");
    }
}

/// No images, no change; and the buffers of one shape serve any other.
#[test]
fn an_empty_batch_is_fine() {
    let conv = Conv { kernel: 3, stride: 1, inputs: 3, outputs: 5, size: [4, 4] };
    let (mut packed, mut workspace) = (Packed::default(), Workspace::default());
    let weights: Vec<f32> = vec![1.0; conv.weights()];
    pack_forward(&conv, &weights, None, &mut packed);
    forward(&conv, &[], &packed, Finish::default(), &mut [], &mut workspace);
    pack_backward(&conv, &weights, &mut packed);
    backward(&conv, &[], &packed, false, &mut [], &mut workspace);
    let mut into = weights.clone();
    accumulate_all(&conv, &[(&[], &[])], 1.0, &mut into, &mut workspace);
    assert_eq!(into, weights);
}

/// The transforms enlarge rounding errors: to 5e-6 of the scale of the results by tiles of four, 2e-5 by
/// tiles of three.
#[test]
fn transforms_are_accurate_over_many_channels() {
    let mut rng = Draws(4);
    let (mut packed, mut workspace) = (Packed::default(), Workspace::default());
    for size in [[6, 6], [4, 4]] {
        let conv = Conv { kernel: 3, stride: 1, inputs: 160, outputs: 88, size };
        let [x, dy]: [Vec<f32>; 2] =
            [conv.inputs, conv.outputs].map(|maps| images(pixels(size), maps, &mut rng));
        let weights: Vec<f32> = draw(conv.weights(), &mut rng);
        let worst = |found: &[f32], expected: &[f64], terms: usize| {
            let errors =
                found.iter().zip(expected).map(|(found, expected)| (f64::from(*found) - expected).abs());
            errors.fold(0.0, f64::max) / (terms as f64).sqrt()
        };

        let (mut found, mut expected) = (vec![0.0; dy.len()], vec![0.0; dy.len()]);
        pack_forward(&conv, &weights, None, &mut packed);
        forward(&conv, &x, &packed, Finish::default(), &mut found, &mut workspace);
        reference::forward(&conv, &wide(&x), &wide(&weights), Finish::default(), &mut expected);
        let forward_error = worst(&found, &expected, 9 * conv.inputs);

        let (mut found, mut expected) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        pack_backward(&conv, &weights, &mut packed);
        backward(&conv, &dy, &packed, false, &mut found, &mut workspace);
        reference::backward(&conv, &wide(&dy), &wide(&weights), false, &mut expected);
        let backward_error = worst(&found, &expected, 9 * conv.outputs);

        let (mut found, mut expected) = (vec![0.0; weights.len()], vec![0.0; weights.len()]);
        accumulate_all(&conv, &[(&x, &dy)], 1.0, &mut found, &mut workspace);
        reference::accumulate(&conv, &[(&wide(&x), &wide(&dy))], 1.0, &mut expected);
        let accumulate_error = worst(&found, &expected, pixels(size));

        let errors = [forward_error, backward_error, accumulate_error];
        assert!(
            errors.iter().all(|&error| error < 5e-5),
            "{errors:?} of the scale of the results at {conv:?}"
        );
    }
}
