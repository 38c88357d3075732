//! Messages of a cluster in one process that take their time, as between sites.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Delivers each message when it is due. Messages that are due at one time keep their order.
pub(crate) struct Delays<M>(Sender<(Instant, M)>);

impl<M> Clone for Delays<M> {
    fn clone(&self) -> Delays<M> {
        Delays(self.0.clone())
    }
}

impl<M: Send + 'static> Delays<M> {
    /// Starts a thread that ends with the last handle; messages that are on their way are lost then.
    pub fn start(deliver: impl Fn(M) + Send + 'static) -> Delays<M> {
        let (sender, messages) = channel();
        std::thread::spawn(move || run(&messages, deliver));
        Delays(sender)
    }

    /// Delivers the message after that time.
    pub fn send(&self, after: Duration, message: M) {
        let _ = self.0.send((Instant::now() + after, message));
    }
}

fn run<M>(messages: &Receiver<(Instant, M)>, deliver: impl Fn(M)) {
    // By the time at which they are due, and their number.
    let mut waiting: BTreeMap<(Instant, u64), M> = BTreeMap::new();
    let mut number = 0;
    loop {
        let next =
            waiting.first_key_value().map(|((due, _), _)| due.saturating_duration_since(Instant::now()));
        match messages.recv_timeout(next.unwrap_or(Duration::from_secs(1))) {
            Ok((due, message)) => {
                number += 1;
                waiting.insert((due, number), message);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= Instant::now()) {
            deliver(first.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_delivered_in_the_order_in_which_they_are_due() {
        let (sender, delivered) = channel();
        let delays = Delays::start(move |message: u32| {
            let _ = sender.send(message);
        });
        delays.send(Duration::from_millis(40), 3);
        delays.send(Duration::from_millis(20), 1);
        delays.send(Duration::from_millis(20), 2);
        assert_eq!([(); 3].map(|()| delivered.recv().unwrap()), [1, 2, 3]);
        drop(delays);
        assert!(delivered.recv().is_err(), "the thread has ended");
    }
}
