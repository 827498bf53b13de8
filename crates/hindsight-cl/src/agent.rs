//! A learner of one's own: no benchmark, no files, data as it comes.

use std::path::Path;

use hindsight_nn::{Inputs, params::finite};
use thiserror::Error;

use crate::{
    Batch, Learner, Shape,
    benchmarks::BENCHMARKS,
    checkpoint::{Checkpoint, CheckpointError, Header},
    config::{ConfigError, Experiment, Override, RunConfig, SHARED},
    methods::{METHODS, Setup},
    run::network,
};

/// A learner with its configuration: it checks what it is given, and can be saved and loaded.
///
/// ```
/// use hindsight::Agent;
///
/// // Two values in, two classes; any key of `hindsight methods` and `hindsight benchmarks`.
/// let mut agent = Agent::new(2, 2, &["method=er-ring", "hidden=[16]", "replay_from=all"])?;
/// for step in 0..200 {
///     let side = if step % 2 == 0 { 1.0 } else { -1.0 };
///     agent.observe(&[side, 0.5], &[u32::from(side > 0.0)], 0)?;
/// }
/// assert_eq!(agent.predict(&[0.9, 0.5, -0.9, 0.5], 0)?, [1, 0]);
///
/// let file = std::env::temp_dir().join("agent.safetensors");
/// agent.save(&file)?;
/// assert_eq!(Agent::load(&file)?.predict(&[0.9, 0.5], 0)?, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Agent {
    config: RunConfig,
    shape: Shape,
    learner: Box<dyn Learner>,
    batch: Batch,
}

/// Why an agent cannot be made, or does not take what it is given.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum AgentError {
    /// A setting that does not exist, or not so.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot be saved or loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Inputs or answers that no network can have.
    #[error("{what} is {found}, expected {expected}")]
    Shape {
        /// Of which.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// Values that do not make up inputs.
    #[error("{found} values for {labels} labels, expected {width} for each")]
    Values {
        /// How many there are.
        found: usize,
        /// For how many labels.
        labels: usize,
        /// Values in an input.
        width: usize,
    },
    /// A value that is infinite or not a number: one such input would ruin the model.
    #[error("value {place} is {found}, expected a finite number")]
    NotFinite {
        /// Which.
        place: usize,
        /// What it is.
        found: f32,
    },
    /// A class or a task that there is not.
    #[error("{what} {found}, expected one below {end}")]
    Unknown {
        /// `class` or `task`.
        what: &'static str,
        /// Which.
        found: u32,
        /// How many there are.
        end: usize,
    },
    /// A class that the task cannot answer with.
    #[error("class {class} in task {task}, expected a class of that task")]
    Foreign {
        /// The task.
        task: u32,
        /// Which.
        class: u32,
    },
    /// Its steps were too large, and there is no way back but to one that was saved.
    #[error("the learner has diverged: found a loss or a parameter that is infinite or not a number")]
    Diverged,
}

impl AgentError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            AgentError::Config(error) => error.hint(),
            AgentError::Checkpoint(error) => error.hint(),
            AgentError::NotFinite { .. } => Some("leave the sample out, or replace the value".to_owned()),
            AgentError::Shape { .. } => Some("say what the data has: see `Agent::new`".to_owned()),
            AgentError::Values { .. } => {
                Some("give all values of every input, one after the other".to_owned())
            }
            AgentError::Diverged => Some("load the last one that was saved; set a smaller `rate`".to_owned()),
            AgentError::Foreign { .. } => Some("say which classes a task has: see `Agent::of`".to_owned()),
            AgentError::Unknown { .. } => {
                Some("make the agent with all classes and tasks that will ever come".to_owned())
            }
        }
    }
}

/// More parameters than any machine at hand could train.
const LARGEST: usize = 1 << 28;

