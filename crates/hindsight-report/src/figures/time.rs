//! What each method costs.

use super::{
    Drawing, FigureData, FigureKind,
    plot::{Bar, bars},
    shown,
};

pub(super) const KIND: FigureKind =
    FigureKind { name: "time", title: "Training time", needs: "runs that did not diverge", draw };

fn draw(view: &FigureData<'_>) -> Vec<Drawing> {
    let times = view.compared().into_iter().map(|(group, style)| {
        // A run that diverged ended early, so its time is not that of a complete run.
        let spread = group.spread(|record| record.accuracy.map(|_| record.train_seconds));
        let number = spread.map(|s| format!("{} s", shown(&s, 2)));
        let text = number.into_iter().chain(group.divergence()).collect::<Vec<_>>().join(", ");
        Bar { label: group.label(), ink: style.ink, value: spread.map(|s| (s.mean, s.deviation)), text }
    });
    let times: Vec<Bar> = times.collect();
    if times.iter().all(|bar| bar.value.is_none()) {
        return Vec::new();
    }
    let mut machines: Vec<&hindsight::record::Machine> = Vec::new();
    for machine in view.groups.iter().flat_map(|g| &g.records).filter_map(|r| r.machine.as_ref()) {
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let mut caption = "Seconds in training over the whole stream, without evaluation.".to_owned();
    match machines[..] {
        [machine] => caption += &format!(" On {}.", machine.cpu.as_deref().unwrap_or(&machine.arch)),
        [] => {}
        _ => caption += " The runs were on different machines: do not compare.",
    }
    Drawing::one(bars(&times, "training time, s"), caption + &view.omission())
}
