//! The state of a learner, part by part, as named tensors.
//!
//! A learner lists its parts once ([`Learner::state`](crate::Learner::state)); saving and loading both work
//! from that list. What a configuration determines (rates, sizes, buffers) is no state.

use std::{collections::BTreeMap, ops::Range, sync::OnceLock};

use hindsight_nn::{Rng, optim::Adam};
use thiserror::Error;

use crate::{batch::Batch, shape::Shape};

/// Something that changes while a learner learns.
pub trait State {
    /// Writes itself under `name`.
    fn save(&self, name: &str, to: &mut Tensors);

    /// Becomes what is written under `name`. Nothing outside has been checked but that it is tensors.
    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError>;
}

/// The parts of a learner, by name.
pub type StateDict<'a> = Vec<(&'static str, &'a mut dyn State)>;

/// A part that is not there, or does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{part}` is {found}, expected {expected}")]
pub struct StateError {
    /// The part.
    pub part: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl StateError {
    /// A part that does not fit.
    pub fn new(part: &str, found: impl Into<String>, expected: impl Into<String>) -> StateError {
        StateError { part: part.to_owned(), found: found.into(), expected: expected.into() }
    }
}

/// How theta lies in a learner that knew fewer classes, and in the one that takes over its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Where the output layer begins: `features` rows of weights and one of biases, a value per class in
    /// each.
    pub(crate) body: usize,
    pub(crate) features: usize,
    /// Before and after.
    pub(crate) classes: [usize; 2],
}

impl Growth {
    /// Writes what `old` has into `new`, which keeps its values for the other classes. False if one of them
    /// is no theta.
    fn spread(&self, old: &[f32], new: &mut [f32]) -> bool {
        let (rows, [before, after]) = (self.features + 1, self.classes);
        // Behind the output layer come running statistics, in vectors that have them.
        let ends = [self.body + rows * before, self.body + rows * after];
        let behind = [old.len().checked_sub(ends[0]), new.len().checked_sub(ends[1])];
        if behind[0].is_none() || behind[0] != behind[1] {
            return false;
        }
        new[..self.body].copy_from_slice(&old[..self.body]);
        for row in 0..rows {
            let of = &old[self.body + row * before..][..before];
            new[self.body + row * after..][..before].copy_from_slice(of);
        }
        new[ends[1]..].copy_from_slice(&old[ends[0]..]);
        true
    }
}

/// Tensors by name.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// What samples have to fit: others are refused.
    pub shape: Shape,
    growth: Option<Growth>,
    slots: BTreeMap<String, TensorSlot>,
    /// The values of all, one after the other.
    words: Vec<Word>,
}

/// Four bytes of a value, little-endian: a real one, or half of a whole number.
pub(crate) type Word = [u8; 4];

/// Where a tensor is.
#[derive(Debug, Clone)]
struct TensorSlot {
    dtype: Dtype,
    shape: Vec<usize>,
    words: Range<usize>,
}

/// Values and their shape, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tensor<'t> {
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'t [usize],
    /// Little-endian.
    pub(crate) bytes: &'t [u8],
}

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dtype {
    /// `u64`
    Numbers,
    /// `f32`
    Floats,
}

impl Dtype {
    /// Bytes of a value.
    pub(crate) fn size(self) -> usize {
        match self {
            Dtype::Numbers => 8,
            Dtype::Floats => 4,
        }
    }
}

/// More than any counter reaches, and far from where arithmetic on it would overflow.
const MOST: u64 = 1 << 48;

impl Tensors {
    /// None yet.
    pub fn new(shape: Shape) -> Tensors {
        Tensors::reusing(Vec::new(), shape)
    }

    /// None yet, in the memory of others: new memory takes the system as long as the values take us.
    pub(crate) fn reusing(mut words: Vec<Word>, shape: Shape) -> Tensors {
        words.clear();
        Tensors { shape, growth: None, slots: BTreeMap::new(), words }
    }

    /// The state of a learner.
    pub(crate) fn of(parts: StateDict<'_>, shape: Shape) -> Tensors {
        let mut tensors = Tensors::new(shape);
        tensors.put_all(parts);
        tensors
    }

    /// The same, for a learner that knows more classes.
    pub(crate) fn growing(self, growth: Growth) -> Tensors {
        Tensors { growth: Some(growth), ..self }
    }

    /// Adds all parts of a learner.
    pub(crate) fn put_all(&mut self, parts: StateDict<'_>) {
        parts.into_iter().for_each(|(name, part)| part.save(name, self));
    }

