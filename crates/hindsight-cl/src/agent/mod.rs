//! A learner for an application: no benchmark, data as it comes.

mod builder;
mod error;
mod growth;
mod interface;
mod onnx;
mod predictor;
mod protobuf;

pub use builder::AgentBuilder;
pub use error::AgentError;
pub use predictor::Predictor;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use hindsight_data::schema::Schema;

use self::interface::Interface;
use crate::{
    Batch, Learner, Shape,
    checkpoint::{Application, Checkpoint, CheckpointError, Header, LearnedFile},
    config::{Override, RunConfig},
    methods::{METHODS, Method, Setup},
    protocol::CHECK_EVERY,
    run::network,
    scaling::Moments,
    settings::{Scenario, Value},
    state::{StateError, Tensors},
};

/// A learner with its configuration: it checks what it is given, and can be saved and loaded.
///
/// ```
/// use hindsight::Agent;
///
/// // Two values in, two classes; any key of `methods::METHODS` and `config::SHARED`.
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
///
/// An open one, with names, on data that nobody has scaled:
///
/// ```
/// use hindsight::Agent;
///
/// let mut agent = Agent::builder(1, 0).method("er-ring").set("hidden", vec![16]).open().standardise().build()?;
/// for (celsius, kind) in [(900.0, "cold"), (1100.0, "warm"), (1300.0, "hot")] {
///     let (class, task) = (agent.class_id(kind)?, agent.task_id("first day")?);
///     agent.observe(&[celsius], &[class], task)?;
/// }
/// assert_eq!(agent.shape().names.as_ref().unwrap(), &["cold", "warm", "hot"]);
/// assert_eq!(agent.predict_proba(&[1000.0], 0)?.len(), 3);
/// # Ok::<(), hindsight::AgentError>(())
/// ```
pub struct Agent {
    config: RunConfig,
    interface: Interface,
    /// Listing the parts of a learner takes `&mut`, also where they are only read to be saved.
    learner: RwLock<Box<dyn Learner>>,
    batch: Batch,
    diverged: bool,
}

/// More parameters than any machine at hand could train.
const LARGEST: usize = 1 << 28;

/// What stands for a path in errors about an agent that is not in a file.
const IN_MEMORY: &str = "memory";

impl Agent {
    /// A fresh learner for inputs of `inputs` values and `classes` classes, which any task may answer with.
    ///
    /// `settings` are `key=value` as on the command line; the method is `hal` unless set, and a key of the
    /// method needs no prefix. `tasks` and `samples` should be set where a method needs them: the reservoir
    /// of `mer` is as large as a ring for `tasks` tasks.
    pub fn new(inputs: usize, classes: usize, settings: &[&str]) -> Result<Agent, AgentError> {
        Agent::of(Shape { input: [1, 1, inputs], classes, ..Shape::default() }, settings)
    }

    /// A fresh learner for inputs and answers of any shape: images, or tasks with classes of their own.
    pub fn of(shape: Shape, settings: &[&str]) -> Result<Agent, AgentError> {
        let settings = settings.iter().map(|text| Override::parse(text)).collect::<Result<Vec<_>, _>>()?;
        AgentBuilder::new(shape).overrides(settings).build()
    }

    /// An agent to be, for inputs of `features` values and `classes` classes: its settings come one by one.
    pub fn builder(features: usize, classes: usize) -> AgentBuilder {
        AgentBuilder::new(Shape { input: [1, 1, features], classes, ..Shape::default() })
    }

    fn fresh(config: RunConfig, interface: Interface, most: usize) -> Result<Agent, AgentError> {
        check(&config, &interface, most)?;
        let theta = interface.application.known.is_some().then(|| {
            let net = network(&config, &interface.shape);
            growth::initial_theta(&*net, config.seed)
        });
        let mut learner = build(&config, &interface, theta.as_deref());
        if learner.state().is_empty() {
            // It could neither be copied nor grow.
            let method = config.method.name.to_owned();
            return Err(CheckpointError::NoParts { method }.into());
        }
        let (learner, batch) = (RwLock::new(learner), Batch::default());
        Ok(Agent { config, interface, learner, batch, diverged: false })
    }

