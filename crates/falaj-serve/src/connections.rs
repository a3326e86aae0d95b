//! Connections to the API: they are accepted, encrypted if configured, and served concurrently.
//!
//! A client is anonymous until one of its requests has the token. The connection of an anonymous
//! client has a time limit, so a client that sends nothing, or reads no answers, does not occupy a
//! connection for long.

use super::tls::Identity;
use axum::Router;
use axum::extract::Extension;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tower_layer::Layer;

/// Time limit of the TLS handshake, and of an anonymous connection after it. A request in progress
/// at that limit has the same time once more.
const PATIENCE: Duration = Duration::from_secs(10);
/// A client that reads nothing of a response or of events for this time is disconnected.
const UNREAD: Duration = Duration::from_secs(30);
/// Maximum pause between two requests of an authenticated client; longer than the interval of
/// clients that poll once a minute.
const SILENCE: Duration = Duration::from_secs(90);
/// Maximum number of connections of a listening socket, so that clients do not exhaust the
/// descriptors that adapters need.
const CONNECTIONS: usize = 128;

/// The state of a connection: true once the client is authenticated.
#[derive(Clone, Default)]
pub(super) struct AuthState(Arc<AtomicBool>);

impl AuthState {
    /// State of a connection through the Unix socket: each client that may open the socket is
    /// authenticated.
    pub(super) fn authenticated() -> AuthState {
        AuthState(Arc::new(AtomicBool::new(true)))
    }

    /// Marks the client as authenticated by the token.
    pub(super) fn mark_authenticated(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves connections. `known` returns the initial state of a new connection.
pub(super) async fn answer<L: Listener>(
    mut listener: L,
    identity: Option<Arc<Identity>>,
    router: Router,
    known: fn() -> AuthState,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        // If no file descriptor is left, `accept` waits for one.
        let (stream, _) = listener.accept().await;
        let (identity, router) = (identity.as_ref().map(|is| is.acceptor()), router.clone());
        tokio::spawn(async move {
            let _place = place;
            match identity {
                None => talk(stream, router, known()).await,
                Some(identity) => {
                    // If the handshake fails, for example with another protocol or an untrusted
                    // certificate, the connection ends.
                    if let Ok(Ok(stream)) = timeout(PATIENCE, identity.accept(stream)).await {
                        talk(stream, router, known()).await;
                    }
                }
            }
        });
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    known: AuthState,
) {
    // The layer is outside the router: a layer of the router would copy every route for each
    // connection.
    let router = TowerToHyperService::new(Extension(known.clone()).layer(router));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD));
    let stream = TokioIo::new(Box::pin(stream));
    let mut connection = pin!(http.serve_connection(stream, router));
    // How the connection ends does not matter here.
    if timeout(PATIENCE, connection.as_mut()).await.is_err() && !known.is() {
        // A request in progress may still complete: a client that has the token has sent the token
        // by then.
        connection.as_mut().graceful_shutdown();
        let ended = timeout(PATIENCE, connection.as_mut()).await.is_ok();
        if ended || !known.is() {
            return;
        }
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::AsyncWriteExt;
    use tokio::time::Instant;

    /// A client that stops reading is disconnected, even if it is authenticated.
    #[test]
    fn a_client_that_does_not_read_is_disconnected() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(1_024);
            let router = Router::new().route("/", get(|| async { "x".repeat(1 << 20) }));
            client.write_all(b"GET / HTTP/1.1\r\nHost: falaj\r\n\r\n").await.expect("it reads");
            let began = Instant::now();
            talk(server, router, AuthState::authenticated()).await;
            let passed = began.elapsed();
            assert!(passed >= UNREAD && passed < 2 * UNREAD, "{passed:?}");
        });
    }
}
