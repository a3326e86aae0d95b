//! Makes the scheduled changes of a running link, each as a request of `falaj set` at its time.

use crate::handler::{Handler, set};
use crate::protocol::SetRequest;
use falaj_live::clock::Clock;
use falaj_live::priority::{Rank, be_punctual};
use falaj_scenario::Schedule;
use falaj_sched::units::time::Time;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread that waits for the next change; it ends when this is dropped.
pub(crate) struct Timetable {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Timetable {
    /// Starts the thread. Times of changes count from `zero`, the start of the run.
    pub(crate) fn begin(
        changes: Schedule,
        handler: Arc<Mutex<Handler>>,
        (clock, zero): (Clock, Time),
    ) -> io::Result<Timetable> {
        let (stop, stopped) = channel();
        let make = move || {
            be_punctual(Rank::Sender);
            for change in changes.iter() {
                let request = SetRequest { set: change.sets.to_vec(), ..SetRequest::default() };
                if !wait(clock, zero + change.at, &stopped) {
                    return;
                }
                let made = set(&handler, &request);
                if let Err(refusal) = made
                    && stopped.try_recv() == Err(TryRecvError::Empty)
                {
                    let why = refusal.remarks.iter().map(|remark| &remark.title);
                    let why: Vec<&str> =
                        std::iter::once(&refusal.what).chain(why).map(String::as_str).collect();
                    note!("warning: the change at {} was not made: {}", change.at, why.join("; "));
                }
            }
        };
        let thread = std::thread::Builder::new().name("changes".into()).spawn(make)?;
        Ok(Timetable { stop: Some(stop), thread: Some(thread) })
    }

    /// Tells the thread to end, and does not wait for it.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }
}

impl Drop for Timetable {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until this instant. Returns false if the link has ended.
fn wait(clock: Clock, until: Time, stopped: &Receiver<()>) -> bool {
    let left = Duration::from_nanos(clock.until(until).0);
    stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}
