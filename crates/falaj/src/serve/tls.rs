//! TLS for the API over TCP: who the service is, and connections that are encrypted before a request is read.

use anyhow::{Context, Result, ensure};
use axum::serve::Listener;
use std::future::pending;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// Until both sides have agreed on keys it may take so long: whoever connects and says nothing is left then.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections at once: whoever holds more of them from elsewhere takes no descriptors from adapters.
const CONNECTIONS: usize = 128;

/// Who the service is: a chain of certificates and the key of the first, in PEM.
///
/// # Errors
/// Which file it is that cannot be read, or that they do not belong together.
pub(super) fn identity(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let of_certificate = || format!("--tls-cert {}", certificate.display());
    let of_key = || format!("--tls-key {}", key.display());
    let chain: Vec<CertificateDer<'_>> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect).with_context(of_certificate)?;
    ensure!(!chain.is_empty(), "{}: no certificate is in it; it has to be PEM (BEGIN CERTIFICATE)", of_certificate());
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("{}: it has to be a private key in PEM, without a password", of_key()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .with_context(|| format!("{} and {} cannot be used together", of_certificate(), of_key()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connections that are encrypted. They agree on keys beside each other: nobody waits for one that is slow.
pub(super) struct Encrypted {
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
    address: SocketAddr,
}

impl Encrypted {
    pub(super) fn new(listener: TcpListener, identity: TlsAcceptor) -> io::Result<Encrypted> {
        let address = listener.local_addr()?;
        let (send, ready) = mpsc::channel(1);
        tokio::spawn(accept(listener, identity, send));
        Ok(Encrypted { ready, address })
    }
}

async fn accept(mut listener: TcpListener, identity: TlsAcceptor, send: mpsc::Sender<(Connection, SocketAddr)>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        // axum's, which waits a while where no descriptor is left.
        let (stream, from) = Listener::accept(&mut listener).await;
        let (agreed, send) = (timeout(PATIENCE, identity.accept(stream)), send.clone());
        tokio::spawn(async move {
            // Who speaks something else, or trusts nobody here, has gone.
            if let Ok(Ok(stream)) = agreed.await {
                let _ = send.send((Connection { stream, _place: place }, from)).await;
            }
        });
    }
}

impl Listener for Encrypted {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(next) => next,
            // The service ends.
            None => pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// An encrypted connection, and its place among those that there may be.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TlsStream<TcpStream>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, task: &mut Task<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(task, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, task: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(task, bytes)
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(task, pieces)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(task)
    }
    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(task)
    }
}
