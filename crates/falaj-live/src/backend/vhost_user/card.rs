//! A guest's network card (vhost-user-net): the rings of a virtual machine, in memory that its
//! machine monitor shares with falaj.
//!
//! The machine monitor (QEMU, Cloud Hypervisor, crosvm …) is the front-end, and connects; falaj is
//! the back-end. A separate thread exchanges messages with the monitor, so that an incomplete
//! message does not block packets; the forwarding thread reads and sends units. Both threads share
//! one lock, for which the forwarding thread does not wait: while the monitor changes something,
//! the port reports that there is nothing to read and no room.
//!
//! A unit has the same form as at a TAP: a virtio-net header and a frame. Units of many packets and
//! unfinished checksums are passed unchanged to a guest that supports them. For other guests the
//! units are split and the checksums completed.

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::device::CardDevice;
use crate::backend::frame;
use crate::backend::monitor::Monitor;
use crate::backend::name::InterfaceState;
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;

/// Pause between two connections of machine monitors, so that one that reconnects again and again
/// does not occupy a processor.
const PAUSE: Duration = Duration::from_millis(10);

/// A socket to which a machine monitor connects, and the card of its guest.
#[derive(Debug)]
pub struct VhostUser {
    path: PathBuf,
    shared: Arc<CardShared>,
    /// The state that was reported last.
    told: Cell<InterfaceState>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by both threads.
struct CardShared {
    device: Arc<Mutex<CardDevice>>,
    /// Poll set of the guest's kicks (notifications): readable when the guest may have sent a unit.
    kicks: Arc<Epoll>,
    /// Member of `kicks`: readable when rings may have started.
    changed: EventFd,
    /// Readable when the card may have appeared, disappeared, or changed.
    news: EventFd,
    /// Readable when the back-end is shutting down.
    over: EventFd,
    connection: Mutex<Option<UnixStream>>,
}

impl std::fmt::Debug for CardShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CardShared").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CardShared {
    fn new() -> io::Result<CardShared> {
        let event =
            || EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let kicks = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let changed = event()?;
        kicks.add(&changed, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
        Ok(CardShared {
            device: Arc::new(Mutex::new(CardDevice::new(Arc::clone(&kicks)))),
            kicks,
            changed,
            news: event()?,
            over: event()?,
            connection: Mutex::new(None),
        })
    }

    /// Reports that the card may have changed.
    fn tell(&self) {
        // If the counter is full, the descriptor is readable already.
        let _ = self.changed.write(1);
        let _ = self.news.write(1);
    }

    /// Waits for a machine monitor to connect; `None` at shutdown.
    fn accept(&self, listener: &UnixListener) -> Option<UnixStream> {
        loop {
            let mut fds = [
                PollFd::new(listener.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.over.as_fd(), PollFlags::POLLIN),
            ];
            let waited = poll(&mut fds, PollTimeout::NONE);
            if fds[1].any() == Some(true) {
                return None;
            }
            if waited.is_ok()
                && let Ok((stream, _)) = listener.accept()
            {
                return Some(stream);
            }
            // Perhaps there are no free descriptors: tries again later.
            thread::sleep(PAUSE);
        }
    }

    fn is_over(&self) -> bool {
        let mut fd = [PollFd::new(self.over.as_fd(), PollFlags::POLLIN)];
        poll(&mut fd, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Serves one machine monitor after the other.
    fn serve(&self, listener: &UnixListener) {
        while let Some(stream) = self.accept(listener) {
            *lock(&self.connection) = stream.try_clone().ok();
            if self.is_over() {
                return;
            }
            lock(&self.device).connect();
            self.tell();
            let mut handler = BackendReqHandler::from_stream(stream, Arc::clone(&self.device));
            let mut state = InterfaceState::Down;
            loop {
                match handler.handle_request() {
                    Ok(()) => {}
                    // QEMU enables rings before the feature for it is negotiated, and does not
                    // repeat the message.
                    Err(Error::InactiveFeature(_)) => lock(&self.device).enable(),
                    Err(_) => break,
                }
                let now = lock(&self.device).state();
                if std::mem::replace(&mut state, now) != now {
                    self.tell();
                }
            }
            lock(&self.device).disconnect();
            *lock(&self.connection) = None;
            self.tell();
            thread::sleep(PAUSE);
        }
    }
}

impl VhostUser {
    /// Listens for a machine monitor at a socket of this path; also returns the monitor of changes.
    /// The socket's file is removed when the returned value is dropped.
    ///
    /// # Errors
    /// Another process listens there, or the socket cannot be created.
    pub fn listen(path: &Path) -> io::Result<(VhostUser, Monitor)> {
        let listener = bind(path)?;
        let shared = Arc::new(CardShared::new()?);
        let monitor = Monitor::adopt(shared.news.as_fd().try_clone_to_owned()?);
        let servant = Arc::clone(&shared);
        // The new thread blocks all signals, because another thread handles them.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let thread = thread::Builder::new()
            .name("vhost-user".into())
            .spawn(move || servant.serve(&listener));
        mask.thread_set_mask()?;
        let (path, told) = (path.to_owned(), Cell::new(InterfaceState::Gone));
        Ok((VhostUser { path, shared, told, thread: Some(thread?) }, monitor))
    }

    /// The state of the card, if it has changed: gone without a machine monitor, down until the
    /// guest's driver has set the card up, then up.
    pub fn look(&self) -> Option<InterfaceState> {
        let now = lock(&self.shared.device).state();
        (self.told.replace(now) != now).then_some(now)
    }
}

/// Binds a socket at this path. A stale socket, at which no process listens, is removed first.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

impl Drop for VhostUser {
    fn drop(&mut self) {
        let _ = self.shared.over.write(1);
        if let Some(connection) = &*lock(&self.shared.connection) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_file(&self.path);
    }
}

/// A port at a guest's card.
///
/// The port never reports that it is gone: another machine monitor may connect.
#[derive(Debug)]
pub struct VhostUserPort {
    card: Rc<VhostUser>,
}

impl VhostUserPort {
    /// The port of this card.
    pub fn new(card: Rc<VhostUser>) -> VhostUserPort {
        VhostUserPort { card }
    }

    /// The card, unless the other thread is changing it.
    fn device(&self) -> Option<MutexGuard<'_, CardDevice>> {
        match self.card.shared.device.try_lock() {
            Ok(device) => Some(device),
            Err(TryLockError::Poisoned(device)) => Some(device.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Port for VhostUserPort {
    fn name(&self) -> String {
        format!("The guest at {}", self.card.path.display())
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Some(mut device) = self.device() else { return Ok(None) };
        let read = device.receive(buffer).or_else(|| {
            // This clears the kicks so far; later ones wake this thread. `ask` finds units that
            // were sent before. A guest with a malformed ring always claims to have sent something,
            // so the ring is read only once.
            let _ = self.card.shared.kicks.wait(&mut [EpollEvent::empty(); 2], EpollTimeout::ZERO);
            if device.ask() { device.receive(buffer) } else { None }
        });
        match read {
            Some(read) => Ok(Some(frame::received(&buffer[..read?]))),
            None => Ok(None),
        }
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        match self.device() {
            Some(mut device) => device.transmit(unit),
            None => Ok(false),
        }
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.card.shared.kicks.0.as_fd()
    }
}

impl PortHandover for VhostUserPort {}