impl Agent {
    /// A fresh learner for inputs of `inputs` values and `classes` classes, which any task may answer with.
    ///
    /// `settings` are `key=value` as on the command line. `method` is `hal` unless set; `seeds` does not count;
    /// `benchmark` only says whose defaults apply. `tasks` and `samples` should be set where a method needs them:
    /// the reservoir of `mer` is as large as a ring for `tasks` tasks.
    pub fn new(inputs: usize, classes: usize, settings: &[&str]) -> Result<Agent, AgentError> {
        Agent::of(Shape { input: [1, 1, inputs], classes, ..Shape::default() }, settings)
    }

    /// A fresh learner for inputs and answers of any shape: images, or tasks with classes of their own.
    pub fn of(shape: Shape, settings: &[&str]) -> Result<Agent, AgentError> {
        Agent::build(Agent::configure(settings)?, shape, LARGEST)
    }

    fn configure(settings: &[&str]) -> Result<RunConfig, AgentError> {
        let method = [Override::parse("method=hal")];
        let settings = settings.iter().map(|text| Override::parse(text));
        let overrides = method.into_iter().chain(settings).collect::<Result<Vec<_>, _>>()?;
        Ok(Experiment::resolve(&overrides, BENCHMARKS, METHODS)?.first_run())
    }

    fn build(config: RunConfig, shape: Shape, most: usize) -> Result<Agent, AgentError> {
        let refuse = |what, found: String, expected: &str| {
            Err(AgentError::Shape { what, found, expected: expected.to_owned() })
        };
        let inputs = shape.inputs();
        if inputs == 0 || inputs > LARGEST {
            return refuse("the number of inputs", inputs.to_string(), "at least one, and not millions");
        }
        if shape.classes < 2 || shape.classes > 1 << 16 {
            return refuse("the number of classes", shape.classes.to_string(), "from 2 to 65536");
        }
        let known = |classes: &Vec<usize>| !classes.is_empty() && classes.iter().all(|&c| c < shape.classes);
        if shape.heads.per_task().is_some_and(|tasks| tasks.is_empty() || !tasks.iter().all(known)) {
            return refuse("a task's classes", "none, or one too many".to_owned(), "some of the classes");
        }
        if !shape.scale.fits(inputs) {
            let expected = "a mean and a factor for each input, all finite";
            return refuse("the scale of the inputs", "another".to_owned(), expected);
        }
        if let Some(names) = shape.names.as_ref().filter(|names| names.len() != shape.classes) {
            return refuse("the number of names", names.len().to_string(), "one for each class");
        }
        // Every task has a mask over all classes.
        let tasks = shape.heads.per_task().map_or(0, <[_]>::len);
        if tasks > (1 << 26) / shape.classes {
            let found = format!("{tasks}, of {} classes", shape.classes);
            return refuse("the number of tasks", found, "at most 2^26 tasks times classes");
        }
        // Not a value is allocated before this.
        let net = network(&config, &shape);
        if net.parameters() > most {
            let found = format!("{} parameters", net.parameters());
            return refuse("the network's size", found, &format!("at most {most}"));
        }
        let (tasks, samples) = (config.shared.int("tasks").max(1), config.shared.int("samples"));
        let setup = Setup {
            net,
            heads: shape.heads.clone(),
            seed: config.seed,
            tasks: shape.heads.per_task().map_or(tasks, <[_]>::len),
            samples_per_task: samples,
            future: None,
            shared: config.shared_settings(),
            method_settings: &config.method_settings,
        };
        let learner = (config.method.build)(&setup);
        Ok(Agent { config, shape, learner, batch: Batch::default() })
    }

