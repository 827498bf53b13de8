//! Buffers on a [`Tape`](super::Tape) whose type only the network knows.

use std::{any::Any, fmt::Debug};

/// What a network keeps on a tape besides values and deltas. It replaces what another network has left.
#[derive(Debug, Default)]
pub(crate) struct NetScratch(Option<Box<dyn Buffers>>);

/// Any cloneable value; `dyn Any` alone cannot be cloned.
trait Buffers: Any + Debug + Send + Sync {
    fn boxed_clone(&self) -> Box<dyn Buffers>;
}

impl<B: Any + Debug + Clone + Send + Sync> Buffers for B {
    fn boxed_clone(&self) -> Box<dyn Buffers> {
        Box::new(self.clone())
    }
}

impl Clone for NetScratch {
    fn clone(&self) -> NetScratch {
        NetScratch(self.0.as_deref().map(Buffers::boxed_clone))
    }
}

impl NetScratch {
    /// The buffers of type `B`, if the last pass has left such.
    pub(crate) fn get<B: Any>(&self) -> Option<&B> {
        self.0.as_deref().and_then(|buffers| (buffers as &dyn Any).downcast_ref())
    }

    /// The buffers of type `B`; empty ones if the last pass was of another network.
    pub(crate) fn get_or_default<B: Any + Debug + Clone + Default + Send + Sync>(&mut self) -> &mut B {
        if self.get::<B>().is_none() {
            self.0 = Some(Box::new(B::default()));
        }
        let buffers = self.0.as_deref_mut().expect("set above");
        (buffers as &mut dyn Any).downcast_mut().expect("of the type that was set above")
    }
}
