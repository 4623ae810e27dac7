//! Who waits for news of a job: `sbatch --wait`, `srun`, `salloc`. A change wakes only those who watch that job.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sluice_model::ids::JobId;
use tokio::sync::Notify;

#[derive(Default)]
struct Table {
    by_job: HashMap<JobId, HashMap<u64, Arc<Notify>>>,
    next: u64,
}

/// All watchers.
#[derive(Default)]
pub struct Watchers {
    table: Mutex<Table>,
}

/// One watcher; forgotten when dropped.
pub struct Watch {
    watchers: Arc<Watchers>,
    job: JobId,
    number: u64,
    notify: Arc<Notify>,
}

impl Watchers {
    /// Watches a job (or an array by its id). Changes from now on are not missed.
    #[must_use]
    pub fn watch(self: &Arc<Self>, job: JobId) -> Watch {
        let notify = Arc::new(Notify::new());
        let mut table = self.table.lock();
        table.next += 1;
        let number = table.next;
        table
            .by_job
            .entry(job)
            .or_default()
            .insert(number, Arc::clone(&notify));
        Watch {
            watchers: Arc::clone(self),
            job,
            number,
            notify,
        }
    }

    /// The job (its array's id) changed.
    pub fn changed(&self, job: JobId) {
        if let Some(watchers) = self.table.lock().by_job.get(&job) {
            for notify in watchers.values() {
                notify.notify_one();
            }
        }
    }
}

impl Watch {
    /// Waits for a change.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = self.watchers.table.lock();
        if let Some(watchers) = table.by_job.get_mut(&self.job) {
            watchers.remove(&self.number);
            if watchers.is_empty() {
                table.by_job.remove(&self.job);
            }
        }
    }
}