    /// Learns from a batch, `labels.len()` inputs one after the other, and returns the loss on it before that. If that
    /// is not finite, the learner is of no use any more, and an error says so.
    pub fn observe(&mut self, inputs: &[f32], labels: &[u32], task: u32) -> Result<f32, AgentError> {
        self.check(inputs, labels.len(), task)?;
        if let Some(&found) = labels.iter().find(|&&label| label as usize >= self.shape.classes) {
            return Err(AgentError::Unknown { what: "class", found, end: self.shape.classes });
        }
        if let Some(&class) = labels.iter().find(|&&label| !self.shape.allows(task, label)) {
            return Err(AgentError::Foreign { task, class });
        }
        if labels.is_empty() {
            return Ok(0.0);
        }
        self.batch.clear();
        self.shape.scale.push(inputs, &mut self.batch.x);
        self.batch.labels.extend_from_slice(labels);
        self.batch.tasks.resize(labels.len(), task);
        let loss = self.learner.observe(&self.batch);
        if loss.is_finite() { Ok(loss) } else { Err(AgentError::Diverged) }
    }

    /// Tells it that what comes next is another task. Where tasks have no boundaries, it need never be told.
    pub fn end_task(&mut self) {
        self.learner.end_task();
    }

    /// The class of each input, at any time.
    pub fn predict(&self, inputs: &[f32], task: u32) -> Result<Vec<u32>, AgentError> {
        let width = self.width();
        self.check(inputs, inputs.len() / width, task)?;
        let mut scaled = Vec::new();
        let inputs = match self.shape.scale.is_none() {
            true => inputs,
            false => {
                self.shape.scale.push(inputs, &mut scaled);
                &scaled
            }
        };
        Ok(self.learner.predict(&Inputs::dense(inputs, width), task as usize))
    }

    /// Values in an input.
    pub fn width(&self) -> usize {
        self.shape.inputs()
    }

    /// What its inputs and answers are; of a stream of one's own, also what the classes are called.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The learner itself.
    pub fn learner(&self) -> &dyn Learner {
        &*self.learner
    }

    /// Writes it to a file, whole or not at all. One that has diverged does not take the place of a good one.
    pub fn save(&mut self, path: &Path) -> Result<(), AgentError> {
        if !finite(self.learner.theta()) {
            return Err(AgentError::Diverged);
        }
        let header = Header::new(&self.config, self.shape.clone(), None);
        Ok(crate::checkpoint::save(path, header, &mut *self.learner)?)
    }

    /// Reads one that was saved, by [`Agent::save`] or as a checkpoint of a run. If that was on a stream of one's own,
    /// inputs are to be as in its files: they are scaled as they were in training.
    pub fn load(path: &Path) -> Result<Agent, AgentError> {
        let checkpoint = Checkpoint::read(path)?;
        let header = &checkpoint.header;
        let mut settings = vec![format!("method={}", header.method)];
        settings.push(format!("seeds={}..{}", header.seed, header.seed.saturating_add(1)));
        // What only a benchmark has, which may be a stream of one's own, decides nothing here.
        let ours = |key: &str| key.contains('.') || SHARED.iter().any(|shared| shared.name == key);
        let known = header.config.iter().filter(|(key, _)| ours(key));
        settings.extend(known.map(|(key, value)| format!("{key}={value}")));
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let config = Agent::configure(&settings)?;
        // A file cannot claim more than it has.
        let mut agent = Agent::build(config, header.shape.clone(), checkpoint.values_held().min(LARGEST))?;
        checkpoint.restore(&mut *agent.learner, path)?;
        Ok(agent)
    }

    fn check(&self, inputs: &[f32], labels: usize, task: u32) -> Result<(), AgentError> {
        let width = self.width();
        if labels.checked_mul(width) != Some(inputs.len()) {
            return Err(AgentError::Values { found: inputs.len(), labels, width });
        }
        if let Some(place) = inputs.iter().position(|x| !x.is_finite()) {
            return Err(AgentError::NotFinite { place, found: inputs[place] });
        }
        match self.shape.heads.per_task() {
            Some(heads) if task as usize >= heads.len() => {
                Err(AgentError::Unknown { what: "task", found: task, end: heads.len() })
            }
            _ => Ok(()),
        }
    }
}
