//! `hindsight inspect`: what a model is and what it has seen.

use std::{
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use hindsight::{
    Agent, AgentError,
    checkpoint::{Application, Checkpoint},
};
use hindsight_report::plural;
use serde_json::json;

use super::predict::class_names;
use crate::{messages::printable, sample_reader::schema_of};

/// Show what a model is and what it has seen.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The model's file
    model: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Names that are listed.
const LISTED: usize = 30;

/// Runs `hindsight inspect`.
pub(crate) fn execute(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let header = Checkpoint::read(&args.model).map_err(AgentError::from)?.header;
    let agent = Agent::load(&args.model)?;
    let Application { samples, batches, tasks, running_task, class_samples, schema, history, .. } =
        agent.application();
    let (names, shape, config) = (class_names(&agent), agent.shape(), agent.config());
    let count = |class: usize| class_samples.get(class).copied();
    let (memory, anchors, bytes, parameters) = {
        let learner = agent.learner();
        let retained = learner.retained_samples();
        let memory = retained.memory.map_or(0, |batch| batch.len());
        let anchors = retained.anchors.map_or(0, |batch| batch.len());
        (memory, anchors, learner.retained_bytes(), learner.theta().len())
    };
    let size = std::fs::metadata(&args.model).map_or(0, |found| found.len());
    let running = running_task.and_then(|task| tasks.get(task as usize));
    let columns = schema_of(&agent).names();
    if args.json {
        let classes: Vec<_> =
            names.iter().enumerate().map(|(i, name)| json!({ "class": name, "samples": count(i) })).collect();
        let model = json!({
            "method": config.method.name,
            "seed": config.seed,
            "settings": agent.settings(),
            "input": shape.input,
            "parameters": parameters,
            "samples": samples,
            "batches": batches,
            "classes": classes,
            "tasks": tasks,
            "running_task": running,
            "features": agent.application().features,
            "columns": columns,
            "label": schema.as_ref().map(|schema| &schema.label),
            "task_column": schema.as_ref().and_then(|schema| schema.task.as_ref()),
            "history": history,
            "memory_samples": memory,
            "anchors": anchors,
            "retained_bytes": bytes,
            "file_bytes": size,
            "program": header.program,
            "version": header.version,
        });
        writeln!(stdout(), "{model}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines: Vec<(&str, String)> = Vec::new();
    lines.push(("method", format!("{} ({}), seed {}", config.method.name, config.method.title, config.seed)));
    let input = match shape.input {
        [1, 1, width] => plural(width, "feature"),
        [channels, height, width] => format!("images of {channels}x{height}x{width}"),
    };
    let scaled = if shape.scale.is_none() { "" } else { ", standardised" };
    lines.push(("input", format!("{input}{scaled}")));
    if !columns.is_empty() {
        lines.push(("columns", list(&columns)));
    }
    if let Some(schema) = schema {
        let task = schema.task.as_ref().map_or(String::new(), |task| format!(", tasks in `{task}`"));
        lines.push(("", format!("labels in `{}`{task}", schema.label)));
    }
    lines.push(("network", format!("{}, {parameters} parameters", config.shared.text("network"))));
    lines.push((
        "seen",
        format!("{} in {}", plural(*samples as usize, "sample"), plural(*batches as usize, "batch")),
    ));
    for file in history.iter().rev().take(5) {
        lines.push(("", format!("{}: {}", file.name, plural(file.rows as usize, "row"))));
    }
    let counted: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(i, name)| count(i).map_or(name.clone(), |count| format!("{name} ({count})")))
        .collect();
    lines.push(("classes", format!("{}: {}", counted.len(), list(&counted))));
    if !tasks.is_empty() {
        let running = running.map_or(String::new(), |task| format!("; `{task}` is running"));
        lines.push(("tasks", format!("{}: {}{running}", tasks.len(), list(tasks))));
    }
    let anchors = if anchors > 0 { format!(", {}", plural(anchors, "anchor")) } else { String::new() };
    lines.push(("memory", format!("{}{anchors}, {bytes} bytes", plural(memory, "sample"))));
    lines.push(("file", format!("{size} bytes, version {}, written by {}", header.version, header.program)));
    let settings: Vec<String> =
        agent.settings().iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let mut settings = settings.into_iter();
    lines.push(("settings", settings.next().unwrap_or_default()));
    lines.extend(settings.map(|setting| ("", setting)));
    for (what, text) in lines {
        writeln!(stdout(), "{}", printable(&format!("{what:9} {text}")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(names: &[String]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        count if count > LISTED => format!("{} and {} more", names[..LISTED].join(", "), count - LISTED),
        _ => names.join(", "),
    }
}