    /// Learns from a batch, `labels.len()` inputs one after the other, and returns the loss on it before
    /// that.
    ///
    /// Once a loss or a parameter is not finite, the learner is of no use any more: from then on this,
    /// `predict` and `save` say so.
    pub fn observe(&mut self, inputs: &[f32], labels: &[u32], task: u32) -> Result<f32, AgentError> {
        self.alive()?;
        self.interface.check(inputs, labels.len(), task)?;
        self.make_room(labels, task)?;
        let Interface { shape, .. } = &self.interface;
        if let Some(heads) = shape.heads.per_task().filter(|heads| task as usize >= heads.len()) {
            return Err(AgentError::Unknown { what: "task", found: task, end: heads.len() });
        }
        if let Some(&found) = labels.iter().find(|&&label| label as usize >= shape.classes) {
            return Err(AgentError::Unknown { what: "class", found, end: shape.classes });
        }
        if let Some(&class) = labels.iter().find(|&&label| !shape.allows(task, label)) {
            return Err(AgentError::Foreign { task, class });
        }
        if labels.is_empty() {
            return Ok(0.0);
        }
        self.follow_scaling(inputs, Moments::learn);
        self.batch.clear();
        self.interface.scale(inputs, &mut self.batch.x);
        self.batch.labels.extend_from_slice(labels);
        self.batch.tasks.resize(labels.len(), task);
        let learner = self.learner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let loss = learner.observe(&self.batch);
        let Application { samples, batches, class_samples, .. } = &mut self.interface.application;
        (*samples, *batches) = (*samples + labels.len() as u64, *batches + 1);
        class_samples.resize(self.interface.shape.classes, 0);
        labels.iter().for_each(|&label| class_samples[label as usize] += 1);
        let look = batches.is_multiple_of(CHECK_EVERY as u64);
        self.diverged = !loss.is_finite() || (look && !learner.is_finite());
        self.alive().map(|()| loss)
    }

    /// Learns from a chunk of data in batches of `batch` samples, `epochs` times over, and returns the mean
    /// loss of the last pass. Features are scaled by the chunk as a whole, which counts once. `after_batch`
    /// may stop it.
    pub fn observe_epochs<E: From<AgentError>>(
        &mut self,
        inputs: &[f32],
        labels: &[u32],
        task: u32,
        batch: usize,
        epochs: usize,
        mut after_batch: impl FnMut() -> Result<(), E>,
    ) -> Result<f32, E> {
        self.interface.check(inputs, labels.len(), task)?;
        self.follow_scaling(inputs, |moments, rows, width| {
            let known = moments.known(rows.len() / width);
            moments.look_ahead(&rows[known * width..], width);
        });
        let (batch, width, all, mut loss) = (batch.max(1), self.width(), labels.len() as f32, 0.0);
        for epoch in 0..epochs {
            if epoch > 0 {
                self.follow_scaling(inputs, |moments, rows, width| moments.expect(rows.len() / width));
            }
            loss = 0.0;
            for (inputs, labels) in inputs.chunks(batch * width).zip(labels.chunks(batch)) {
                loss += self.observe(inputs, labels, task)? * labels.len() as f32 / all;
                after_batch()?;
            }
        }
        Ok(loss)
    }

    /// Takes in what the features look like, where the agent standardises them; learns nothing.
    ///
    /// [`Agent::observe`] does this too. Whoever learns in small batches should give it the first chunk of
    /// data as a whole, before anything is learned from it: mean and deviation stay what they were over the
    /// first 1000 samples. As many samples that are observed next do not count again.
    pub fn fit_scaling(&mut self, inputs: &[f32]) -> Result<(), AgentError> {
        self.interface.check(inputs, inputs.len() / self.width(), 0)?;
        self.follow_scaling(inputs, Moments::look_ahead);
        Ok(())
    }

