//! Accuracy against the size of the memory.

use super::{
    Drawing, FigureData, FigureKind,
    sensitivity::{chart, over},
};

pub(super) const KIND: FigureKind = FigureKind {
    name: "memory",
    title: "Accuracy against memory",
    needs: "runs of a method with different `slots`",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let lines = over(view, "slots");
    if lines.is_empty() {
        return Vec::new();
    }
    let caption = "Mean over seeds; the band is one population standard deviation to either side.";
    Drawing::one(chart(&lines, "memory slots per class per task"), caption)
}
