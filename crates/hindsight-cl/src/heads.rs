//! Which classes a task may answer with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The output head of each task: the classes that it chooses from.
///
/// In a file it is a list of classes per task, or nothing where there is a single head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<Vec<Vec<usize>>>", into = "Option<Vec<Vec<usize>>>")]
pub enum Heads {
    /// One head: any class for any task.
    #[default]
    Single,
    /// The classes of each task.
    PerTask(Arc<[Vec<usize>]>),
}

impl Heads {
    /// Whether `task` may answer with `class`.
    pub fn allows(&self, task: usize, class: usize) -> bool {
        match self {
            Heads::Single => true,
            Heads::PerTask(tasks) => tasks.get(task).is_some_and(|classes| classes.contains(&class)),
        }
    }

    /// The classes that `task` may answer with, of `classes` in all, in ascending order.
    pub fn classes(&self, task: usize, classes: usize) -> Vec<usize> {
        (0..classes).filter(|&class| self.allows(task, class)).collect()
    }

    /// The classes of each task; none where there is a single head.
    pub fn per_task(&self) -> Option<&[Vec<usize>]> {
        match self {
            Heads::Single => None,
            Heads::PerTask(tasks) => Some(tasks),
        }
    }

    /// Whether any task may answer with any class.
    pub fn is_single(&self) -> bool {
        matches!(self, Heads::Single)
    }

    /// A mask over `classes` classes for each of `tasks`, or none where all classes are allowed.
    pub(crate) fn mask<'m>(
        &self,
        tasks: &[u32],
        classes: usize,
        mask: &'m mut Vec<bool>,
    ) -> Option<&'m [bool]> {
        let per_task = self.per_task()?;
        mask.clear();
        mask.resize(tasks.len() * classes, false);
        for (row, &task) in mask.chunks_exact_mut(classes).zip(tasks) {
            per_task[task as usize].iter().for_each(|&class| row[class] = true);
        }
        Some(mask)
    }
}

impl From<Option<Vec<Vec<usize>>>> for Heads {
    fn from(tasks: Option<Vec<Vec<usize>>>) -> Heads {
        tasks.map_or(Heads::Single, |mut tasks| {
            tasks.iter_mut().for_each(|classes| classes.sort_unstable());
            Heads::PerTask(tasks.into())
        })
    }
}

impl From<Heads> for Option<Vec<Vec<usize>>> {
    fn from(heads: Heads) -> Option<Vec<Vec<usize>>> {
        heads.per_task().map(<[_]>::to_vec)
    }
}