    /// Lets the moments take in rows as `follow` says, while they are not done.
    fn follow_scaling(&mut self, inputs: &[f32], follow: impl FnOnce(&mut Moments, &[f32], usize)) {
        let width = self.width();
        let Interface { shape, application } = &mut self.interface;
        if let Some(moments) = application.scaling.as_mut().filter(|moments| !moments.is_done()) {
            follow(moments, inputs, width);
            shape.scale = moments.scale();
        }
    }

    /// The number of the task called `name`, from which the next samples are. A task that was running before
    /// ends.
    ///
    /// ```
    /// # use hindsight::Agent;
    /// let mut agent = Agent::builder(1, 0).set("hidden", vec![4]).open().build()?;
    /// for day in ["monday", "monday", "tuesday"] {
    ///     let (task, class) = (agent.begin_task(day)?, agent.class_id("warm")?);
    ///     agent.observe(&[0.5], &[class], task)?;
    /// }
    /// assert_eq!((agent.application().tasks.len(), agent.application().running_task), (2, Some(1)));
    /// # Ok::<(), hindsight::AgentError>(())
    /// ```
    pub fn begin_task(&mut self, name: &str) -> Result<u32, AgentError> {
        let task = self.task_id(name)?;
        if self.interface.application.running_task.is_some_and(|running| running != task) {
            self.end_task();
        }
        self.interface.application.running_task = Some(task);
        Ok(task)
    }

    /// Keeps what the columns of the tables are that its samples come from: it is saved with the agent. Its
    /// features must be those of the agent.
    pub fn set_schema(&mut self, schema: Schema) -> Result<(), AgentError> {
        let mut interface = self.interface.clone();
        interface.application.schema = Some(schema);
        check(&self.config, &interface, LARGEST)?;
        self.interface = interface;
        Ok(())
    }

    /// Keeps which file it has learned from, and how far: it is saved with the agent. Replaces an entry of
    /// the same file if that is the last one.
    pub fn note_file(&mut self, file: LearnedFile) {
        let history = &mut self.interface.application.history;
        if history.last().is_some_and(|last| last.name == file.name && last.rows <= file.rows) {
            history.pop();
        }
        history.push(file);
    }

    /// Tells it that what comes next is another task. Where tasks have no boundaries, it need never be told.
    pub fn end_task(&mut self) {
        if self.diverged {
            return;
        }
        self.interface.application.running_task = None;
        let learner = self.learner.get_mut().unwrap_or_else(PoisonError::into_inner);
        learner.end_task();
        self.diverged = !learner.is_finite();
    }

    /// The class of each input, at any time.
    pub fn predict(&self, inputs: &[f32], task: u32) -> Result<Vec<u32>, AgentError> {
        self.alive()?;
        self.interface.predict(&**self.learner(), inputs, task)
    }

    /// The probability of each class for each input, `[n, classes]`: rows sum to 1, and classes that the task
    /// may not answer with have 0.
    pub fn predict_proba(&self, inputs: &[f32], task: u32) -> Result<Vec<f32>, AgentError> {
        self.alive()?;
        self.interface.predict_proba(&**self.learner(), inputs, task)
    }

    /// A copy that only answers, to share between threads while this one learns on. To make it takes as long
    /// as to copy all that the learner holds; to copy it takes nothing.
    pub fn predictor(&self) -> Result<Predictor, AgentError> {
        self.alive()?;
        Ok(Predictor::new(self.copy()?, self.interface.clone()))
    }

    /// Values in an input.
    pub fn width(&self) -> usize {
        self.interface.width()
    }

    /// The number of classes that it knows.
    pub fn classes(&self) -> usize {
        self.interface.classes()
    }

    /// What its inputs and answers are, and what the classes are called.
    pub fn shape(&self) -> &Shape {
        &self.interface.shape
    }

    /// What it has seen, and what features and tasks are called.
    pub fn application(&self) -> &Application {
        &self.interface.application
    }

    /// Notes what the names of classes stand for in the program that uses it: see
    /// [`Application::label_type`].
    pub fn set_label_type(&mut self, label_type: Option<String>) {
        self.interface.application.label_type = label_type;
    }

