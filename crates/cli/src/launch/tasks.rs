//! The tasks of a step: where they are, how they ended, and the lines srun prints about that.
//!
//! Pure. Tasks of one node that ended alike share a line. Texts are Slurm's. Source: srun(1) and its output.

use std::collections::BTreeMap;

use sluice_model::array::IndexSet;
use sluice_model::exit_status::WaitStatus;
use sluice_model::signal::Signal;
use sluice_model::step::StepLayout;

/// State of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskState {
    Waiting,
    Running,
    Ended(WaitStatus),
}

/// All tasks of a step.
#[derive(Debug)]
pub struct TaskTable {
    nodes: Vec<String>,
    node_of: BTreeMap<u32, usize>,
    states: BTreeMap<u32, TaskState>,
    unreported: Vec<u32>,
}

impl TaskTable {
    /// The tasks as the controller placed them.
    #[must_use]
    pub fn new(layout: &StepLayout) -> Self {
        let mut table = Self {
            nodes: layout.nodes.iter().map(|node| node.node.clone()).collect(),
            node_of: BTreeMap::new(),
            states: BTreeMap::new(),
            unreported: Vec::new(),
        };
        for (index, node) in layout.nodes.iter().enumerate() {
            for &task in &node.task_ids {
                table.node_of.insert(task, index);
                table.states.insert(task, TaskState::Waiting);
            }
        }
        table
    }

    /// The nodes of the step, in order.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Tasks of a node, by its place in the step.
    #[must_use]
    pub fn tasks_of(&self, node: usize) -> Vec<u32> {
        self.node_of
            .iter()
            .filter(|(_, index)| **index == node)
            .map(|(task, _)| *task)
            .collect()
    }

    /// The node a task is on, by its place in the step.
    #[must_use]
    pub fn node_index(&self, task: u32) -> Option<usize> {
        self.node_of.get(&task).copied()
    }

    /// Processes of a node exist.
    pub fn started(&mut self, node: usize) {
        for task in self.tasks_of(node) {
            if let Some(state) = self
                .states
                .get_mut(&task)
                .filter(|state| **state == TaskState::Waiting)
            {
                *state = TaskState::Running;
            }
        }
    }

    /// A task has ended.
    pub fn ended(&mut self, task: u32, status: WaitStatus) {
        self.states.insert(task, TaskState::Ended(status));
        self.unreported.push(task);
    }

    /// True when every task of a node has ended.
    #[must_use]
    pub fn node_ended(&self, node: usize) -> bool {
        self.tasks_of(node)
            .iter()
            .all(|task| matches!(self.states.get(task), Some(TaskState::Ended(_))))
    }

