//! Features in CSV: build a learner, let it observe, ask it.
//!
//! `cargo run --release -p hindsight-cl --example custom_stream`

use std::path::Path;

use hindsight::{
    Batch,
    config::{Experiment, Override},
    custom_stream::{self, StreamFile},
    methods::METHODS,
    run,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sensors/sensors.toml");
    let file = StreamFile::read(&path)?;
    let source = custom_stream::load(&file)?;

    let set = ["benchmark=sensors", "method=er-ring", "er-ring.rate=0.3", "hidden=32", "slots=4"];
    let set: Vec<Override> = set.iter().map(|text| Override::parse(text)).collect::<Result<_, _>>()?;
    let config = &Experiment::resolve(&set, &[custom_stream::benchmark(&file)], METHODS)?.first_run();
    let stream = run::stream(config, &source)?;
    let mut learner = run::learner(config, &stream);

    let mut batch = Batch::default();
    for task in 0..stream.len() {
        for start in (0..stream.samples(task)).step_by(2) {
            stream.batch(task, start..(start + 2).min(stream.samples(task)), &mut batch);
            learner.observe(&batch);
        }
        learner.end_task();
    }
    let classes = stream.class_names();
    for (task, name) in stream.task_names().iter().enumerate() {
        let (answers, labels) = (learner.predict(&stream.test_inputs(task), task), stream.test_labels(task));
        let right = answers.iter().zip(labels).filter(|(answer, label)| answer == label).count();
        let first = &classes[answers[0] as usize];
        println!("{name}: {right} of {} right; the first is `{first}`", labels.len());
    }
    Ok(())
}