    /// Its settings.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// All settings that mean something to an agent, under their full keys. What its caller decides instead,
    /// such as the scenario or the evaluation, is not among them.
    pub fn settings(&self) -> BTreeMap<String, Value> {
        let mut settings = self.config.effective();
        settings.retain(|key, _| !builder::is_meaningless(key));
        settings
    }

    /// The learner itself.
    pub fn learner(&self) -> RwLockReadGuard<'_, Box<dyn Learner>> {
        self.learner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Box<dyn Learner>> {
        self.learner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes it to a file, whole or not at all. One that has diverged does not take the place of a good one.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), AgentError> {
        Ok(self.checkpoint()?.write(path.as_ref())?)
    }

    /// What [`Agent::save`] writes, in memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>, AgentError> {
        let mut bytes = Vec::new();
        let written = self.checkpoint()?.write_to(&mut bytes);
        let unwritable = |error: io::Error| CheckpointError::Unwritable {
            path: IN_MEMORY.into(),
            reason: error.to_string(),
        };
        written.map_err(unwritable)?;
        Ok(bytes)
    }

    fn checkpoint(&self) -> Result<Checkpoint, AgentError> {
        self.alive()?;
        if !self.learner().is_finite() {
            return Err(AgentError::Diverged);
        }
        let Interface { shape, application } = self.interface.clone();
        let header = Header { application: Some(application), ..Header::new(&self.config, shape, None) };
        Ok(Checkpoint::take(header, &mut **self.exclusive())?)
    }

    /// Reads one that was saved, by [`Agent::save`] or as a checkpoint of a run. If that was on a custom
    /// stream, inputs are to be as in its files: they are scaled as they were in training.
    pub fn load(path: impl AsRef<Path>) -> Result<Agent, AgentError> {
        Agent::load_with(path, METHODS)
    }

    /// The same where the method is one of the caller's table.
    pub fn load_with(path: impl AsRef<Path>, methods: &[Method]) -> Result<Agent, AgentError> {
        let path = path.as_ref();
        Agent::restore(&Checkpoint::read(path)?, path, methods)
    }

    /// The agent in what [`Agent::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Agent, AgentError> {
        let path = Path::new(IN_MEMORY);
        Agent::restore(&Checkpoint::parse(bytes, path)?, path, METHODS)
    }

    fn restore(checkpoint: &Checkpoint, path: &Path, methods: &[Method]) -> Result<Agent, AgentError> {
        let config = builder::configuration(&checkpoint.header, methods)?;
        let shape = checkpoint.header.shape.clone();
        let application = checkpoint.header.application();
        // A file cannot claim more than it has.
        let most = checkpoint.values_held().min(LARGEST);
        let mut agent = Agent::fresh(config, Interface { shape, application }, most)?;
        let learner = agent.learner.get_mut().unwrap_or_else(PoisonError::into_inner);
        checkpoint.restore(&mut **learner, path)?;
        if !learner.is_finite() {
            return Err(AgentError::Diverged);
        }
        Ok(agent)
    }

    fn alive(&self) -> Result<(), AgentError> {
        if self.diverged { Err(AgentError::Diverged) } else { Ok(()) }
    }

    fn tensors(&self) -> Tensors {
        Tensors::of(self.exclusive().state(), self.interface.shape.clone())
    }

    /// Another learner in the same state.
    fn copy(&self) -> Result<Box<dyn Learner>, AgentError> {
        let theta = self.learner().theta().to_vec();
        let mut learner = build(&self.config, &self.interface, Some(&theta));
        self.tensors().restore(learner.state()).map_err(misfit)?;
        Ok(learner)
    }
}

