//! TLS for the API over TCP: the identity of the service.

use super::secret::warn_of_readers;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The identity of the service. It can be read again; after that, new connections use the new
/// identity.
pub(super) struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    acceptor: RwLock<TlsAcceptor>,
}

impl Identity {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    /// The same as those of [`identity`].
    pub(super) fn read(certificate: &Path, key: &Path) -> Result<Arc<Identity>> {
        let acceptor = RwLock::new(identity(certificate, key)?);
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Arc::new(Identity { certificate, key, acceptor }))
    }

    /// Reads the certificate and the key again.
    ///
    /// # Errors
    /// The same as those of [`identity`]. After an error the previous identity stays in use.
    pub(super) fn read_again(&self) -> Result<()> {
        let acceptor = identity(&self.certificate, &self.key)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// The acceptor for new connections.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the identity of the service: a chain of certificates, and the private key of the first
/// certificate, in PEM.
///
/// # Errors
/// A file cannot be read (the message names it), or the certificate and the key do not match.
fn identity(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let of_certificate = || format!("--tls-cert {}", certificate.display());
    let of_key = || format!("--tls-key {}", key.display());
    let chain: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(of_certificate)?;
    ensure!(
        !chain.is_empty(),
        "{}: the file has no certificate; it must be PEM (BEGIN CERTIFICATE)",
        of_certificate()
    );
    warn_of_readers("--tls-key", key);
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| {
        format!("{}: the file must have a private key in PEM, without a password", of_key())
    })?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .with_context(|| {
            format!("{} and {} cannot be used together", of_certificate(), of_key())
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
