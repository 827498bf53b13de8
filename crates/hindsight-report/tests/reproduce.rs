//! The paper's tables as data: what they ask for can be run, and what comes out is set beside them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::Path,
};

use flate2::read::GzDecoder;
use hindsight::{
    Record,
    config::{Override, RunConfig},
    protocol::Status,
    run_folder,
    settings::Value,
};
use hindsight_report::{
    Report, Spread, Verdict, html, published,
    reproduce::{Measure, Reproduction, Request, names},
};

const FOUR: [&str; 4] = ["permuted-mnist", "rotated-mnist", "split-cifar100", "split-miniimagenet"];

fn request(items: &[&str], benchmarks: &[&str]) -> Request {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    Request { items: words(items), benchmarks: words(benchmarks), ..Request::default() }
}

fn resolve(items: &[&str], benchmarks: &[&str]) -> Reproduction {
    Reproduction::resolve(&request(items, benchmarks)).unwrap()
}

fn labels(reproduction: &Reproduction) -> Vec<&str> {
    reproduction.items[0].entries.iter().map(|entry| entry.label.as_str()).collect()
}

/// The record of a run that ended at `accuracy`, or did not.
fn record(run: &RunConfig, accuracy: Option<f64>) -> Record {
    let mut record: Record = serde_json::from_str(include_str!("record_v1.json")).unwrap();
    record.benchmark = run.benchmark.name.to_string();
    record.method = run.method.name.to_owned();
    record.seed = run.seed;
    record.config = run.effective();
    record.accuracy = accuracy;
    record.forgetting = accuracy.map(|accuracy| 0.8 - accuracy / 100.0);
    record.status = if accuracy.is_some() { Status::Done } else { Status::Diverged };
    record
}

#[test]
fn every_table_resolves_on_every_benchmark_that_it_names() {
    let all = resolve(&["all"], &[]);
    let found: Vec<&str> = all.items.iter().map(|item| item.name).collect();
    assert_eq!(found, names().collect::<Vec<_>>());
    for item in &all.items {
        let mut benchmarks: Vec<&str> = item.entries.iter().map(|entry| &*entry.benchmark.name).collect();
        benchmarks.dedup();
        assert!(!benchmarks.is_empty() && benchmarks.iter().all(|name| FOUR.contains(name)), "{}", item.name);
        for benchmark in benchmarks {
            let alone = resolve(&[item.name], &[benchmark]);
            let of = item.entries.iter().filter(|entry| entry.benchmark.name == benchmark);
            assert_eq!(alone.items[0].entries.len(), of.count(), "{} on {benchmark}", item.name);
        }
        let seeds = if item.name == "f2" { 1 } else { 5 };
        assert!(item.entries.iter().all(|entry| entry.runs.len() == seeds), "{}", item.name);
    }
    // No run is done twice, and no table needs evaluations of its own.
    let identities: std::collections::BTreeSet<String> = all.runs.iter().map(RunConfig::identity).collect();
    assert_eq!(identities.len(), all.runs.len());
    let asked: usize = all.items.iter().flat_map(|item| &item.entries).map(|entry| entry.runs.len()).sum();
    assert!(all.runs.len() < asked / 2 + 60, "{} of {asked}", all.runs.len());
    assert!(all.runs.iter().all(|run| run.shared.text("evaluate") == "seen"));
}

#[test]
fn every_number_of_the_paper_has_its_run() {
    for name in names().filter(|name| name.starts_with('t')) {
        let item = resolve(&[name], &[]).items.remove(0);
        for row in published().iter().filter(|row| row.table == name).map(|published| &published.row) {
            let same =
                |value: Option<Spread>, of: &dyn Fn(&hindsight_report::ReferenceRow) -> Option<Spread>| {
                    value.is_none()
                        || item.entries.iter().any(|entry| {
                            (&*entry.benchmark.name, entry.method.name) == (&row.benchmark, &row.method)
                                && entry.paper.and_then(of) == value
                        })
                };
            assert!(same(row.accuracy, &|row| row.accuracy), "{name}: {row:?}");
            assert!(same(row.forgetting, &|row| row.forgetting), "{name}: {row:?}");
        }
    }
}

