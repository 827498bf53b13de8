//! Reports as their readers meet them: every table and figure of records made by hand, whatever these say.

use hindsight::{
    Record,
    detail::Detail,
    prequential::{Prequential, PrequentialPoint},
    protocol::{CurvePoint, Status},
    record::Machine,
    run_folder::{Note, Records, RunningRun},
    settings::Value,
    snapshot::Snapshot,
};
use hindsight_report::{
    Live, Reference, ReferenceRow, Report, Section, Spread, evaluations_csv, file_name, html, runs_csv,
};

/// A record with a matrix of three tasks that ends at about `accuracy`.
fn record(method: &str, seed: u64, accuracy: f64) -> Record {
    let mut record: Record = serde_json::from_str(include_str!("record_v1.json")).unwrap();
    record.method = method.to_owned();
    record.seed = seed;
    record.accuracy = Some(accuracy);
    record.forgetting = Some(0.9 - accuracy / 100.0);
    record.learning_accuracy = Some(0.85);
    record.train_seconds = 1.0 + seed as f64;
    let a = accuracy / 100.0;
    record.matrix = [[0.9, 0.1, 0.1], [a + 0.1, 0.85, 0.12], [a - 0.1, a, a + 0.1]]
        .map(|row| row.map(Some).to_vec())
        .to_vec();
    record.initial = vec![Some(0.1); 3];
    record.config.insert("tasks".to_owned(), Value::Int(3));
    record.config.insert("slots".to_owned(), Value::Int(1));
    record
}

fn diverged(method: &str, seed: u64) -> Record {
    let mut record = record(method, seed, 50.0);
    record.status = Status::Diverged;
    (record.accuracy, record.forgetting, record.learning_accuracy) = (None, None, None);
    record.metrics.clear();
    record.matrix.truncate(1);
    record
}

fn with(mut record: Record, key: &str, value: Value) -> Record {
    record.config.insert(key.to_owned(), value);
    record
}

fn small() -> Records {
    vec![
        record("finetune", 0, 50.0),
        record("finetune", 1, 52.0),
        record("hal", 0, 70.0),
        record("hal", 1, 73.0),
        diverged("hal", 2),
        record("multitask", 0, 80.0),
    ]
    .into()
}

/// Two classes, two tasks: enough for anchors and for t-SNE.
fn snapshot(method: &str) -> Snapshot {
    let pictures = |each: usize| {
        let count = 4 * each;
        let labels: Vec<usize> = (0..count).map(|i| i % 2).collect();
        let tasks: Vec<usize> = (0..count).map(|i| i / 2 % 2).collect();
        let range = vec![[0.0, 1.0]; count];
        // `AAD/` and `//8A` are the bytes 0, 0, 255 and 255, 255, 0: images of three by one.
        let bytes: String = labels.iter().map(|label| ["AAD/", "//8A"][*label]).collect();
        serde_json::json!({
            "labels": labels, "tasks": tasks,
            "pixels": {"range": range, "bytes": bytes}, "features": {"range": range, "bytes": bytes},
        })
    };
    let config = record(method, 0, 70.0).config;
    serde_json::from_value(serde_json::json!({
        "version": 2, "method": method, "benchmark": "permuted-digits", "seed": 0, "config": config,
        "shape": [1, 3, 1], "anchors": pictures(1), "memory": pictures(1), "samples": pictures(10),
    }))
    .unwrap()
}

