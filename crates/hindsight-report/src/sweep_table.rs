//! The ranking of a sweep as text.

use hindsight::sweep::Standing;

use crate::{
    group::Spread,
    tables::{Cell, SPREAD_NOTE, Table},
};

/// A table per method, from best to worst.
pub fn sweep_table(standings: &[Standing<'_>]) -> String {
    let methods: Vec<_> = standings.chunk_by(|a, b| a.point.method.name == b.point.method.name).collect();
    let mut text = String::new();
    for (i, standings) in methods.iter().enumerate() {
        if methods.len() > 1 {
            text += &format!("{}{}\n", if i > 0 { "\n" } else { "" }, standings[0].point.method.name);
        }
        text += &table(standings).text();
    }
    if standings.iter().any(|standing| standing.seeds > 1) {
        text += &format!("{SPREAD_NOTE}\n");
    }
    text
}

fn table(standings: &[Standing<'_>]) -> Table {
    let first = standings[0].point;
    let mut head = vec!["rank".to_owned()];
    let prefix = format!("{}.", first.method.name);
    head.extend(first.values.iter().map(|(key, _)| key.strip_prefix(&prefix).unwrap_or(key).to_owned()));
    head.extend(["accuracy %", "forgetting", "seconds", "seeds", ""].map(str::to_owned));
    let number = |mean: Option<f64>, deviation: Option<f64>, digits: usize| {
        let count = if deviation.is_some() { 2 } else { 1 };
        let spread = |mean| Spread { mean, deviation: deviation.unwrap_or(0.0), count };
        Cell::number(mean.map(spread), digits)
    };
    let row = |standing: &Standing<'_>| {
        let mut row = vec![Cell::Text(standing.rank.map_or("-".to_owned(), |rank| rank.to_string()))];
        row.extend(standing.point.values.iter().map(|(_, value)| Cell::Text(value.to_string())));
        let deviation = standing.deviation.filter(|_| standing.ended > 1);
        row.extend([
            number(standing.accuracy, deviation, 1),
            number(standing.forgetting, None, 3),
            number(standing.seconds, None, 2),
            Cell::Text(format!("{}/{}", standing.ended, standing.seeds)),
            Cell::Text(standing.status()),
        ]);
        row
    };
    let rows = standings.iter().map(row).collect();
    Table { name: "sweep", title: "Sweep".to_owned(), head, rows, notes: Vec::new() }
}