    /// True when every task has ended.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        self.states
            .values()
            .all(|state| matches!(state, TaskState::Ended(_)))
    }

    /// True when a task ended with a code or by a signal.
    #[must_use]
    pub fn any_failed(&self) -> bool {
        self.statuses().any(|status| !status.is_success())
    }

    /// True when a task was ended by SIGKILL or SIGTERM.
    #[must_use]
    pub fn any_killed(&self) -> bool {
        self.statuses()
            .any(|status| [Signal::KILL.number(), Signal::TERM.number()].contains(&status.signal()))
    }

    fn statuses(&self) -> impl Iterator<Item = WaitStatus> + '_ {
        self.states.values().filter_map(|state| match state {
            TaskState::Ended(status) => Some(*status),
            _ => None,
        })
    }

    /// The exit status of srun: the highest of code and 128 + signal.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        self.statuses()
            .map(WaitStatus::shell_code)
            .max()
            .unwrap_or(0)
    }

    /// The wait status with that code, for the record of the allocation.
    #[must_use]
    pub fn wait_status(&self) -> WaitStatus {
        self.statuses()
            .max_by_key(|status| status.shell_code())
            .unwrap_or_default()
    }

    /// Lines about ended tasks that were not reported yet: `n1: tasks 0-1: Exited with exit code 7`; with `all` also about
    /// those that ended well.
    pub fn report(&mut self, all: bool) -> Vec<(bool, String)> {
        let mut groups: Vec<(usize, WaitStatus, Vec<u32>)> = Vec::new();
        for task in std::mem::take(&mut self.unreported) {
            let (Some(TaskState::Ended(status)), Some(node)) =
                (self.states.get(&task), self.node_index(task))
            else {
                continue;
            };
            if status.is_success() && !all {
                continue;
            }
            match groups
                .iter_mut()
                .find(|(known_node, known, _)| *known_node == node && known == status)
            {
                Some((_, _, tasks)) => tasks.push(task),
                None => groups.push((node, *status, vec![task])),
            }
        }
        groups
            .into_iter()
            .map(|(node, status, tasks)| {
                let line = format!(
                    "{}: {}: {}",
                    self.nodes[node],
                    task_list(&tasks),
                    how(status)
                );
                (!status.is_success(), line)
            })
            .collect()
    }

    /// Lines about every state, for an interrupt: `tasks 0-1: running`.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let mut groups: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for (&task, state) in &self.states {
            let key = match state {
                TaskState::Waiting => 0,
                TaskState::Running => 1,
                TaskState::Ended(status) if status.is_success() => 2,
                TaskState::Ended(_) => 3,
            };
            groups.entry(key).or_default().push(task);
        }
        groups
            .into_iter()
            .map(|(key, tasks)| {
                let word = ["unknown", "running", "exited", "exited abnormally"][usize::from(key)];
                format!("{}: {word}", task_list(&tasks))
            })
            .collect()
    }

    /// Tasks that still run.
    #[must_use]
    pub fn running(&self) -> Vec<u32> {
        self.states
            .iter()
            .filter(|(_, state)| !matches!(state, TaskState::Ended(_)))
            .map(|(task, _)| *task)
            .collect()
    }
}

/// `task 3`, `tasks 0-1,5`.
#[must_use]
pub fn task_list(tasks: &[u32]) -> String {
    let set: IndexSet = tasks.iter().copied().collect();
    format!("{} {set}", if tasks.len() == 1 { "task" } else { "tasks" })
}

fn how(status: WaitStatus) -> String {
    match Signal::from_number(status.signal()) {
        Some(signal) => {
            let core = if status.core_dumped() {
                " (core dumped)"
            } else {
                ""
            };
            format!("{}{core}", signal.description())
        }
        None if status.is_success() => "Completed".to_string(),
        None => format!("Exited with exit code {}", status.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::step::StepNode;

    fn table() -> TaskTable {
        let node = |name: &str, tasks: &[u32]| StepNode {
            node: name.to_string(),
            task_ids: tasks.to_vec(),
            ..StepNode::default()
        };
        TaskTable::new(&StepLayout {
            nodes: vec![node("n1", &[0, 1]), node("n2", &[2])],
        })
    }

    /// Lines and exit statuses as a real srun has them.
    #[test]
    fn reports() {
        let mut tasks = table();
        tasks.ended(0, WaitStatus::exited(7));
        tasks.ended(1, WaitStatus::exited(7));
        assert_eq!(
            tasks.report(false),
            [(true, "n1: tasks 0-1: Exited with exit code 7".to_string())]
        );
        assert!(tasks.node_ended(0) && !tasks.all_ended());
        tasks.ended(2, WaitStatus::signaled(9));
        assert_eq!(
            tasks.report(false),
            [(true, "n2: task 2: Killed".to_string())]
        );
        assert_eq!(
            (tasks.exit_code(), tasks.wait_status()),
            (137, WaitStatus::signaled(9))
        );
        assert!(tasks.any_killed() && tasks.all_ended());
    }

    /// Success is silent unless -v.
    #[test]
    fn success() {
        let mut tasks = table();
        tasks.started(0);
        assert_eq!(tasks.summary(), ["task 2: unknown", "tasks 0-1: running"]);
        tasks.ended(0, WaitStatus::SUCCESS);
        assert!(tasks.report(false).is_empty());
        tasks.ended(1, WaitStatus::SUCCESS);
        assert_eq!(
            tasks.report(true),
            [(false, "n1: task 1: Completed".to_string())]
        );
        assert_eq!((tasks.exit_code(), tasks.running()), (0, vec![2]));
    }
}
