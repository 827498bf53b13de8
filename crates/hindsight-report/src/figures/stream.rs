//! Accuracy along the stream, between the ends of tasks too.

use super::{Drawing, FigureData, FigureKind, curve::Curves};

pub(super) const KIND: FigureKind = FigureKind {
    name: "stream",
    title: "Accuracy along the stream",
    needs: "runs with `evaluate_every` above 0",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let caption =
        "Mean over seeds; the band is one population standard deviation to either side. Each new task \
                   first pulls the mean down: it counts before it is learned."
            .to_owned();
    let y_title = "mean accuracy on the tasks seen so far, %";
    let points = |record: &hindsight::Record| {
        record.curve.iter().map(|point| (point.batches, point.accuracy)).collect()
    };
    Curves { unit: "batches", y_title, points, caption }.draw(view)
}