/// Records with data for every figure.
fn rich() -> Records {
    let mut records = small();
    for seed in 0..2 {
        for (method, accuracy) in [("er-ring", 66.0), ("mer", 64.0)] {
            records.records.push(record(method, seed, accuracy + seed as f64));
        }
        for slots in [3, 5] {
            let more = record("er-ring", seed, 66.0 + slots as f64);
            records.records.push(with(more, "slots", Value::Int(slots)));
        }
        for lambda in [0.01, 1.0, 10.0] {
            let run = if lambda == 10.0 { diverged("hal", seed) } else { record("hal", seed, 68.0 - lambda) };
            records.records.push(with(run, "hal.lambda", Value::Float(lambda)));
        }
    }
    for record in &mut records.records {
        // What holds nothing has no place in the figure of bytes.
        let slots = match record.config["slots"] {
            Value::Int(slots) if record.method != "finetune" => slots as u64,
            _ => 0,
        };
        record.memory_bytes = 100_000 * slots;
        record.curve =
            (1..4).map(|i| CurvePoint { batches: 10 * i, accuracy: 0.8 - 0.1 * i as f64 }).collect();
        let (os, arch, cpu) = ("linux".to_owned(), "x86_64".to_owned(), Some("A <fast> one".to_owned()));
        record.machine = Some(Machine { os, arch, cpu, cores: 2 });
        record.task_names = ["morning", "noon", "night <late>"].map(str::to_owned).to_vec();
        record.class_names = ["calm", "storm", "never seen"].map(str::to_owned).to_vec();
        let answers = [(0, 0), (0, 0), (0, 1), (1, 1)];
        record.detail = Some(Detail::new(3, answers, &[(0.9, true), (0.4, false)]));
        let mut curve = Prequential::new(50);
        (curve.samples, curve.right) = (200, 120);
        curve.points = [100, 200].map(|samples| PrequentialPoint { samples, accuracy: 0.6 }).to_vec();
        record.prequential = Some(curve);
    }
    records.snapshots.push(snapshot("hal"));
    records.notes.push(Note { path: "a/records.jsonl".into(), line: 7, reason: "ends early".to_owned() });
    records
}

fn only<'s, 'r>(report: &'s Report<'r>) -> &'s Section<'r> {
    let [section] = &report.sections[..] else { panic!("one benchmark, one section") };
    section
}

#[test]
fn tables_are_written_in_three_forms() {
    let records = small();
    let report = Report::new("", &records, &[]);
    let [results, measures, differences] = &only(&report).tables[..] else {
        panic!("three tables, and none by class: the records have no classes")
    };
    assert_eq!(
        results.markdown(),
        "| method | accuracy % | forgetting | learning acc. % | train s | eval s | seeds | note |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
         | hal | **71.5 ± 1.5** | **0.185 ± 0.015** | **85.0 ± 0.0** | 1.50 | 0.25 | 3 | 1 of 3 diverged |\n\
         | finetune | 51.0 ± 1.0 | 0.390 ± 0.010 | **85.0 ± 0.0** | 1.50 | 0.25 | 2 |  |\n\
         | multitask | 80.0 | 0.100 | 85.0 | 1.00 | 0.25 | 1 | oracle |\n\
         \nmean ± population standard deviation over seeds\n\
         \nbold: the best of its column, oracles aside\n\
         \nhal: 1 of 3 diverged; \\`--set hal.preset=robust\\` bounds its steps\n"
    );
    assert_eq!(
        results.csv(),
        "method,accuracy %,accuracy % ±,forgetting,forgetting ±,learning acc. %,learning acc. % ±,train s,eval s,seeds,\
         note\n\
         hal,71.5,1.5,0.185,0.015,85,0,1.5,0.25,3,1 of 3 diverged\n\
         finetune,51,1,0.39,0.01,85,0,1.5,0.25,2,\n\
         multitask,80,,0.1,,85,,1,0.25,1,oracle\n"
    );
    assert_eq!(
        differences.latex(),
        "% needs \\usepackage{booktabs}\n\\begin{tabular}{lrrr}\n\\toprule\n\
         methods & difference in points & seeds above & p (Holm) \\\\\n\\midrule\n\
         hal - finetune & $20.5 \\pm 6.4$ & 2 of 2 & $0.016$ \\\\\n\
         hal - multitask & $-10.0$ & 0 of 1 & - \\\\\n\
         \\bottomrule\n\\end{tabular}\n\
         % mean ± half the 95 % confidence interval (Student's t) over common seeds\n\
         % p: two-sided paired t-test, corrected for the number of methods compared (Holm)\n"
    );
    assert!(
        results.latex().contains("hal & {\\boldmath $71.5 \\pm 1.5$} & {\\boldmath $0.185 \\pm 0.015$} &")
    );
    assert!(measures.markdown().contains("accuracy % = 100 \\* mean\\_j a\\[T\\]\\[j\\]"));
    assert_eq!(
        only(&report).summaries,
        [
            "hal: 1 of 3 diverged; over its other runs it has the highest mean accuracy, 71.5 %: 20.5 points above \
             finetune (95 % interval 14.1 to 26.9, 2 seeds); forgetting 0.185, against 0.390 for finetune"
        ]
    );
}

