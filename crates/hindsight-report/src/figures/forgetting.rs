//! How much each method forgets.

use super::{
    Drawing, FigureData, FigureKind,
    plot::{Bar, bars},
    shown,
};

pub(super) const KIND: FigureKind = FigureKind {
    name: "forgetting",
    title: "Forgetting",
    needs: "runs of several tasks that were evaluated after each and did not diverge",
    draw,
};

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let groups = view.compared();
    let several = |record: &&hindsight::Record| record.matrix.first().is_some_and(|row| row.len() > 1);
    let forgetting = groups.iter().map(|(group, style)| {
        let spread = group.spread(|record| record.forgetting.filter(|_| several(&record)));
        let number = spread.map(|s| shown(&s, 3));
        let words: Vec<String> = number.into_iter().chain(group.divergence()).collect();
        let text = if words.is_empty() { "not known".to_owned() } else { words.join(", ") };
        Bar { label: group.label(), ink: style.ink, value: spread.map(|s| (s.mean, s.deviation)), text }
    });
    let forgetting: Vec<Bar> = forgetting.collect();
    if forgetting.iter().all(|bar| bar.value.is_none()) {
        return Vec::new();
    }
    let caption = "Mean fall of a task from its best accuracy to that in the end, as a fraction; less is better. \
                   Whiskers: one population standard deviation over seeds.";
    Drawing::one(bars(&forgetting, "forgetting, as a fraction"), caption.to_owned() + &view.omission())
}