    /// Brings all parts of a learner into this state. On an error it is in none.
    pub(crate) fn restore(&self, parts: StateDict<'_>) -> Result<(), StateError> {
        parts.into_iter().try_for_each(|(name, part)| part.load(name, self))
    }

    /// Their memory, for others.
    pub(crate) fn into_memory(self) -> Vec<Word> {
        self.words
    }

    /// Adds rows of `width` values.
    pub fn put_rows(&mut self, name: &str, values: &[f32], width: usize) {
        let shape = vec![values.len() / width.max(1), width];
        self.put(name, Dtype::Floats, shape, values.iter().map(|value| value.to_le_bytes()));
    }

    /// Adds whole numbers.
    pub fn put_numbers(&mut self, name: &str, numbers: Vec<u64>) {
        let words = numbers.iter().flat_map(|number| {
            let [low, high] = [*number as u32, (number >> 32) as u32];
            [low.to_le_bytes(), high.to_le_bytes()]
        });
        self.put(name, Dtype::Numbers, vec![numbers.len()], words);
    }

    /// Adds values as they are written.
    pub(crate) fn put(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: Vec<usize>,
        words: impl Iterator<Item = Word>,
    ) {
        let start = self.words.len();
        self.words.extend(words);
        self.slots.insert(name.to_owned(), TensorSlot { dtype, shape, words: start..self.words.len() });
    }

    /// All, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Tensor<'_>)> {
        self.slots.iter().map(|(name, slot)| (name.as_str(), self.at(slot)))
    }

    /// The one of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Tensor<'_>> {
        self.slots.get(name).map(|slot| self.at(slot))
    }

    fn at<'t>(&'t self, slot: &'t TensorSlot) -> Tensor<'t> {
        let bytes = self.words[slot.words.clone()].as_flattened();
        Tensor { dtype: slot.dtype, shape: &slot.shape, bytes }
    }

    /// Rows of `width` values.
    pub fn rows(&self, name: &str, width: usize) -> Result<Vec<f32>, StateError> {
        let expected = || format!("rows of {width} values");
        let tensor = self.find(name, expected)?;
        match (tensor.floats(), tensor.shape) {
            (Some(values), [_, found]) if *found == width => Ok(values),
            _ => Err(StateError::new(name, tensor.describe(), expected())),
        }
    }

    /// Values for each parameter, as many as `into` has. What a learner of fewer classes did not have stays.
    pub fn parameters(&self, name: &str, into: &mut [f32]) -> Result<(), StateError> {
        let grown = self.growth.as_ref().zip(self.find(name, || "values".to_owned())?.floats());
        if let Some((growth, values)) = grown.filter(|(_, values)| values.len() != into.len()) {
            let expected = || format!("{} values", into.len());
            let misfit = StateError::new(name, format!("{} values", values.len()), expected());
            return if growth.spread(&values, into) { Ok(()) } else { Err(misfit) };
        }
        let values = self.rows(name, into.len())?;
        if values.len() != into.len() {
            let found = format!("{} values", values.len());
            return Err(StateError::new(name, found, format!("{} values", into.len())));
        }
        into.copy_from_slice(&values);
        Ok(())
    }

    /// Rows of parameters, each as long as `fresh`, which has the values for what they do not have.
    pub fn parameter_rows(&self, name: &str, fresh: &[f32]) -> Result<Vec<f32>, StateError> {
        let Some(growth) = &self.growth else { return self.rows(name, fresh.len()) };
        let width = growth.body + (growth.features + 1) * growth.classes[0];
        let width = fresh.len() + width - (growth.body + (growth.features + 1) * growth.classes[1]);
        let mut all = Vec::new();
        for row in self.rows(name, width)?.chunks_exact(width) {
            let mut grown = fresh.to_vec();
            growth.spread(row, &mut grown);
            all.extend(grown);
        }
        Ok(all)
    }

    /// Values for each class, as many as `into` has, class by class. Those of classes that a learner did not
    /// know stay.
    pub fn by_class(&self, name: &str, into: &mut [f32]) -> Result<(), StateError> {
        let known = match &self.growth {
            None => into.len(),
            Some(Growth { classes: [before, after], .. }) => into.len() / after * before,
        };
        let values = self.rows(name, known)?;
        if values.len() != known {
            let found = format!("{} values", values.len());
            return Err(StateError::new(name, found, format!("{known} values")));
        }
        into[..known].copy_from_slice(&values);
        Ok(())
    }

    /// Rows of `width` values; where that is a value per class, those of classes that a learner did not know
    /// are zero.
    pub fn class_rows(&self, name: &str, width: usize) -> Result<Vec<f32>, StateError> {
        match &self.growth {
            Some(Growth { classes: [known, classes], .. }) if *classes == width => {
                let mut rows = Vec::new();
                for row in self.rows(name, *known)?.chunks_exact(*known) {
                    rows.extend_from_slice(row);
                    rows.resize(rows.len() + width - known, 0.0);
                }
                Ok(rows)
            }
            _ => self.rows(name, width),
        }
    }

    /// Whole numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>, StateError> {
        let expected = || "whole numbers".to_owned();
        let tensor = self.find(name, expected)?;
        if tensor.dtype != Dtype::Numbers {
            return Err(StateError::new(name, tensor.describe(), expected()));
        }
        let numbers = words(tensor.bytes, u64::from_le_bytes);
        match numbers.iter().find(|&&n| n > MOST) {
            None => Ok(numbers),
            Some(n) => Err(StateError::new(name, n.to_string(), format!("numbers up to {MOST}"))),
        }
    }

    /// So many whole numbers.
    pub fn exactly<const N: usize>(&self, name: &str) -> Result<[u64; N], StateError> {
        let numbers = self.numbers(name)?;
        let found = numbers.len();
        let misfit = |_| StateError::new(name, format!("{found} numbers"), format!("{N}"));
        numbers.try_into().map_err(misfit)
    }

    fn find(&self, name: &str, expected: impl Fn() -> String) -> Result<Tensor<'_>, StateError> {
        self.get(name).ok_or_else(|| StateError::new(name, "missing", expected()))
    }
}