#[test]
fn numbers_of_a_paper_stand_beside_ours_where_the_settings_agree() {
    let row = |method: &str, slots: i64| ReferenceRow {
        benchmark: "permuted-digits".to_owned(),
        method: method.to_owned(),
        settings: [("slots".to_owned(), Value::Int(slots))].into(),
        accuracy: Some(Spread { mean: 73.6, deviation: 0.3, count: 5 }),
        forgetting: None,
    };
    let paper = Reference { name: "paper", rows: vec![row("hal", 1), row("finetune", 3)] };
    let records = small();
    let report = Report::new("", &records, &[&paper]);
    let table = only(&report).tables[0].markdown();
    assert!(
        table.contains("| method | accuracy % | paper % | vs. paper | forgetting | paper forgetting |"),
        "{table}"
    );
    assert!(
        table.contains("| hal | **71.5 ± 1.5** | 73.6 ± 0.3 | within two | **0.185 ± 0.015** | - |"),
        "{table}"
    );
    assert!(table.contains("| finetune | 51.0 ± 1.0 | - |"), "{table}");
    let none = Reference { rows: vec![row("ewc", 1)], ..paper };
    let report = Report::new("", &records, &[&none]);
    assert!(!only(&report).tables[0].markdown().contains("paper"));
}

#[test]
fn every_figure_is_drawn_is_sound_and_always_the_same() {
    let records = rich();
    let report = Report::new("All", &records, &[]);
    let section = only(&report);
    assert_eq!(section.absent, []);
    let names: Vec<&str> =
        section.figures.iter().map(|f| f.name.strip_prefix("permuted-digits-").unwrap()).collect();
    let expected = [
        "accuracy",
        "stream",
        "prequential",
        "tasks",
        "confusion",
        "differences-slots-1",
        "forgetting",
        "time",
        "reliability",
        "matrix",
        "memory",
        "budget-bytes",
        "budget-seconds",
        "sensitivity-hal-lambda",
        "anchors",
        "embedding",
    ];
    assert_eq!(names, expected);
    for figure in &section.figures {
        let svg = figure.svg();
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{}: {e}", figure.name));
        let texts = document.descendants().filter(|node| node.has_tag_name("text"));
        assert!(texts.count() > 3, "{}", figure.name);
        for bad in ["NaN", "inf"] {
            assert!(!svg.contains(bad), "{}: {bad}", figure.name);
        }
        let image = tiny_skia::Pixmap::decode_png(&figure.png()).unwrap();
        let size = figure.size().map(|side| (2.0 * side).round() as u32);
        assert_eq!([image.width(), image.height()], size, "{}", figure.name);
        let ink = image.pixels().iter().filter(|pixel| pixel.red() < 200).count();
        assert!(ink > 500, "{} is empty", figure.name);
        inside(figure.size(), &document);
    }
    let again = Report::new("All", &records, &[]);
    assert_eq!(html(&report), html(&again));
    let pngs = |report: &Report<'_>| only(report).figures.iter().map(|f| f.png()).collect::<Vec<_>>();
    assert!(pngs(&report) == pngs(&again));
}

/// Asserts that no text of a figure begins or ends outside the sheet.
fn inside([width, height]: [f64; 2], document: &roxmltree::Document<'_>) {
    for text in document.descendants().filter(|node| node.has_tag_name("text")) {
        let number = |name: &str| text.attribute(name).unwrap().parse::<f64>().unwrap();
        let length = 0.44 * number("font-size") * text.text().unwrap_or_default().chars().count() as f64;
        let start = match text.attribute("text-anchor") {
            Some("end") => number("x") - length,
            Some("middle") => number("x") - length / 2.0,
            _ => number("x"),
        };
        let fits = start > -4.0 && start + length < width + 4.0 && (0.0..height).contains(&number("y"));
        assert!(fits, "{:?} of {width} x {height}", text.text());
    }
}

