//! A steady-state step allocates nothing: a counting allocator watches it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use hindsight_nn::{Mlp, Net, Rng, Tape, optim::Adam};

struct Counting;

thread_local! {
    /// Per thread, since the test harness has threads of its own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
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
fn a_steady_step_allocates_nothing() {
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
        let (mut here, mut there) = (Tape::new(), Tape::new());
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
            net.accumulate_difference(&mut there, &mut here, 0.1, &mut product);
            net.hvp_along(&theta, &mut there, &mut Vec::new(), &mut tape, 0.1, &mut product);
            net.accumulate(&mut tape, -0.1, &mut theta);
            net.input_gradient(&theta, &mut tape, &mut gradient);
            // Entries become neither more nor fewer, so that the sparse input stays as it is.
            gradient.iter_mut().zip(&x).filter(|(_, x)| **x == 0.0).for_each(|(g, _)| *g = 0.0);
            adam.step(&mut x, &gradient);
            ALLOCATIONS.get() - before
        };
        assert!(step() > 0, "the first step fills the tape");
        assert_eq!([step(), step(), step()], [0; 3], "at {share} of the inputs not zero");
    }
}
