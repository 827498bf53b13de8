//! A steady-state step does not allocate, checked with a counting allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use hindsight_nn::{Gradient, Mlp, Net, Rng, Tape, optim::Adam};

struct Counting;

thread_local! {
    /// Per thread: the test harness has threads too.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_steady_state_step_does_not_allocate() {
    let net = Mlp::new(&[784, 256, 256, 10]).unwrap();
    let mut rng = Rng::named(1, "allocations");
    let mut theta: Vec<f32> = net.init(&mut rng);
    let labels: Vec<u32> = (0..20).map(|i| i % 10).collect();
    let (v, mut product) = (theta.clone(), theta.clone());
    let anchors: Vec<f32> = (0..10 * 784).map(|_| rng.uniform() as f32).collect();
    for share in [0.2, 1.0] {
        let mut x: Vec<f32> =
            (0..20 * 784).map(|_| if rng.uniform() < share { rng.uniform() as f32 } else { 0.0 }).collect();
        let (mut tape, mut gradient) = (Tape::new(), vec![0.0; x.len()]);
        let (mut here, mut there, mut ahead) = (Tape::new(), Tape::new(), [Tape::new(), Tape::new()]);
        let mut adam = Adam::new(1e-3, x.len());
        let mut step = || {
            let before = ALLOCATIONS.get();
            net.forward(&theta, &x, &mut tape);
            tape.cross_entropy(&labels, None);
            net.backward(&theta, &mut tape);
            net.hvp(&theta, &v, &mut tape, 0.1, &mut product);
            for (at, tape) in [(&theta, &mut here), (&product, &mut there)] {
                net.forward(at, &anchors, tape);
                tape.seed(&v[..100], None);
                net.backward(at, tape);
            }
            let (mut g, mut r) = (Gradient::new(&net, &mut there), Gradient::new(&net, &mut here));
            g.add_sum_to(-1.0, &mut r, 0.1, &mut product);
            g.hvp(&theta, &mut tape, 0.1, &mut product);
            std::hint::black_box(g.dot(&mut r));
            g.for_each_block(|_, _| {});
            r.forward_ahead(&theta, 0.1, &anchors, &mut ahead);
            net.accumulate(&mut tape, -0.1, &mut theta);
            net.input_gradient(&theta, &mut tape, &mut gradient);
            // Keeps the sparsity pattern of the input.
            gradient.iter_mut().zip(&x).filter(|(_, x)| **x == 0.0).for_each(|(g, _)| *g = 0.0);
            adam.step(&mut x, &gradient);
            ALLOCATIONS.get() - before
        };
        assert!(step() > 0, "the first step fills the tape");
        assert_eq!([step(), step(), step()], [0; 3], "at {share} of the inputs not zero");
    }
}