#[test]
fn figures_without_data_are_left_out_and_said_to_be() {
    let mut one = record("finetune", 0, 50.0);
    one.matrix = vec![vec![Some(0.5)]];
    let records = vec![one].into();
    let report = Report::new("One", &records, &[]);
    let section = only(&report);
    let drawn: Vec<&str> = section.figures.iter().map(|figure| figure.title.as_str()).collect();
    assert_eq!(drawn, ["Training time"]);
    assert_eq!(section.absent.len(), 14);
    assert!(section.summaries.is_empty());
    let page = html(&report);
    assert!(
        page.contains(
            "<li>Accuracy against memory: needs runs of a method with different <code>slots</code>"
        )
    );
}

#[test]
fn runs_that_all_diverged_are_shown_as_such_everywhere() {
    let records = vec![diverged("hal", 0), diverged("hal", 1)].into();
    let report = Report::new("Diverged", &records, &[]);
    let section = only(&report);
    let table = section.tables[0].markdown();
    assert!(table.contains("| hal | - | - | - | - | - | 2 | all 2 diverged |"), "{table}");
    assert!(html(&report).contains("2 runs, 1 method, 1 benchmark, 2 diverged"));
    // One row of a run that ended early is not a method that learns all tasks at once.
    let records = vec![record("finetune", 0, 50.0), diverged("hal", 0)].into();
    let report = Report::new("", &records, &[]);
    let accuracy = &only(&report).figures[0];
    assert!(accuracy.svg().contains("hal, diverged</text>") && !accuracy.caption.contains("level line"));

    let sensitivity = rich();
    let report = Report::new("", &sensitivity, &[]);
    let figure = only(&report).figures.iter().find(|f| f.name.contains("lambda")).unwrap();
    assert!(figure.caption.contains("a cross: all did"));
}

#[test]
fn whatever_a_record_says_is_harmless() {
    let evil = "<script>alert('x')</script>&\"|\\input{/etc/passwd}\u{1}";
    let mut records = rich();
    for record in &mut records.records {
        record.benchmark = format!("../{evil}");
        record.program = evil.to_owned();
        record.commit = Some(evil.to_owned());
        record.started = Some(evil.to_owned());
        record.config.insert(evil.to_owned(), Value::Text(evil.into()));
        if record.method == "er-ring" {
            record.method = evil.to_owned();
        } else if record.method == "mer" {
            record.method = "=1+1".to_owned();
        }
    }
    records.snapshots[0].benchmark = records.records[0].benchmark.clone();
    records.notes[0].reason = evil.to_owned();
    let report = Report::new(evil, &records, &[]);
    let section = only(&report);
    let page = html(&report);
    // The page's own is the only script.
    assert!(page.matches("<script").count() == 1 && !page.contains('\u{1}'));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    for figure in &section.figures {
        assert!(
            figure.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'),
            "{}",
            figure.name
        );
        roxmltree::Document::parse(&figure.svg()).unwrap_or_else(|e| panic!("{}: {e}", figure.name));
    }
    let table = &section.tables[0];
    assert!(
        !table.markdown().contains("<script") && table.markdown().lines().all(|line| !line.contains('\u{1}'))
    );
    assert!(!table.latex().contains("\\input") && table.latex().contains("\\textbackslash{}input\\{"));
    assert!(table.csv().contains("\n'=1+1,") && table.csv().contains("\"<script>"));
    assert_eq!(file_name("iris_1-2"), "iris_1-2");
    assert!(file_name("../../etc/passwd").starts_with("etc-passwd-"));
    assert!(file_name("…").starts_with("unnamed-"));
}