/// Settings that came after the published records must not make other runs of them.
#[test]
fn the_published_records_fill_table_one() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction/records");
    let folder = tempfile::tempdir().unwrap();
    let files = ["mnist", "cifar100", "miniimagenet"].map(|data| {
        let compressed = File::open(published.join(data).join("records.jsonl.gz")).unwrap();
        let file = folder.path().join(format!("{data}.jsonl"));
        io::copy(&mut GzDecoder::new(compressed), &mut File::create(&file).unwrap()).unwrap();
        file
    });
    let records = run_folder::read(&files).unwrap().records;
    let found: BTreeSet<String> = records.iter().map(Record::identity).collect();
    let seeds = Some(Value::Int(3));
    let table = Reproduction::resolve(&Request { seeds, ..request(&["t1"], &[]) }).unwrap();
    for run in &table.runs {
        let name = (&run.benchmark.name, run.method.name, run.seed);
        assert!(found.contains(&run.identity()), "{name:?}: {}", run.identity());
    }
}

#[test]
fn the_ablations_are_there() {
    assert_eq!(
        labels(&resolve(&["t2"], &["permuted-mnist"])),
        ["er-ring (slots=1)", "er-ring (slots=2)", "hal"]
    );
    assert_eq!(
        labels(&resolve(&["t3"], &["permuted-mnist"])),
        ["hal (anchors=learned)", "hal (anchors=oracle)"]
    );
    assert_eq!(
        labels(&resolve(&["t4"], &["split-cifar100"])),
        ["hal (anchors=real)", "hal (anchors=learned)"]
    );
    assert_eq!(
        labels(&resolve(&["T5"], &["rotated-mnist"]))[..2],
        ["vcl-random (slots=3)", "vcl-random (slots=5)"]
    );
    let lambda = resolve(&["t7"], &["permuted-mnist"]);
    assert_eq!(labels(&lambda).len(), 12);
    assert_eq!(
        labels(&lambda)[2..4],
        ["hal (gradient=exact, lambda=1.0)", "hal (gradient=first, lambda=0.01)"]
    );
    // One run stands in the middle of all three, and is done once.
    assert_eq!(lambda.runs.len(), 5 * 10);
    let paper = |place: usize| lambda.items[0].entries[place].paper.unwrap().accuracy.unwrap().mean;
    assert_eq!([paper(1), paper(4), paper(7), paper(10)], [73.6; 4]);
    assert_eq!([paper(2), paper(5)], [73.2; 2], "whatever the gradient");
}

#[test]
fn verdicts_go_by_both_deviations() {
    let spread = |mean, deviation| Spread { mean, deviation, count: 5 };
    let verdict =
        |paper: (f64, f64), ours: (f64, f64)| Verdict::of(spread(paper.0, paper.1), spread(ours.0, ours.1));
    // s = 0.5 of 0.3 and 0.4.
    assert_eq!(verdict((70.0, 0.3), (70.5, 0.4)), Verdict::WithinOne);
    assert_eq!(verdict((70.0, 0.3), (69.4, 0.4)), Verdict::WithinTwo);
    assert_eq!(verdict((70.0, 0.3), (71.0, 0.4)), Verdict::WithinTwo);
    assert_eq!(verdict((70.0, 0.3), (71.01, 0.4)), Verdict::Outside);
    assert_eq!(verdict((0.1, 0.1), (0.3, 0.0)), Verdict::WithinTwo, "whatever the last bit of 0.3 - 0.1");
    assert_eq!(verdict((0.0, 0.0), (0.0, 0.0)), Verdict::WithinOne);
    assert_eq!(verdict((83.0, 0.0), (83.1, 0.0)), Verdict::Outside);
    // The deviation of a single run is not known.
    let single = |mean| Verdict::of(spread(70.0, 0.3), Spread { mean, deviation: 0.0, count: 1 });
    assert_eq!(
        [70.2, 70.5, 71.0].map(single),
        [Verdict::WithinOne, Verdict::WithinTwo, Verdict::OutsideOneRun]
    );
}