/// # Panics
/// If the method's learner does not take back what it has itself listed.
impl Clone for Agent {
    fn clone(&self) -> Agent {
        let learner = RwLock::new(self.copy().expect("a learner takes back its own state"));
        let (config, interface, diverged) = (self.config.clone(), self.interface.clone(), self.diverged);
        Agent { config, interface, learner, batch: Batch::default(), diverged }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut agent = f.debug_struct("Agent");
        agent.field("method", &self.config.method.name).field("seed", &self.config.seed);
        agent.field("interface", &self.interface).field("diverged", &self.diverged).finish_non_exhaustive()
    }
}

/// A part that a learner of the same configuration does not take.
fn misfit(part: StateError) -> AgentError {
    CheckpointError::Part { path: IN_MEMORY.into(), part }.into()
}

/// A fresh learner, which starts from `theta` if there is one.
fn build(config: &RunConfig, interface: &Interface, theta: Option<&[f32]>) -> Box<dyn Learner> {
    let shape = &interface.shape;
    let shared = config.shared_settings();
    let tasks = shape.heads.per_task().map_or(shared.tasks, <[_]>::len).max(1);
    let setup = Setup {
        net: network(config, shape),
        heads: shape.heads.clone(),
        // Tasks with classes of their own must be told to be answered.
        scenario: if shape.heads.is_single() { Scenario::Class } else { Scenario::Task },
        seed: config.seed,
        tasks,
        task_class_pairs: tasks * shape.heads.classes(0, shape.classes).len(),
        samples_per_task: shared.samples,
        future: None,
        initial: theta,
        shared,
        method_settings: &config.method_settings,
    };
    config.method.learner(&setup)
}

/// Refuses what no network can be, before a value is allocated.
fn check(config: &RunConfig, interface: &Interface, most: usize) -> Result<(), AgentError> {
    let Interface { shape, application } = interface;
    let refuse = |what, found: String, expected: &str| {
        Err(AgentError::Shape { what, found, expected: expected.to_owned() })
    };
    let inputs = shape.inputs();
    if inputs == 0 || inputs > LARGEST {
        return refuse("the number of inputs", inputs.to_string(), "at least one, and not millions");
    }
    let (open, fewest) = (application.known.is_some(), if application.known.is_some() { 1 } else { 2 });
    if shape.classes < fewest || shape.classes > 1 << 16 {
        return refuse("the number of classes", shape.classes.to_string(), "from 2 to 65536");
    }
    if application.known.is_some_and(|known| known.max(1) != shape.classes) {
        return refuse("the number of known classes", interface.classes().to_string(), "that of all classes");
    }
    let fits =
        |classes: &Vec<usize>| classes.iter().all(|&c| c < shape.classes) && (open || !classes.is_empty());
    let heads = shape.heads.per_task();
    if heads.is_some_and(|tasks| !tasks.iter().all(fits) || (!open && tasks.is_empty())) {
        return refuse("a task's classes", "none, or one too many".to_owned(), "some of the classes");
    }
    let scaled = application.scaling.as_ref().is_none_or(|moments| moments.fits(inputs));
    if !shape.scale.fits(inputs) || !scaled {
        let expected = "a mean and a factor for each input, all finite";
        return refuse("the scale of the inputs", "another".to_owned(), expected);
    }
    if let Some(names) = shape.names.as_ref().filter(|names| names.len() != interface.classes()) {
        return refuse("the number of names", names.len().to_string(), "one for each class");
    }
    if let Some(names) = application.features.as_ref().filter(|names| names.len() != inputs) {
        return refuse("the number of features' names", names.len().to_string(), "one for each input");
    }
    if let Some(schema) = application.schema.as_ref().filter(|schema| schema.width() != inputs) {
        return refuse("the number of features", schema.width().to_string(), "as many as inputs");
    }
    // Every task has a mask over all classes.
    let tasks = heads.map_or(0, <[_]>::len);
    if tasks > (1 << 26) / shape.classes {
        let found = format!("{tasks}, of {} classes", shape.classes);
        return refuse("the number of tasks", found, "at most 2^26 tasks times classes");
    }
    let parameters = network(config, shape).parameters();
    if parameters > most {
        return refuse("the network's size", format!("{parameters} parameters"), &format!("at most {most}"));
    }
    Ok(())
}
