//! What came of a sweep: its points from best to worst, and the best as a configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::{GridPoint, Sweep, insert, seeds, toml_value};
use crate::{
    Record,
    config::shared_defaults,
    metrics::{deviation, mean},
    protocol::Status,
    settings::{Settings, Value},
};

/// How a point did.
#[derive(Debug, Clone, Serialize)]
pub struct Standing<'s> {
    /// The point.
    #[serde(flatten, serialize_with = "point")]
    pub point: &'s GridPoint,
    /// Its place among the points of its method, from 1; none unless all its seeds are done.
    pub rank: Option<usize>,
    /// Mean accuracy over seeds, in percent.
    pub accuracy: Option<f64>,
    /// Its population standard deviation.
    pub deviation: Option<f64>,
    /// Mean forgetting over seeds.
    pub forgetting: Option<f64>,
    /// Mean seconds of a run.
    pub seconds: Option<f64>,
    /// Runs that it should have.
    pub seeds: usize,
    /// Runs that have ended, those that diverged too.
    pub ended: usize,
    /// Runs that diverged.
    pub diverged: usize,
    /// Runs that could not be done.
    pub failed: usize,
}

fn point<S: Serializer>(point: &&GridPoint, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown<'p> {
        method: &'p str,
        values: BTreeMap<&'p str, &'p Value>,
    }
    let values = point.values.iter().map(|(key, value)| (key.as_str(), value)).collect();
    Shown { method: point.method.name, values }.serialize(serializer)
}

impl<'s> Standing<'s> {
    /// How the point whose runs begin at `first` did.
    fn new(
        point: &'s GridPoint,
        first: usize,
        records: &BTreeMap<usize, Record>,
        failed: &BTreeSet<usize>,
    ) -> Standing<'s> {
        let places = first..first + point.runs.len();
        let found: Vec<&Record> = records.range(places.clone()).map(|(_, record)| record).collect();
        let of = |measure: fn(&Record) -> Option<f64>| -> Vec<f64> {
            found.iter().filter_map(|record| measure(record)).collect()
        };
        let average = |values: &[f64]| (!values.is_empty()).then(|| mean(values.iter().copied()));
        let accuracies = of(|record| record.accuracy);
        Standing {
            point,
            rank: None,
            accuracy: average(&accuracies),
            deviation: (!accuracies.is_empty()).then(|| deviation(&accuracies)),
            forgetting: average(&of(|record| record.forgetting)),
            seconds: average(&of(|record| Some(record.train_seconds + record.eval_seconds))),
            seeds: point.runs.len(),
            ended: found.len(),
            diverged: found.iter().filter(|record| record.status == Status::Diverged).count(),
            failed: failed.range(places).filter(|place| !records.contains_key(place)).count(),
        }
    }

    /// Whether all of its runs are done.
    pub fn complete(&self) -> bool {
        self.ended == self.seeds && self.diverged == 0 && self.accuracy.is_some()
    }

    /// What is to be said of it beside its numbers.
    pub fn status(&self) -> String {
        let mut words = Vec::new();
        for (count, word) in [(self.diverged, "diverged"), (self.failed, "failed")] {
            match count {
                0 => {}
                _ if self.seeds == 1 => words.push(word.to_owned()),
                _ => words.push(format!("{count} {word}")),
            }
        }
        let missing = self.seeds - self.ended - self.failed;
        if missing > 0 {
            words.push(if missing == self.seeds { "to do".to_owned() } else { format!("{missing} to do") });
        }
        words.join(", ")
    }
}