#[test]
fn tables_show_paper_ours_difference_and_verdict_in_three_forms() {
    let reproduction = resolve(&["t2"], &["permuted-mnist"]);
    let item = &reproduction.items[0];
    let mut records: BTreeMap<usize, Record> = BTreeMap::new();
    // ER-Ring twice as usual; of ER-Ring with two slots nothing; of HAL three seeds, one of them diverged.
    for (entry, accuracies) in [
        (0, &[Some(68.0), Some(69.0), Some(70.0), Some(69.0), Some(69.0)][..]),
        (2, &[Some(74.0), Some(73.2), None]),
    ] {
        for (&place, &accuracy) in item.entries[entry].runs.iter().zip(accuracies) {
            records.insert(place, record(&reproduction.runs[place], accuracy));
        }
    }
    let [accuracy, forgetting] = &reproduction.tables(item, &records)[..] else { panic!("two tables") };
    assert_eq!(accuracy.title, "permuted-mnist, accuracy %");
    assert_eq!(
        accuracy.markdown(),
        "| method | paper | authors' program | ours | difference | verdict | difference to program | verdict on program \
         | runs |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
         | er-ring (slots=1) | 70.2 ± 0.6 | 68.6 ± 1.3 | 69.0 ± 0.6 | -1.2 | within two | +0.4 | within one std | 5 |\n\
         | er-ring (slots=2) | 71.9 ± 0.3 | - | - | - | not run | - | not run | 0 of 5 |\n\
         | hal | 73.6 ± 0.3 | 72.6 ± 0.8 | 73.6 ± 0.4 | +0.0 | within one std | +1.0 | within two | 3 of 5, 1 diverged |\n"
    );
    assert!(forgetting.latex().contains(
        "er-ring (slots=1) & $0.12 \\pm 0.01$ & $0.141$ & $0.110 \\pm 0.006$ & $-0.010$ & within one std & $-0.031$ & \
         outside & 5 \\\\"
    ));
    assert!(
        accuracy
            .text()
            .contains("\ner-ring (slots=2)  71.9 ± 0.3                 -           -           -  not run ")
    );
    let combined = reproduction.combined_table(item, &records).csv();
    let lines: Vec<&str> = combined.lines().collect();
    assert_eq!(
        lines[0],
        "benchmark,measure,method,paper,paper ±,authors' program,authors' program ±,ours,ours ±,difference,verdict,\
         difference to program,verdict on program,runs"
    );
    assert_eq!(
        lines[2],
        "permuted-mnist,accuracy %,er-ring (slots=2),71.9,0.31,,,,,,not run,,not run,0 of 5"
    );
    assert_eq!(
        lines[3],
        "permuted-mnist,accuracy %,hal,73.6,0.31,72.61,0.8,73.6,0.4,0,within one std,0.99,within two,\"3 of 5, 1 \
         diverged\""
    );
    assert_eq!(lines.len(), 7);
    assert_eq!(
        reproduction.summary(&records),
        [
            "of 6 numbers of the paper: 2 within one std, 1 within two, 1 outside, 2 not run",
            "of 4 numbers of the authors' program: 1 within one std, 1 within two, 2 outside",
            "permuted-mnist: hal is 5.1 points above er-ring (95 % interval -6.3 to 16.5, 2 seeds), in the paper 3.4 \
             points above"
        ]
    );

    // And as a chapter of a page, with the paper beside our results.
    let found = records.values().cloned().collect::<Vec<_>>().into();
    let mut report = Report::new("Again", &found, &hindsight_report::Reference::all());
    report.chapters.push(reproduction.chapter(item, &records, &[]));
    let page = html(&report);
    assert!(
        page.contains("<h2 id=\"t2\">t2: HAL against ER-Ring") && page.contains("<a href=\"#t2\">t2</a>")
    );
    assert!(page.contains("<td>within two</td>") && page.contains("<th class=\"n\">paper %</th>"));
}

#[test]
fn all_runs_diverged_is_a_verdict() {
    let reproduction = resolve(&["t7"], &["permuted-mnist"]);
    let entry = &reproduction.items[0].entries[2];
    let records = entry.runs.iter().map(|&place| (place, record(&reproduction.runs[place], None))).collect();
    let found = reproduction.compare(entry, Measure::Accuracy, &records);
    assert_eq!((found.verdict, found.ours, found.diverged), (Verdict::Diverged, None, 5));
}

