//! Connections to the API: taken, encrypted where that was asked for, and answered, each beside the
//! others.
//!
//! Whoever connects is a stranger until a request of his bears the token, and a stranger's
//! connection has an end: who says nothing, or does not listen to what is said, holds a place for a
//! while and no longer.

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

/// Until both sides have agreed on keys it may take so long, and as long a stranger's connection
/// lasts from then on.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who reads nothing of an answer, or of events, for so long is let go.
const UNREAD: Duration = Duration::from_secs(30);
/// Who is known may be silent so long between two requests: longer than those are who ask once a
/// minute.
const SILENCE: Duration = Duration::from_secs(90);
/// So many connections at once: whoever holds more of them takes no descriptors from adapters.
const CONNECTIONS: usize = 128;

/// Whether somebody is known who connected.
#[derive(Clone, Default)]
pub(super) struct Acquaintance(Arc<AtomicBool>);

impl Acquaintance {
    /// Everybody is, who may open the socket.
    pub(super) fn everybody() -> Acquaintance {
        Acquaintance(Arc::new(AtomicBool::new(true)))
    }

    /// By the token.
    pub(super) fn greet(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Answers whoever connects. `known` says of a new connection whether it is a stranger's.
pub(super) async fn answer<L: Listener>(
    mut listener: L,
    identity: Option<Arc<Identity>>,
    router: Router,
    known: fn() -> Acquaintance,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        // Waits a while where no descriptor is left.
        let (stream, _) = listener.accept().await;
        let (identity, router) = (identity.as_ref().map(|is| is.acceptor()), router.clone());
        tokio::spawn(async move {
            let _place = place;
            match identity {
                None => talk(stream, router, known()).await,
                Some(identity) => {
                    // Who speaks something else, or trusts nobody here, has gone.
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
    known: Acquaintance,
) {
    // Around the router: a layer of its own would copy every route, for each connection.
    let router = TowerToHyperService::new(Extension(known.clone()).layer(router));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD));
    let stream = TokioIo::new(Box::pin(stream));
    let mut connection = pin!(http.serve_connection(stream, router));
    // How it ended is the other side's affair.
    if timeout(PATIENCE, connection.as_mut()).await.is_err() && !known.is() {
        // What is being asked or answered may still end: whoever has the token shows it by then.
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

    /// A reader that stops reading holds no place for ever, even if it is known.
    #[test]
    fn who_reads_nothing_is_let_go() {
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
            talk(server, router, Acquaintance::everybody()).await;
            let passed = began.elapsed();
            assert!(passed >= UNREAD && passed < 2 * UNREAD, "{passed:?}");
        });
    }
}
