//! The settings of HAL, parsed.

use hindsight_nn::BatchNormMode;

use crate::settings::{Settings, choices};

choices! {
    /// A named group of settings.
    pub(super) enum Preset {
        Authors = "authors",
        Paper = "paper",
        Frozen = "frozen",
        Stable = "stable",
        Robust = "robust",
    }
}

choices! {
    /// Which gradient of R is taken; r is the change of the anchors' logits, J their Jacobian.
    pub(super) enum PenaltyGradient {
        /// 2 [J_theta^T r - (I - alpha H) J_theta~^T r]
        Exact = "exact",
        /// 2 [J_theta^T r - J_theta~^T r]
        First = "first",
        /// 2 J_theta^T r
        Frozen = "frozen",
    }
}

choices! {
    /// Where anchors come from.
    pub(super) enum Anchors {
        /// Learned with theta fine-tuned on the past.
        Learned = "learned",
        /// The last real sample of each class.
        Real = "real",
        /// Learned with theta fine-tuned on all future tasks.
        Oracle = "oracle",
    }
}

choices! {
    /// R over several anchors.
    pub(super) enum Penalty {
        Mean = "mean",
        Sum = "sum",
    }
}

choices! {
    /// What a mean embedding phi is of.
    pub(super) enum Phi {
        Class = "class",
        Task = "task",
    }
}

choices! {
    /// The distance of an anchor's embedding to phi.
    pub(super) enum Distance {
        Cosine = "cosine",
        Squared = "squared",
    }
}

choices! {
    /// Where the search for an anchor starts.
    pub(super) enum AnchorStart {
        /// At the running mean of its class's inputs.
        Mean = "mean",
        Normal = "normal",
        Uniform = "uniform",
    }
}

choices! {
    /// The optimiser of the anchor search.
    pub(super) enum Optimiser {
        Adam = "adam",
        Ascent = "ascent",
    }
}

choices! {
    /// How a found anchor is scaled.
    pub(super) enum AnchorScale {
        /// To [0, 1] by its minimum and maximum.
        MinMax = "minmax",
        /// To the range of the inputs so far.
        Range = "range",
        None = "none",
    }
}

choices! {
    /// The statistics that batch-norm takes for anchors.
    pub(super) enum AnchorStatistics {
        Batch = "batch",
        Running = "running",
    }
}

choices! {
    /// The anchors of the first task.
    pub(super) enum FirstAnchors {
        Real = "real",
        Learned = "learned",
    }
}

choices! {
    /// How theta is fine-tuned to theta_M.
    pub(super) enum Hindsight {
        /// `hindsight_steps` SGD steps.
        Steps = "steps",
        /// One epoch over the memory.
        Epoch = "epoch",
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct HalSettings {
    pub(super) rate: f32,
    pub(super) lambda: f32,
    pub(super) gamma: f32,
    pub(super) beta: f32,
    pub(super) gradient: PenaltyGradient,
    pub(super) penalty: Penalty,
    pub(super) anchors: Anchors,
    pub(super) first_anchors: FirstAnchors,
    pub(super) anchors_per_step: usize,
    pub(super) anchor_steps: usize,
    pub(super) anchor_rate: f32,
    pub(super) anchor_optimiser: Optimiser,
    pub(super) anchor_scale: AnchorScale,
    pub(super) anchor_statistics: AnchorStatistics,
    pub(super) phi: Phi,
    pub(super) distance: Distance,
    pub(super) start: AnchorStart,
    pub(super) start_decay: f32,
    pub(super) hindsight: Hindsight,
    pub(super) hindsight_steps: usize,
    pub(super) consolidate_every: usize,
    pub(super) trust: f32,
    pub(super) clip: f32,
}

impl HalSettings {
    pub(super) fn new(settings: &Settings) -> HalSettings {
        HalSettings {
            rate: settings.float("rate"),
            lambda: settings.float("lambda"),
            gamma: settings.float("gamma"),
            beta: settings.float("beta"),
            gradient: settings.choice("gradient"),
            penalty: settings.choice("penalty"),
            anchors: settings.choice("anchors"),
            first_anchors: settings.choice("first_anchors"),
            anchors_per_step: settings.int("anchors_per_step"),
            anchor_steps: settings.int("anchor_steps"),
            anchor_rate: settings.float("anchor_rate"),
            anchor_optimiser: settings.choice("anchor_optimiser"),
            anchor_scale: settings.choice("anchor_scale"),
            anchor_statistics: settings.choice("anchor_statistics"),
            phi: settings.choice("phi"),
            distance: settings.choice("distance"),
            start: settings.choice("start"),
            start_decay: settings.float("start_decay"),
            hindsight: settings.choice("hindsight"),
            hindsight_steps: settings.int("hindsight_steps"),
            consolidate_every: settings.int("consolidate_every"),
            trust: settings.float("trust"),
            clip: settings.float("clip"),
        }
    }

    /// What batch-norm takes as mean and variance when anchors pass.
    pub(super) fn batch_norm(&self) -> BatchNormMode {
        match self.anchor_statistics {
            AnchorStatistics::Batch => BatchNormMode::Batch,
            AnchorStatistics::Running => BatchNormMode::Running,
        }
    }
}