#[test]
fn a_figure_is_drawn_of_its_own_runs() {
    let reproduction = resolve(&["f1", "f3", "f4"], &["permuted-mnist"]);
    let records: BTreeMap<usize, Record> = reproduction
        .runs
        .iter()
        .enumerate()
        .map(|(place, run)| (place, record(run, Some(60.0 + run.shared.int("slots") as f64))))
        .collect();
    for item in &reproduction.items {
        let figures = reproduction.figures(item, &records, &[]);
        let [figure] = &figures[..] else { panic!("{}: {}", item.name, figures.len()) };
        assert_eq!(figure.name, format!("{}-permuted-mnist", item.name));
        let svg = figure.svg();
        assert_eq!(svg.contains("memory slots per class per task"), item.name == "f1");
        assert_eq!(svg.contains("mer (algorithm=original)"), item.name == "f4");
    }
    let times = &reproduction.tables(&reproduction.items[2], &records)[0];
    assert!(times.markdown().contains("| hal | - | "), "{}", times.markdown());
}

#[test]
fn a_quick_look_or_other_settings_are_not_compared() {
    let mut quick = request(&["t2", "f2"], &["permuted-mnist"]);
    quick.quick = true;
    let reproduction = Reproduction::resolve(&quick).unwrap();
    // Two seeds of three entries; the figure's run is among them.
    assert_eq!(reproduction.runs.len(), 6);
    assert!(reproduction.runs.iter().all(|run| run.shared.int("tasks") == 5));
    let item = &reproduction.items[0];
    let records = [(0, record(&reproduction.runs[0], Some(70.2)))].into();
    let found = reproduction.compare(&item.entries[0], Measure::Accuracy, &records);
    assert_eq!(found.verdict.to_string(), "not comparable (quick)");
    assert_eq!(found.paper.unwrap().mean, 70.2, "it is shown all the same");
    assert!(reproduction.notes(item).iter().any(|note| note.contains("tasks = 5")));

    let with = |set: &str| {
        let overrides = vec![Override::parse(set).unwrap()];
        let seeds = Some(Value::Int(3));
        Reproduction::resolve(&Request { overrides, seeds, ..request(&["t2"], &["permuted-mnist"]) }).unwrap()
    };
    assert_eq!((with("samples=500").not_comparable, with("samples=500").runs.len()), (Some("settings"), 9));
    assert_eq!(with("evaluate=full").not_comparable, None, "evaluations change no result");
}

#[test]
fn seeds_need_not_begin_at_zero() {
    let seeds = Some(Value::text("3..5"));
    let part = Reproduction::resolve(&Request { seeds, ..request(&["t1"], &["permuted-mnist"]) }).unwrap();
    let entries = part.items.iter().flat_map(|item| &item.entries);
    assert!(entries.clone().count() > 5);
    for entry in entries {
        assert_eq!(entry.runs.iter().map(|&run| part.runs[run].seed).collect::<Vec<_>>(), [3, 4]);
    }
}

#[test]
fn what_is_not_there_is_refused_with_a_hint() {
    let refused = |request: Request| {
        let error = Reproduction::resolve(&request).unwrap_err();
        (error.to_string(), error.hint().unwrap())
    };
    let (error, hint) = refused(request(&["t1", "f9"], &[]));
    assert_eq!((error.as_str(), hint.as_str()), ("unknown table or figure `f9`", "did you mean `f1`?"));
    let (error, hint) = refused(request(&["everything"], &[]));
    assert!(error.contains("`everything`") && hint.starts_with("known are t1, t2"), "{hint}");
    let (error, hint) = refused(request(&["t1"], &["permuted-mnits"]));
    assert_eq!(
        (error.as_str(), hint.as_str()),
        ("unknown benchmark `permuted-mnits`", "did you mean `permuted-mnist`?")
    );
    let part = resolve(&["t7"], &["permuted-mnist", "rotated-mnist"]);
    assert_eq!(part.absent_benchmarks, ["rotated-mnist"]);
    assert!(part.runs.iter().all(|run| run.benchmark.name == "permuted-mnist"));
    let (error, hint) = refused(request(&["t7", "t2"], &["rotated-mnist"]));
    assert_eq!(error, "`rotated-mnist` is not in `t2`, `t7`");
    assert_eq!(hint, "there are permuted-mnist, split-cifar100");
    let methods = vec!["mer".to_owned()];
    let (error, hint) = refused(Request { methods, ..request(&["t2"], &[]) });
    assert_eq!((error.as_str(), hint.as_str()), ("`mer` is not in `t2`", "there are er-ring, hal"));
    let (error, hint) = refused(Request { seeds: Some(Value::Int(0)), ..request(&["t1"], &[]) });
    assert!(error.contains("`seeds` is `0`") && hint.contains("`--seeds 3`"), "{error}");
}