impl Tensor<'_> {
    /// Its values, if they are real.
    pub(crate) fn floats(&self) -> Option<Vec<f32>> {
        (self.dtype == Dtype::Floats).then(|| words(self.bytes, f32::from_le_bytes))
    }

    fn describe(&self) -> String {
        let dtype = match self.dtype {
            Dtype::Floats => "real values",
            Dtype::Numbers => "whole numbers",
        };
        format!("{dtype} of shape {:?}", self.shape)
    }
}

fn words<const N: usize, T>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&word| read(word)).collect()
}

/// Values for each parameter: theta, or others of the same order.
impl State for Vec<f32> {
    fn save(&self, name: &str, to: &mut Tensors) {
        to.put_rows(name, self, self.len());
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        from.parameters(name, self)
    }
}

impl<const N: usize> State for [f32; N] {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.to_vec().save(name, to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let values = from.rows(name, N)?;
        let misfit = || StateError::new(name, format!("{} values", values.len()), format!("{N} values"));
        *self = values.as_slice().try_into().map_err(|_| misfit())?;
        Ok(())
    }
}

/// Values for each class, class by class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ByClass(pub Vec<f32>);

impl State for ByClass {
    fn save(&self, name: &str, to: &mut Tensors) {
        self.0.save(name, to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        from.by_class(name, &mut self.0)
    }
}

impl State for usize {
    fn save(&self, name: &str, to: &mut Tensors) {
        to.put_numbers(name, vec![*self as u64]);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let [number] = from.exactly(name)?;
        *self = number as usize;
        Ok(())
    }
}

impl State for bool {
    fn save(&self, name: &str, to: &mut Tensors) {
        usize::from(*self).save(name, to);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let [number] = from.exactly(name)?;
        *self = number != 0;
        Ok(())
    }
}

/// A task, or none, for each class.
impl State for Vec<Option<u32>> {
    fn save(&self, name: &str, to: &mut Tensors) {
        to.put_numbers(name, self.iter().map(|task| task.map_or(0, |task| u64::from(task) + 1)).collect());
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let numbers = from.numbers(name)?;
        let known = from.growth.as_ref().map_or(self.len(), |growth| growth.classes[0]);
        if numbers.len() != known || known > self.len() {
            return Err(StateError::new(name, format!("{} numbers", numbers.len()), known.to_string()));
        }
        for (class, (task, number)) in self.iter_mut().zip(numbers).enumerate() {
            *task = match number.checked_sub(1) {
                None => None,
                Some(number) => Some(answer(name, number, class as u64, &from.shape)?.0),
            };
        }
        Ok(())
    }
}

/// Counts by (task, class).
impl State for BTreeMap<(u32, u32), usize> {
    fn save(&self, name: &str, to: &mut Tensors) {
        let entry =
            |(&(task, class), &count): (&(u32, u32), &usize)| [task.into(), class.into(), count as u64];
        to.put_numbers(name, self.iter().flat_map(entry).collect());
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        self.clear();
        for entry in from.numbers(name)?.chunks(3) {
            let &[task, class, count] = entry else {
                return Err(StateError::new(name, "an entry cut short", "triples of task, class and count"));
            };
            self.insert(answer(name, task, class, &from.shape)?, count as usize);
        }
        Ok(())
    }
}

/// Where a generator is; which one it is, the configuration says.
impl State for Rng {
    fn save(&self, name: &str, to: &mut Tensors) {
        let at = self.position();
        // A position has 68 bits: whole blocks of 16 words, and words.
        to.put_numbers(name, vec![(at >> 36) as u64, (at & ((1 << 36) - 1)) as u64]);
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let [high, low] = from.exactly(name)?;
        self.set_position((u128::from(high) << 36) | u128::from(low));
        Ok(())
    }
}

impl State for Adam<f32> {
    fn save(&self, name: &str, to: &mut Tensors) {
        let (steps, [mean, square]) = self.moments();
        (steps as usize).save(&format!("{name}.steps"), to);
        to.put_rows(&format!("{name}.mean"), mean, mean.len());
        to.put_rows(&format!("{name}.square"), square, square.len());
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let (part, mut moments) = (format!("{name}.steps"), self.moments().1.map(<[f32]>::to_vec));
        let [steps] = from.exactly(&part)?;
        let steps = i32::try_from(steps).ok().filter(|&steps| steps < i32::MAX / 2);
        let steps = steps.ok_or_else(|| StateError::new(&part, "a huge number", "a number of steps"))?;
        moments[0].load(&format!("{name}.mean"), from)?;
        moments[1].load(&format!("{name}.square"), from)?;
        self.set_moments(steps, moments);
        Ok(())
    }
}

impl State for Batch {
    fn save(&self, name: &str, to: &mut Tensors) {
        let width = to.shape.inputs();
        to.put_rows(&format!("{name}.x"), &self.x, width);
        to.put_numbers(&format!("{name}.labels"), self.labels.iter().map(|&l| l.into()).collect());
        to.put_numbers(&format!("{name}.tasks"), self.tasks.iter().map(|&t| t.into()).collect());
    }

