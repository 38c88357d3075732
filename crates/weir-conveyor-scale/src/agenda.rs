//! The events to come of a simulation, in the order of their times; those of one time in the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events to come. Scheduling and taking one take time with the logarithm of their number.
pub struct Agenda<E> {
    /// Time, number, and place in `events`.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<E>>,
    free: Vec<usize>,
    scheduled: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { queue: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), scheduled: 0 }
    }
}

impl<E> Agenda<E> {
    pub fn schedule(&mut self, at_ns: u64, event: E) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.scheduled += 1;
        self.queue.push(Reverse((at_ns, self.scheduled, place)));
    }

    /// Takes the next event with its time, unless that is later.
    pub fn next_until(&mut self, until_ns: u64) -> Option<(u64, E)> {
        let Reverse((at_ns, _, place)) = *self.queue.peek()?;
        if at_ns > until_ns {
            return None;
        }
        self.queue.pop();
        self.free.push(place);
        Some((at_ns, self.events[place].take()?))
    }
}
