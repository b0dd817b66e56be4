//! Work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a watcher hears how far it is.
const BETWEEN: Duration = Duration::from_millis(100);

/// How work is done.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// So many items are worked on before their outcomes are taken, which bounds the memory.
    pub batch: usize,
}

impl Plan {
    /// Works on items and hands out the outcomes, in the order of the items. Each thread has a state of its own. The
    /// watcher hears now and then how many items are done.
    pub fn run<I: Sync, S, T: Send, E>(
        self,
        items: &[I],
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &I) -> T + Sync,
        watch: &mut dyn FnMut(usize),
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let mut before = 0;
        for batch in items.chunks(self.batch.max(1)) {
            if workers.min(batch.len()) == 1 {
                let mut state = state();
                for item in batch {
                    take(work(&mut state, item))?;
                    before += 1;
                    watch(before);
                }
                continue;
            }
            let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let (busy, idle) = (Mutex::new(workers.min(batch.len())), Condvar::new());
            let one = || {
                let _leave = Leave { busy: &busy, idle: &idle };
                let (mut state, mut outcomes) = (state(), Vec::new());
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = batch.get(place) else { break };
                    outcomes.push((place, work(&mut state, item)));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                outcomes
            };
            let mut outcomes = thread::scope(|scope| {
                let threads: Vec<_> = (0..workers.min(batch.len())).map(|_| scope.spawn(one)).collect();
                let mut left = busy.lock().unwrap_or_else(PoisonError::into_inner);
                while *left > 0 {
                    left = idle.wait_timeout(left, BETWEEN).unwrap_or_else(PoisonError::into_inner).0;
                    watch(before + done.load(Ordering::Relaxed));
                }
                drop(left);
                let joined =
                    threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                joined.flatten().collect::<Vec<_>>()
            });
            outcomes.sort_unstable_by_key(|(place, _)| *place);
            before += batch.len();
            watch(before);
            outcomes.into_iter().try_for_each(|(_, outcome)| take(outcome))?;
        }
        Ok(())
    }
}

/// Says that a thread is done, also when it panics.
struct Leave<'l> {
    busy: &'l Mutex<usize>,
    idle: &'l Condvar,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.idle.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn outcomes_come_in_order_and_an_error_ends_it() {
        for batch in [1, 7, 1_000] {
            let items: Vec<u32> = (0..100).collect();
            let (mut taken, mut heard) = (Vec::new(), 0);
            let outcome = Plan { batch }.run(
                &items,
                || 1,
                |one, item| item + *one,
                &mut |done| heard = done,
                |outcome| {
                    taken.push(outcome);
                    if outcome == 90 { Err("enough") } else { Ok(()) }
                },
            );
            assert_eq!(outcome, Err("enough"));
            assert_eq!(taken, (1..=90).collect::<Vec<_>>());
            assert!(heard >= 89, "{heard}");
        }
    }
}