impl Sweep {
    /// The points of each method, best first: by mean accuracy, then by less forgetting, then as they come in
    /// the grid. Points with runs to do come after those that are complete, and those with runs that diverged
    /// or failed come last. `records` and `failed` are by the place of the run in [`Sweep::runs`].
    pub fn rank(&self, records: &BTreeMap<usize, Record>, failed: &BTreeSet<usize>) -> Vec<Standing<'_>> {
        let mut ranked = Vec::new();
        let mut first = 0;
        for points in self.points.chunk_by(|a, b| a.method.name == b.method.name) {
            let mut standings: Vec<Standing<'_>> = Vec::new();
            for point in points {
                standings.push(Standing::new(point, first, records, failed));
                first += point.runs.len();
            }
            standings.sort_by(|a, b| {
                let group = |s: &Standing<'_>| (s.diverged + s.failed > 0, !s.complete());
                let accuracy = |s: &Standing<'_>| s.accuracy.unwrap_or(f64::NEG_INFINITY);
                let forgetting = |s: &Standing<'_>| s.forgetting.unwrap_or(f64::INFINITY);
                let better = accuracy(b).total_cmp(&accuracy(a));
                group(a).cmp(&group(b)).then(better).then(forgetting(a).total_cmp(&forgetting(b)))
            });
            for (place, standing) in standings.iter_mut().enumerate() {
                standing.rank = standing.complete().then_some(place + 1);
            }
            ranked.append(&mut standings);
        }
        ranked
    }
}

