//! Work on all cores.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a watcher hears how far it is.
const BETWEEN: Duration = Duration::from_millis(100);

/// How work is done.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// So many items are worked on, or done and waiting, at a time, while as many at most are taken. That bounds the
    /// memory.
    pub window: usize,
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
        let window = self.window.max(1);
        // To ask for the number of cores takes longer than a small item.
        let most = window.min(items.len());
        let workers = if most > 1 { thread::available_parallelism().map_or(1, usize::from).min(most) } else { 1 };
        if workers <= 1 {
            let mut state = state();
            for (place, item) in items.iter().enumerate() {
                take(work(&mut state, item))?;
                watch(place + 1);
            }
            return Ok(());
        }
        let progress = Mutex::new(Progress::new(workers));
        let desk = Desk { progress, done: Condvar::new(), room: Condvar::new(), items: items.len(), window };
        let one = || {
            let _leave = Leave(&desk);
            let mut state = state();
            while let Some(place) = desk.next() {
                let outcome = work(&mut state, &items[place]);
                desk.give(place, outcome);
            }
        };
        thread::scope(|scope| {
            (0..workers).for_each(|_| drop(scope.spawn(one)));
            // However this ends, nobody begins with another item.
            let _close = Close(&desk);
            loop {
                let (outcomes, done, over) = desk.take();
                watch(done);
                outcomes.into_iter().try_for_each(&mut take)?;
                if over {
                    return Ok(());
                }
            }
        })
    }
}

/// Where outcomes lie until they are taken.
struct Desk<T> {
    progress: Mutex<Progress<T>>,
    /// An outcome has come, or a thread has left.
    done: Condvar,
    /// Outcomes were taken, or no more are wanted.
    room: Condvar,
    items: usize,
    window: usize,
}

struct Progress<T> {
    /// The next item to work on.
    next: usize,
    /// The first item whose outcome was not taken.
    first: usize,
    /// The outcomes from that one on, as far as they have come.
    outcomes: VecDeque<Option<T>>,
    /// How many items are done.
    done: usize,
    /// How many threads work.
    busy: usize,
    /// No more are wanted.
    closed: bool,
}

impl<T> Progress<T> {
    fn new(busy: usize) -> Self {
        Self { next: 0, first: 0, outcomes: VecDeque::new(), done: 0, busy, closed: false }
    }

    /// Whether the next outcome in order is there.
    fn is_ready(&self) -> bool {
        matches!(self.outcomes.front(), Some(Some(_)))
    }
}

impl<T> Desk<T> {
    fn lock(&self) -> MutexGuard<'_, Progress<T>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next item to work on, once there is room for its outcome.
    fn next(&self) -> Option<usize> {
        let progress = self.lock();
        let full = |progress: &mut Progress<T>| !progress.closed && progress.next >= progress.first + self.window;
        let mut progress = self.room.wait_while(progress, full).unwrap_or_else(PoisonError::into_inner);
        if progress.closed || progress.next >= self.items {
            return None;
        }
        progress.next += 1;
        progress.outcomes.push_back(None);
        Some(progress.next - 1)
    }

    fn give(&self, place: usize, outcome: T) {
        let mut progress = self.lock();
        progress.done += 1;
        let place = place - progress.first;
        if let Some(free) = progress.outcomes.get_mut(place) {
            *free = Some(outcome);
        }
        if self.is_worth(&progress) {
            self.done.notify_one();
        }
    }

    /// Whether to wake who takes them. For each one alone, that would cost more than many of them take to make.
    fn is_worth(&self, progress: &Progress<T>) -> bool {
        let waiting = progress.done - progress.first;
        progress.is_ready() && (2 * waiting >= self.window || progress.done == self.items)
    }

    /// The next outcomes in order, how many items are done, and whether no more outcomes come. Waits for them, but not
    /// longer than a watcher wants to wait.
    fn take(&self) -> (Vec<T>, usize, bool) {
        let idle = |progress: &mut Progress<T>| progress.busy > 0 && !self.is_worth(progress);
        let waited = self.done.wait_timeout_while(self.lock(), BETWEEN, idle);
        let mut progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        let mut outcomes = Vec::new();
        while progress.is_ready() {
            outcomes.extend(progress.outcomes.pop_front().flatten());
        }
        progress.first += outcomes.len();
        self.room.notify_all();
        // A thread that has panicked leaves an outcome out, which the scope tells.
        (outcomes, progress.done, progress.busy == 0 || progress.first == self.items)
    }
}

/// Says that a thread is done, also when it panics.
struct Leave<'d, T>(&'d Desk<T>);

impl<T> Drop for Leave<'_, T> {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        progress.busy -= 1;
        // Without an outcome that never comes, the others would wait for ever.
        progress.closed |= thread::panicking();
        self.0.room.notify_all();
        self.0.done.notify_one();
    }
}

/// Says that nothing more is wanted.
struct Close<'d, T>(&'d Desk<T>);

impl<T> Drop for Close<'_, T> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn outcomes_come_in_order_and_an_error_ends_it() {
        for window in [1, 2, 7, 1_000] {
            let items: Vec<u32> = (0..100).collect();
            let (mut taken, mut heard) = (Vec::new(), 0);
            let outcome = Plan { window }.run(
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

    #[test]
    fn a_panic_is_passed_on_and_not_waited_for() {
        let items: Vec<u32> = (0..100).collect();
        let mut taken = Vec::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let work = |(): &mut (), item: &u32| {
                assert_ne!(*item, 50, "as it should");
                *item
            };
            Plan { window: 4 }.run(
                &items,
                || (),
                work,
                &mut |_| (),
                |item| {
                    taken.push(item);
                    Ok::<(), std::convert::Infallible>(())
                },
            )
        }));
        assert!(outcome.is_err());
        assert!(items[..50].starts_with(&taken), "{taken:?}");
    }
}