    fn load(&mut self, name: &str, from: &Tensors) -> Result<(), StateError> {
        let width = from.shape.inputs();
        let x = from.rows(&format!("{name}.x"), width)?;
        let count = x.len() / width.max(1);
        let of = |part: &str| {
            let numbers = from.numbers(part)?;
            if numbers.len() != count {
                let found = format!("{} numbers", numbers.len());
                return Err(StateError::new(part, found, format!("{count}, as many as inputs")));
            }
            Ok(numbers)
        };
        let (labels, tasks) = (of(&format!("{name}.labels"))?, of(&format!("{name}.tasks"))?);
        let answers = tasks.into_iter().zip(labels);
        let answers = answers.map(|(task, class)| answer(name, task, class, &from.shape));
        let (tasks, labels) = answers.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        *self = Batch { x, labels, tasks };
        Ok(())
    }
}

/// What is computed from other parts when it is asked for: nothing is saved, and it is forgotten on loading.
impl<T> State for OnceLock<T> {
    fn save(&self, _: &str, _: &mut Tensors) {}

    fn load(&mut self, _: &str, _: &Tensors) -> Result<(), StateError> {
        *self = OnceLock::new();
        Ok(())
    }
}

/// A task and a class that it may answer with.
fn answer(part: &str, task: u64, class: u64, shape: &Shape) -> Result<(u32, u32), StateError> {
    let id = |what: &str, number: u64, end: u64| {
        let known = u32::try_from(number).ok().filter(|_| number < end);
        known
            .ok_or_else(|| StateError::new(part, format!("{what} {number}"), format!("a {what} below {end}")))
    };
    let tasks = shape.heads.per_task().map_or(u64::from(u32::MAX), |tasks| tasks.len() as u64);
    let answer = (id("task", task, tasks)?, id("class", class, shape.classes as u64)?);
    if shape.allows(answer.0, answer.1) {
        Ok(answer)
    } else {
        Err(StateError::new(part, format!("class {class} of task {task}"), "a class of that task"))
    }
}