#[test]
fn records_of_odd_shapes_do_not_stop_a_report() {
    let mut records = rich();
    let odd = |change: &dyn Fn(&mut Record)| {
        let mut odd = record("odd", 0, 60.0);
        change(&mut odd);
        odd
    };
    records.records.push(odd(&|r| r.matrix.clear()));
    records.records.push(odd(&|r| r.matrix = vec![vec![None; 3]; 3]));
    records.records.push(odd(&|r| (r.accuracy, r.seed) = (Some(1e300), 1)));
    records.records.push(odd(&|r| (r.accuracy, r.seed) = (Some(-5.0), 2)));
    records.records.push(odd(&|r| (r.method, r.train_seconds) = ("".to_owned(), 1e12)));
    records.records.push(odd(&|r| r.matrix = vec![vec![Some(0.5); 40]; 40]));
    let report = Report::new("", &records, &[]);
    for figure in &only(&report).figures {
        roxmltree::Document::parse(&figure.svg()).unwrap_or_else(|e| panic!("{}: {e}", figure.name));
        figure.png();
    }
    assert!(html(&report).ends_with("</html>\n"));
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_tells_where_its_numbers_come_from() {
    let records = rich();
    let page = html(&Report::new("All", &records, &[]));
    for elsewhere in
        ["src=", "@import", "url(", "href=\"http", "<iframe", "fetch(", "XMLHttpRequest", "eval("]
    {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    for said in [
        "prefers-color-scheme: dark",
        "A &lt;fast&gt; one, 2 cores, linux x86_64",
        "a/records.jsonl:7: ends early",
        "mean_{j&lt;T} (max_{i&lt;T} a[i][j] - a[T][j])",
        "<code>hal.lambda = 10.0</code>",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

/// The base-64 SHA-256 of the page's script, by which alone its policy permits it.
#[test]
fn the_policy_permits_the_pages_own_script_by_its_hash_and_no_other() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use sha2::{Digest, Sha256};
    let records = small();
    let page = html(&Report::new("", &records, &[]));
    let script = page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    let hash = BASE64_STANDARD.encode(Sha256::digest(script));
    let policy =
        format!("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'\"");
    assert!(page.contains(&policy));
    assert!(!page.contains("onclick=") && !page.contains("javascript:"));
}

#[test]
fn the_page_tells_scenarios_names_and_divergence_and_folds_details() {
    let mut records = rich();
    for record in &mut records.records {
        record.config.insert("scenario".to_owned(), Value::text("class"));
    }
    let page = html(&Report::new("All", &records, &[]));
    for said in [
        "<span class=\"tag\">class-incremental</span>",
        "<span class=\"badge\" title=\"`--set hal.preset=robust` bounds its steps\">",
        "night &lt;late&gt;: ",
        "storm taken for storm: 100.0 %",
        "balanced accuracy %",
        "calibration error",
        "prequential accuracy %",
        "<tbody>\n<tr><th scope=\"row\">multitask</th>",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(!page.contains("<details open"), "folded at first");
    // One line is grey until it is clicked at: five methods, of which three and finetune are drawn.
    assert!(page.contains("<g class=\"line off\"") && page.contains("aria-pressed=\"false\""));
}

#[test]
fn a_live_page_loads_itself_again_and_lists_the_runs_under_way() {
    let records = small();
    let mut report = Report::new("", &records, &[]);
    assert!(!html(&report).contains("data-watch=\""));
    let run = RunningRun {
        benchmark: "b<".to_owned(),
        method: "hal".to_owned(),
        seed: 3,
        finished: 2,
        accuracy: Some(0.5),
    };
    report.live = Some(Live { seconds: 3, runs: vec![run] });
    let page = html(&report);
    assert!(page.contains("<html lang=\"en\" data-watch=\"3\">") && page.contains("http-equiv=\"refresh\""));
    assert!(page.contains("<th scope=\"row\">hal on b&lt;, seed 3</th><td>2</td><td>50.0</td>"), "{page}");
    report.live = Some(Live { seconds: 3, runs: Vec::new() });
    assert!(html(&report).contains("No run is under way"));
    let none = Records::default();
    assert!(html(&Report::new("", &none, &[])).contains("0 runs"), "a page before the first record");
}

#[test]
fn records_are_tidy_csv_with_a_row_per_run_and_per_evaluation() {
    let mut records = rich().records;
    records[0].benchmark = "a,b".to_owned();
    records[0].config.insert("scenario".to_owned(), Value::text("task"));
    let runs = runs_csv(&records);
    let lines: Vec<&str> = runs.lines().collect();
    assert_eq!(lines.len(), 1 + records.len());
    assert!(lines[0].starts_with(
        "run,benchmark,scenario,method,seed,status,accuracy,forgetting,learning_accuracy,backward_transfer,"
    ));
    assert!(
        lines[0].contains(",prequential_accuracy,") && lines[0].contains(",config.hal.lambda,"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("0,\"a,b\",task,finetune,0,done,50,0.4,85,"), "{}", lines[1]);
    // Commas within quotes are not between columns.
    let columns =
        |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
    assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
    let evaluations = evaluations_csv(&records[..1]);
    let lines: Vec<&str> = evaluations.lines().collect();
    assert_eq!(lines[0], "run,benchmark,method,seed,after,task,task_name,accuracy");
    assert_eq!(lines.len(), 1 + 3 + 9, "before any training, and after each of three tasks");
    assert_eq!(lines[4], "0,\"a,b\",finetune,0,1,1,morning,90");
}

#[test]
fn tasks_that_come_back_have_a_row_per_visit_in_every_figure() {
    let mut twice = record("hal", 0, 70.0);
    twice.config.insert("visits".to_owned(), Value::Int(2));
    twice.matrix.extend(twice.matrix.clone());
    let records = vec![twice].into();
    let report = Report::new("", &records, &[]);
    let matrix = only(&report).figures.iter().find(|figure| figure.kind == "matrix").unwrap();
    let svg = matrix.svg();
    inside(matrix.size(), &roxmltree::Document::parse(&svg).unwrap());
    assert!(svg.contains("hal: task 1 after 6: 60.0 %"), "{svg}");
}

#[test]
fn a_page_of_three_hundred_tasks_stays_small() {
    let tasks = 300;
    let mut records = Vec::new();
    for (number, method) in hindsight::methods::METHODS.iter().enumerate() {
        let mut record = record(method.name, 0, 50.0 + number as f64);
        let entry = |i: usize, j: usize| Some(((7 * i + 3 * j + number) % 100) as f64 / 100.0);
        record.matrix = (0..tasks).map(|i| (0..tasks).map(|j| entry(i, j)).collect()).collect();
        record.initial = vec![Some(0.1); tasks];
        record.config.insert("tasks".to_owned(), Value::Int(tasks as i64));
        records.push(record);
    }
    let records = records.into();
    let report = Report::new("Test", &records, &[]);
    let bytes = html(&report).len();
    assert!(bytes < 3_000_000, "{bytes}");
    // A block of the map tells what it is the mean of.
    let map = only(&report).figures.iter().find(|figure| figure.kind == "matrix").unwrap().svg();
    assert!(map.contains("finetune: task 1 to 15 after 1 to 15: "), "{}", &map[..3000]);
}

#[test]
fn figures_stay_readable_however_many_runs_there_are() {
    let rates = (1..=300).map(|i| with(record("hal", 0, i as f64 / 4.0), "hal.rate", Value::Float(i as f64)));
    let slots = (2..=300).map(|i| with(record("er-ring", 0, 50.0), "slots", Value::Int(i)));
    let methods = (0..300).map(|i| record(&format!("method{i}"), 0, 20.0 + f64::from(i) / 10.0));
    for records in [rates.collect(), slots.collect(), methods.collect::<Vec<Record>>()] {
        let records = records.into();
        let report = Report::new("Test", &records, &[]);
        let section = only(&report);
        assert_eq!(section.tables[0].rows.len(), records.records.len(), "tables have all of them");
        for figure in &section.figures {
            let height = figure.size()[1];
            assert!(height < 4000.0, "{}: {height}", figure.name);
        }
        let matrix = section.figures.iter().find(|figure| figure.kind == "matrix").unwrap();
        assert!(matrix.caption.contains("The 40 of highest accuracy; "), "{}", matrix.caption);
        assert!(matrix.svg().matches("<title>").count() <= 1 + 40 * 9);
    }
}

#[test]
fn figures_are_drawn_of_the_first_twenty_benchmarks_and_tables_of_all() {
    let benchmark = |i: usize| Record { benchmark: format!("stream {i}"), ..record("hal", 0, 50.0) };
    let records = (0..60).map(benchmark).collect::<Vec<_>>().into();
    let report = Report::new("Test", &records, &[]);
    let drawn = report.sections.iter().filter(|section| !section.figures.is_empty()).count();
    assert_eq!((report.sections.len(), drawn), (60, 20));
    assert!(report.sections.iter().all(|section| !section.tables.is_empty()));
    let page = html(&report);
    assert!(page.contains("Figures are drawn of the first 20 benchmarks"));
    assert_eq!(page.matches("<h2 id=\"benchmark-").count(), 60);
}
