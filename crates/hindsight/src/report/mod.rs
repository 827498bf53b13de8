//! What records say: tables and the reading of them. Pure functions of records.

mod reference;
mod table;

pub use reference::reference;
pub use table::{reading, table};

use crate::{
    Record,
    metrics::{deviation, mean},
    protocol::Status,
};

/// The runs of one method on one benchmark.
#[derive(Debug, Clone)]
pub struct Group<'r> {
    /// The method.
    pub method: &'r str,
    /// The benchmark.
    pub benchmark: &'r str,
    /// Its records, by seed.
    pub records: Vec<&'r Record>,
}

/// Mean and population standard deviation over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl<'r> Group<'r> {
    /// Records by benchmark and method, in the order in which these first appear.
    pub fn all(records: &'r [Record]) -> Vec<Group<'r>> {
        let mut groups: Vec<Group<'r>> = Vec::new();
        for record in records {
            let (method, benchmark) = (record.method.as_str(), record.benchmark.as_str());
            match groups.iter_mut().find(|g| (g.method, g.benchmark) == (method, benchmark)) {
                Some(group) => group.records.push(record),
                None => groups.push(Group { method, benchmark, records: vec![record] }),
            }
        }
        groups.iter_mut().for_each(|group| group.records.sort_by_key(|record| record.seed));
        groups
    }

    /// The spread of a measure over the seeds that have it.
    pub fn spread(&self, of: impl Fn(&Record) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.records.iter().filter_map(|record| of(record)).collect();
        (!values.is_empty())
            .then(|| Spread { mean: mean(values.iter().copied()), deviation: deviation(&values) })
    }

    /// Number of runs that diverged.
    pub fn diverged(&self) -> usize {
        self.records.iter().filter(|record| record.status == Status::Diverged).count()
    }
}