/// A configuration that runs the methods of these points, on the evaluated tasks, with what was found for
/// each; none if they do not agree on what methods share.
pub fn best_toml(points: &[&GridPoint]) -> Option<String> {
    let run = points.first()?.runs.first()?;
    if points.iter().any(|point| point.runs[0].shared != run.shared) {
        return None;
    }
    let mut table = toml::Table::new();
    let names: Vec<&str> = points.iter().map(|point| point.method.name).collect();
    table.insert("benchmark".to_owned(), run.benchmark.name.as_ref().into());
    table.insert("method".to_owned(), names.join(",").into());
    let end = points[0].runs.iter().map(|run| run.seed + 1).max()?;
    table.insert("seeds".to_owned(), seeds(&(run.seed..end)));
    for point in points {
        let run = &point.runs[0];
        let own = Settings::defaults(point.method.keys, run.benchmark.family);
        let own = own.iter().map(|(key, value)| (format!("{}.{key}", point.method.name), value.clone()));
        let shared = shared_defaults(&run.benchmark);
        let shared = shared.iter().map(|(key, value)| (key.to_owned(), value.clone()));
        let defaults: BTreeMap<String, Value> = shared.chain(own).collect();
        for (key, value) in run.effective() {
            let varied = point.values.iter().any(|(varied, _)| *varied == key);
            if key != "tuning" && (varied || defaults.get(&key).is_some_and(|default| *default != value)) {
                insert(&mut table, &key, toml_value(&value));
            }
        }
    }
    Some(toml::to_string(&table).expect("a table of values and tables"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        benchmarks::BENCHMARKS,
        config::{Experiment, Override, RunConfig},
        methods::METHODS,
        sweep::Search,
    };

    fn sweep(settings: &[&str], grid: &[&str]) -> Sweep {
        let mut search = Search {
            overrides: settings.iter().map(|text| Override::parse(text).unwrap()).collect(),
            ..Search::default()
        };
        grid.iter().for_each(|text| search.grid.add(text).unwrap());
        Sweep::resolve(&search, BENCHMARKS, METHODS).unwrap()
    }

    fn record(run: &RunConfig, accuracy: Option<f64>, forgetting: f64) -> Record {
        let mut record: Record = serde_json::from_str(include_str!("../../tests/record_v1.json")).unwrap();
        record.benchmark = run.benchmark.name.to_string();
        record.method = run.method.name.to_owned();
        record.seed = run.seed;
        record.config = run.effective();
        record.status = if accuracy.is_some() { Status::Done } else { Status::Diverged };
        record.accuracy = accuracy;
        record.forgetting = accuracy.map(|_| forgetting);
        record
    }

    #[test]
    fn a_record_read_back_has_the_identity_of_its_run() {
        let sweep = sweep(&["method=hal", "hidden=[8]"], &["hal.lambda=0.1,1,0.12345678901234567,3e-7"]);
        for run in sweep.runs() {
            let line = serde_json::to_string(&record(&run, Some(70.0), 0.1)).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap().identity(), run.identity());
        }
    }

    #[test]
    fn points_are_ranked_by_accuracy_then_forgetting_then_order() {
        let sweep = sweep(&["method=hal", "seeds=2"], &["hal.lambda=0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"]);
        let results: [&[Option<f64>]; 7] = [
            &[Some(70.0), Some(72.0)],
            &[Some(90.0)],
            &[Some(95.0), None],
            &[Some(71.0), Some(71.0)],
            &[Some(71.0), Some(71.0)],
            &[Some(80.0), Some(80.0)],
            &[],
        ];
        let mut records = BTreeMap::new();
        for (i, (point, results)) in sweep.points.iter().zip(results).enumerate() {
            for (seed, (run, accuracy)) in point.runs.iter().zip(results).enumerate() {
                records.insert(2 * i + seed, record(run, *accuracy, if i == 0 { 0.2 } else { 0.1 }));
            }
        }
        let ranked = sweep.rank(&records, &BTreeSet::from([14]));
        let order: Vec<String> = ranked.iter().map(|s| s.point.values[0].1.to_string()).collect();
        assert_eq!(order, ["0.6", "0.4", "0.5", "0.1", "0.2", "0.7", "0.3", "0.8"]);
        let ranks: Vec<Option<usize>> = ranked.iter().map(|s| s.rank).collect();
        assert_eq!(ranks, [Some(1), Some(2), Some(3), Some(4), None, None, None, None]);
        assert_eq!((ranked[3].accuracy, ranked[3].deviation), (Some(71.0), Some(1.0)));
        let status: Vec<String> = ranked[4..].iter().map(Standing::status).collect();
        assert_eq!(status, ["1 to do", "to do", "1 diverged", "1 failed, 1 to do"]);
        let json = serde_json::to_value(&ranked[0]).unwrap();
        assert_eq!((&json["method"], &json["values"]["hal.lambda"]), (&"hal".into(), &0.6.into()));
    }

    #[test]
    fn methods_are_ranked_apart() {
        let sweep = sweep(&["method=er-ring,hal"], &["slots=1,2"]);
        let runs = sweep.runs();
        let records = runs.iter().zip([1.0, 2.0, 3.0, 4.0]).map(|(run, x)| record(run, Some(x), 0.0));
        let records: BTreeMap<usize, Record> = records.enumerate().collect();
        let ranked = sweep.rank(&records, &BTreeSet::new());
        let found: Vec<_> = ranked.iter().map(|s| (s.point.method.name, s.rank, s.accuracy)).collect();
        let expected = [
            ("er-ring", Some(1), Some(2.0)),
            ("er-ring", Some(2), Some(1.0)),
            ("hal", Some(1), Some(4.0)),
            ("hal", Some(2), Some(3.0)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_best_is_a_configuration_for_the_evaluated_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("best.toml");
        let settings = ["method=er-ring,hal", "seeds=2", "tasks=5", "hal.preset=stable", "er-ring.rate=0.3"];
        let sweep = sweep(&settings, &["hal.lambda=0.1,3", "slots=1,2"]);
        let points = [&sweep.points[1], &sweep.points[5]];
        std::fs::write(&path, best_toml(&points).unwrap()).unwrap();
        let experiment =
            Experiment::resolve(&Override::from_toml(&path).unwrap(), BENCHMARKS, METHODS).unwrap();
        let tuned: Vec<&RunConfig> = points.iter().flat_map(|point| &point.runs).collect();
        assert_eq!(experiment.runs().len(), tuned.len());
        for (run, tuned) in experiment.runs().iter().zip(tuned) {
            let mut expected = tuned.effective();
            expected.insert("tuning".to_owned(), Value::Bool(false));
            assert_eq!((run.seed, run.effective()), (tuned.seed, expected));
        }
        assert_eq!(best_toml(&[&sweep.points[0], &sweep.points[5]]), None, "they differ in `slots`");
    }
}
